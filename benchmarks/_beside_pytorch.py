"""Training steps of flambeau and its peers, each library in its own process.

In one process the threads of one library would occupy the cores while another's run. Each column of
the table is therefore a child process, and only one child runs at a time: the others are stopped by
a signal, with all of their threads. The measurements are interleaved in rounds.

On one core the benchmark measures process time, which other programs do not affect; on all cores it
measures wall clock, which needs an otherwise idle machine.
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

from _cores import OPTIONS, SETTING, WHAT, is_asked_for
from _results import keep

ROUNDS = 9
SECONDS_PER_ROUND = 0.06

#: Maps a library, the name of a row and whether to compile to a step without arguments that returns
#: the tensors it computes, and to a number that must agree between libraries, or None.
Prepare = Callable[[ModuleType, str, bool], tuple[Callable[[], list[Any]], float | None]]


class Column(NamedTuple):
    """A library and its mode.

    Attributes:
        name: The name in the table and of the child.
        library: The module.
        compiles: Whether the step is compiled.
        environment: Additional environment variables of the child.
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
    """Print the table, or run as one of its child processes.

    Args:
        title: The title of the table.
        prepare: Creates the steps, in a child.
        rows: The names of the rows, each with its limits: for some columns, the maximum ratio of
            the time of the column ``judged`` to that column's.
        more: Columns in addition to the default ones.
        judged: The name of the column that has limits.
        memory: Also print the peak memory that each row adds to its process, on Linux.
    """
    columns = [*COLUMNS, *more]
    if OPTIONS.column:
        _serve(next(each for each in columns if each.name == OPTIONS.column), prepare)
    else:
        _compare(title, rows, _possible(columns), judged, memory)


# In a child.


def _serve(column: Column, prepare: Prepare) -> None:
    """Answer each line of the input: a row's name and the number of calls of its step."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Output of the libraries must not mix with the answers.
    library = importlib.import_module(column.library)
    name, step, number, before = None, None, None, 0.0
    for line in sys.stdin:
        wanted, calls = json.loads(line)
        try:
            if wanted != name:
                step = None
                gc.collect()
                if column.library == "torch":
                    # PyTorch compiles a function at most eight times, then falls back to eager.
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
    """The peak memory of this process in MB; ``anew`` resets the peak first."""
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
    # As in a training loop, the next call does not wait for a result.
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
    # The loss of an eager step is ready before its parameters are.
    jax.block_until_ready(jax.live_arrays())


# In the parent process.


class FailedError(Exception):
    """The reason why a child has no time for a row."""


class _Child:
    """A child process with one library, which is stopped while idle."""

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
        """Prepare the step; returns the number of calls per measurement."""
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
    """The median time of a call and the peak memory, by column that can run the row."""
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
    missed, kept = [], {}
    with _children(columns) as children:
        for row, limits in rows.items():
            if not is_asked_for(row):
                continue
            times, memory = _medians(children, row)
            base = times["PyTorch"]
            kept[row] = {each: times[each] / base for each in ratios if each in times}
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
    if not OPTIONS.only:
        keep(f"{Path(sys.argv[0]).stem}.{SETTING}", kept)
