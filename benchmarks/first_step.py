"""The start-up time of training: import, build, first and second step of three models.

Each row is a new process, so only caches on disk are warm: Python's bytecode, and the libraries'
persistent compilation caches. Each row is measured twice, with an empty cache (cold) and with the
cache that the cold process has filled (warm). Each round interleaves all rows.

    python benchmarks/first_step.py                  every model, three rounds, wall clock
    python benchmarks/first_step.py --before PATH    also flambeau from another folder
    python benchmarks/first_step.py --only gpt       only models whose name contains this
    python benchmarks/first_step.py --peers jax      only peers whose names begin with one of these
    python benchmarks/first_step.py --process-time   on a busy machine

The start is the time from the import's end to the second step's: build, first step, second step.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from _results import keep

STEADY_STEPS = 7
COLUMNS = ("import", "build", "first", "second", "steady")
MODELS = {
    "perceptron": "Perceptron, 3 layers, batch 128",
    "residual_network": "Residual network, 14 layers, 32 x 32 x 32",
    "gpt": "GPT, 4 layers, 8 x 128 words",
}

Times = dict[str, float]
Run = Callable[[], Any]


class Peer(NamedTuple):
    """A library and its mode.

    Attributes:
        name: The name in the table.
        start: The function of this file, named by a child's argument, that imports it.
        keeps: Whether it has a persistent cache, and thus a cold and a warm row.
        before: Whether it runs another folder's flambeau.
    """

    name: str
    start: str
    keeps: bool = True
    before: bool = False


PEERS = [
    Peer("flambeau eager", "flambeau_eager"),
    Peer("before, eager", "flambeau_eager", before=True),
    Peer("flambeau compiled", "flambeau_compiled"),
    Peer("before, compiled", "flambeau_compiled", before=True),
    Peer("PyTorch eager", "pytorch_eager", keeps=False),
    Peer("torch.compile of the model", "pytorch_compiled"),
    Peer("JAX by hand", "jax_by_hand"),
    Peer("NNX of Flax", "flax_nnx"),
]


# In a child: each function imports its library and returns a builder of the model and of a step
# that waits for all of its results.


def flambeau_eager(compiled: bool = False) -> Callable[[str], Run]:
    import jax

    import flambeau

    def build(model: str) -> Run:
        step, module = _case_step(flambeau, model)
        parameters = list(module.parameters())
        if compiled:
            step = flambeau.compile(step)

        def run() -> Any:
            loss = step()
            jax.block_until_ready([each.jax() for each in parameters])
            return loss.item()

        return run

    return build


def flambeau_compiled() -> Callable[[str], Run]:
    return flambeau_eager(compiled=True)


def pytorch_eager() -> Callable[[str], Run]:
    import torch

    def build(model: str) -> Run:
        step, _ = _case_step(torch, model)
        return lambda: step().item()

    return build


def pytorch_compiled() -> Callable[[str], Run]:
    import torch

    def build(model: str) -> Run:
        step, module = _case_step(torch, model)
        module.compile()
        return lambda: step().item()

    return build


def jax_by_hand() -> Callable[[str], Run]:
    import jax
    import jax.numpy as jnp

    def build(model: str) -> Run:
        import _models_in_jax

        case = _case(model)
        state = _models_in_jax.start_of(model)
        step = _models_in_jax.step_of(model)
        input, target = jnp.asarray(case.input), jnp.asarray(case.target)

        def run() -> Any:
            nonlocal state
            loss, state = step(state, input, target)
            jax.block_until_ready(state)
            return float(loss)

        return run

    return build


def flax_nnx() -> Callable[[str], Run]:
    import _models_in_nnx

    def build(model: str) -> Run:
        case = _case(model)
        step = _models_in_nnx.build(model, case.input, case.target)
        return lambda: float(step())

    return build


def _case(model: str) -> Any:
    from _models import CASES

    return next(case for case in CASES if case.name == MODELS[model])


def _case_step(lib: Any, model: str) -> tuple[Run, Any]:
    from _models import step_of

    return step_of(lib, _case(model))


def child(start: str, model: str, process_time: bool) -> Times:
    """The times of one process, in seconds."""
    clock = _process_time if process_time else time.perf_counter
    at = [clock()]
    build = globals()[start]()
    at.append(clock())
    import _models  # noqa: F401 - excludes the batches from the timing.

    offset = clock() - at[-1]
    run = build(model)
    at.append(clock() - offset)
    for _ in range(2 + STEADY_STEPS):
        loss = run()
        at.append(clock() - offset)
    if not loss < 10:
        raise AssertionError(f"{start} of {model} does not train: its loss is {loss}")
    took = [after - before for before, after in pairwise(at)]
    return dict(zip(COLUMNS, [*took[:4], statistics.median(took[4:])], strict=True))


def _process_time() -> float:
    """The CPU time of this process and its children, such as a C++ compiler."""
    used = [resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def check(model: str) -> None:
    """Compare the losses of plain JAX with flambeau's, from the same parameters."""
    import _models_in_jax
    import jax.numpy as jnp
    import numpy as np

    import flambeau

    case = _case(model)
    step, module = _case_step(flambeau, model)
    step = flambeau.compile(step)

    def arrays(named: Any) -> Any:
        return {key: jnp.asarray(each.detach().numpy().copy()) for key, each in named}

    of = arrays(module.named_parameters())
    wanted, running = (set(each) for each in _models_in_jax.MODELS[model][0]())
    assert set(of) == wanted, set(of) ^ wanted
    buffers = ((key, each) for key, each in module.named_buffers() if key in running)
    state = _models_in_jax.state_of(of, arrays(buffers))
    by_hand = _models_in_jax.step_of(model)
    for _ in range(3):
        loss, state = by_hand(state, case.input, case.target)
        np.testing.assert_allclose(step().item(), loss, rtol=1e-3)


