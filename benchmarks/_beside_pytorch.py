"""Steps of flambeau beside those of its peers, each library in a process of its own.

In one process the threads of one library keep the cores busy while another's work. So each column
of the table is a child, and one child at a time runs: the others are stopped by a signal meanwhile,
with all of their threads. The children take turns, round after round.

On one core the times are those of the process, which other people's programs do not lengthen; on
all cores they are wall clock, which needs an otherwise idle machine.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NamedTuple, Self

from _cores import OPTIONS, WHAT, is_asked_for

ROUNDS = 9
SECONDS_PER_ROUND = 0.06

#: From a library, the name of a row and whether to compile: a step without arguments that gives
#: the tensors which it computes, and a number that all libraries must agree about, if it has one.
Prepare = Callable[[ModuleType, str, bool], tuple[Callable[[], list[Any]], float | None]]


class Column(NamedTuple):
    """A library and a way to use it.

    Attributes:
        name: The table's and the child's name for it.
        library: The module.
        compiles: Whether the step is compiled.
        environment: Variables that the child has beside its parent's.
    """

    name: str
    library: str
    compiles: bool
    environment: Mapping[str, str] = {}


COLUMNS = (
    Column("PyTorch", "torch", False),
    Column("torch.compile", "torch", True, {"TORCHINDUCTOR_COMPILE_THREADS": "1"}),
    Column("eager", "flambeau", False),
    Column("compiled", "flambeau", True),
)
if OPTIONS.device == "cpu":
    COLUMNS += (Column("no kernels", "flambeau", True, {"FLAMBEAU_KERNELS": "0"}),)


def run(
    title: str,
    prepare: Prepare,
    rows: Mapping[str, Mapping[str, float]],
    *more: Column,
    judged: str = "compiled",
    memory: bool = False,
) -> None:
    """Print the table, or be one of its children.

    Args:
        title: What is timed.
        prepare: Makes the steps, in a child.
        rows: The names of the rows, each with its limits: for some columns, how much of that
            column's time the column ``judged`` may take.
        more: Columns beside those that every table has.
        judged: The name of the column that has limits.
        memory: Print the peak of memory that each row adds to its process as well, on Linux.
    """
    columns = [*COLUMNS, *more]
    if OPTIONS.column:
        _serve(next(each for each in columns if each.name == OPTIONS.column), prepare)
    else:
        _compare(title, rows, _possible(columns), judged, memory)


# In a child.


def _serve(column: Column, prepare: Prepare) -> None:
    """Answer each line of the input: a row's name and how often to call its step."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What libraries print is not an answer.
    library = importlib.import_module(column.library)
    name, step, number, before = None, None, None, 0.0
    for line in sys.stdin:
        wanted, calls = json.loads(line)
        try:
            if wanted != name:
                step = None
                gc.collect()
                if column.library == "torch":
                    # PyTorch compiles a function eight times at most, then runs it eagerly.
                    library.compiler.reset()
                before = _peak_of_memory(anew=True)
                step, number = prepare(library, wanted, column.compiles)
                name = wanted
            answer = {"seconds": _timed(column, step, calls), "number": number}
            answer["memory"] = _peak_of_memory() - before
        except Exception as error:  # noqa: BLE001 - the parent says why the column is empty.
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(answer), file=answers, flush=True)


def _peak_of_memory(*, anew: bool = False) -> float:
    """The most memory that this process has held, in MB; from now on, if ``anew``."""
    try:
        if anew:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        return float("nan")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _timed(column: Column, step: Any, calls: int) -> float:
    """The time of one call, in seconds."""
    clock = time.perf_counter if OPTIONS.all_cores else time.process_time
    gc.collect()
    start = clock()
    for _ in range(calls):
        results = step()
    # As in a training loop, nobody waits for a result before the next call.
    _wait_for(results, column.library)
    return (clock() - start) / calls


def _wait_for(results: list[Any], library: str) -> None:
    if library == "torch":
        if OPTIONS.device == "cuda":
            from torch import cuda

            cuda.synchronize()
        return
    import jax

    jax.block_until_ready([getattr(each, "jax", lambda each=each: each)() for each in results])
    # The loss of an eager step is there before its parameters are.
    jax.block_until_ready(jax.live_arrays())


# In the parent.


class FailedError(Exception):
    """A child has no time for a row, for this reason."""


class _Child:
    """A process with one library, which is stopped while it is not asked."""

    def __init__(self, column: Column) -> None:
        self.column = column
        environment = {**os.environ, **column.environment}
        if not OPTIONS.all_cores:
            environment["OMP_NUM_THREADS"] = "1"
        self.process = subprocess.Popen(
            [sys.executable, *sys.argv, "--column", column.name],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.process.send_signal(signal.SIGSTOP)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.process.kill()
        self.process.wait()

    def ask(self, row: str, calls: int) -> dict[str, Any]:
        self.process.send_signal(signal.SIGCONT)
        try:
            print(json.dumps([row, calls]), file=self.process.stdin, flush=True)
            answer = json.loads(self.process.stdout.readline() or '{"error": "it has ended"}')
        except BrokenPipeError:
            answer = {"error": "it has ended"}
        finally:
            self.process.send_signal(signal.SIGSTOP)
        if "error" in answer:
            raise FailedError(answer["error"])
        return answer

    def calls_for(self, row: str) -> int:
        """How many calls fill a turn; prepares the step."""
        self.ask(row, 2)
        seconds = self.ask(row, 3)["seconds"]
        return max(1, int(SECONDS_PER_ROUND / max(seconds, 1e-7)))


@contextlib.contextmanager
def _children(columns: list[Column]) -> Iterator[list[_Child]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_Child(each)) for each in columns]


def _possible(columns: list[Column]) -> list[Column]:
    if shutil.which(os.environ.get("CXX", "g++")):
        return columns
    print("torch.compile is left out: it needs a C++ compiler, and there is no g++")
    return [each for each in columns if each.name != "torch.compile"]


def _medians(children: list[_Child], row: str) -> tuple[dict[str, float], dict[str, float]]:
    """The median time of a call, and the peak of memory, by each column that can run the row."""
    calls, numbers = {}, {}
    for child in children:
        name = child.column.name
        try:
            calls[name] = child.calls_for(row)
            number = child.ask(row, 1)["number"]
            if number is not None:
                numbers[name] = number
        except FailedError as error:
            print(f"{row} by {name}: {error}", flush=True)
    unlike = {name: each for name, each in numbers.items() if not _is_close(each, numbers)}
    if unlike:
        raise AssertionError(f"{row}: the columns disagree, {numbers}")
    times: dict[str, list[float]] = {name: [] for name in calls}
    memory: dict[str, float] = {}
    order = [each for each in children if each.column.name in calls]
    for _ in range(ROUNDS):
        for child in order:
            name = child.column.name
            answer = child.ask(row, calls[name])
            times[name].append(answer["seconds"])
            memory[name] = answer["memory"]
        order.reverse()
    return {name: statistics.median(each) for name, each in times.items()}, memory


def _is_close(number: float, numbers: Mapping[str, float]) -> bool:
    first = next(iter(numbers.values()))
    return abs(number - first) <= 0.01 * abs(first)


def _compare(
    title: str,
    rows: Mapping[str, Mapping[str, float]],
    columns: list[Column],
    judged: str,
    with_memory: bool,
) -> None:
    start = time.perf_counter()
    ratios = [each.name for each in columns if each.name != "PyTorch"]
    print(f"{title}, medians of {ROUNDS} rounds, {WHAT}, ratios to PyTorch eager")
    print(f"{'':42} {'PyTorch':>10} {''.join(f'{each:>14}' for each in ratios)}")
    missed = []
    with _children(columns) as children:
        for row, limits in rows.items():
            if not is_asked_for(row):
                continue
            times, memory = _medians(children, row)
            base = times["PyTorch"]
            cells = [f"{times[each] / base:14.2f}" if each in times else f"{'-':>14}"
                     for each in ratios]  # fmt: skip
            print(f"{row:42} {base * 1e3:7.2f} ms {''.join(cells)}", flush=True)
            if with_memory:
                cells = [f"{memory.get(each, float('nan')):14.0f}" for each in ratios]
                label = "    peak of memory, MB"
                print(f"{label:42} {memory['PyTorch']:10.0f} {''.join(cells)}", flush=True)
            missed += [
                f"{row}: {times[judged] / times[column]:.2f} of {column}, at most {limit}"
                for column, limit in limits.items()
                if {column, judged} <= times.keys() and times[judged] > limit * times[column]
            ]
    print(f"{judged}, above the limit in this run:", *(missed or ["none"]), sep="\n  ")
    print(f"{time.perf_counter() - start:.0f} s")