# In the parent process.


def environment(peer: Peer, folder: str, before: str | None, process_time: bool) -> dict[str, str]:
    """A child's environment: each library caches all of its programs in ``folder``."""
    ours = {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(before).resolve() if before and peer.before else _root()),
        "XDG_CACHE_HOME": folder,
    }
    if peer.start == "pytorch_compiled":
        ours["TORCHINDUCTOR_CACHE_DIR"] = folder
        if process_time:  # Its worker processes would not be children of this process.
            ours["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    if peer.start in ("jax_by_hand", "flax_nnx"):
        # Otherwise JAX caches only programs that took a second to compile.
        ours["JAX_COMPILATION_CACHE_DIR"] = folder
        ours["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        ours["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    # An installed package has bytecode on disk, so it must not be regenerated at each import.
    left = ("JAX_", "FLAMBEAU_", "TORCHINDUCTOR_", "PYTHONDONTWRITEBYTECODE")
    return {key: each for key, each in os.environ.items() if not key.startswith(left)} | ours


def _root() -> Path:
    return Path(__file__).resolve().parents[1]


class FailedError(Exception):
    """A child ended with an error, whose last line this is."""


def run_child(arguments: list[str], variables: dict[str, str]) -> str:
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=variables)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise FailedError(lines[-1] if lines else f"exit code {done.returncode}")
    return done.stdout


def measure(options: argparse.Namespace, model: str, peers: list[Peer]) -> dict[str, Times]:
    """The median times of every row; prints the reason why a peer was left out."""
    rows: dict[str, list[Times]] = {}
    failed: set[str] = set()
    timed = ["--process-time"] if options.process_time else []
    for peer in peers:
        with contextlib.suppress(FailedError), tempfile.TemporaryDirectory() as folder:
            # Writes missing bytecode.
            run_child(["--import", peer.start], environment(peer, folder, options.before, False))
    for _ in range(options.rounds):
        for peer in peers:
            if peer.name in failed:
                continue
            with tempfile.TemporaryDirectory() as folder:
                variables = environment(peer, folder, options.before, options.process_time)
                try:
                    for state in ("cold", "warm") if peer.keeps else ("",):
                        printed = run_child(["--child", peer.start, model, *timed], variables)
                        times = json.loads(printed.splitlines()[-1])
                        rows.setdefault(f"{peer.name} {state}".strip(), []).append(times)
                except FailedError as error:
                    failed.add(peer.name)
                    print(f"{peer.name}: skipped, {error}", flush=True)
        peers.reverse()
    return {
        name: {column: statistics.median(each[column] for each in times) for column in COLUMNS}
        for name, times in rows.items()
    }


def start(times: Times) -> float:
    """The time from the end of the import to the end of the second step."""
    return times["build"] + times["first"] + times["second"]


def report(model: str, rows: dict[str, Times]) -> None:
    """Print a model's times and ratios."""
    base = next(
        (rows[each] for each in ("JAX by hand cold", "PyTorch eager") if each in rows), None
    )
    named = {"JAX by hand cold": "JAX cold", "PyTorch eager": "PyTorch"}
    against = next((named[each] for each in named if each in rows), "nothing")
    print(f"\n{MODELS[model]}   (seconds; ratios to {against})")
    head = "".join(f"{each:>9}" for each in (*COLUMNS, "start", "ratio", "all", "ratio"))
    print(f"{'':32}{head}")
    for name, times in sorted(rows.items()):
        cells = "".join(f"{times[each]:9.3f}" for each in COLUMNS)
        for whole in (start, lambda times: times["import"] + start(times)):
            ratio = whole(times) / whole(base) if base else float("nan")
            cells += f"{whole(times):9.3f}{ratio:9.2f}"
        print(f"{name:32}{cells}")
    for claimed, one, other, limit in CLAIMS:
        if one in rows and other in rows:
            ratio = start(rows[one]) / start(rows[other])
            verdict = "met" if ratio <= limit else "NOT MET in this run"
            print(f"{claimed}: {ratio:.2f} (at most {limit:.2f}): {verdict}", flush=True)


CLAIMS = [
    ("start, eager warm / before", "flambeau eager warm", "before, eager warm", 0.25),
    ("start, eager cold / before", "flambeau eager cold", "before, eager cold", 0.5),
    ("start, compiled cold / JAX by hand cold", "flambeau compiled cold", "JAX by hand cold", 1.0),
    ("start, compiled warm / JAX by hand cold", "flambeau compiled warm", "JAX by hand cold", 0.5),
]


def main() -> None:
    """Run all rows and print the tables, or run as one of their processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", metavar="PATH")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--peers", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--process-time", action="store_true")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--check", help=argparse.SUPPRESS)
    parser.add_argument("--import", dest="imported", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.imported:
        globals()[options.imported]()
        return
    if options.child:
        print(json.dumps(child(*options.child, options.process_time)))
        return
    if options.check:
        check(options.check)
        return
    peers = [each for each in PEERS if options.before or not each.before]
    if options.peers:
        peers = [each for each in peers if each.name.lower().startswith(tuple(options.peers))]
    clock = "process time" if options.process_time else "wall clock"
    print(f"{clock}, medians of {options.rounds} rounds, {len(os.sched_getaffinity(0))} cores")
    kept = {}
    for model, title in MODELS.items():
        if options.only and not any(each in model for each in options.only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            run_child(["--check", model], environment(PEERS[0], folder, None, False))
        rows = measure(options, model, list(peers))
        report(model, rows)
        if "JAX by hand cold" in rows:
            base = start(rows["JAX by hand cold"])
            kept[title] = {name: start(times) / base for name, times in rows.items()}
    if not (options.only or options.peers or options.process_time):
        keep("first_step", kept)


if __name__ == "__main__":
    main()
