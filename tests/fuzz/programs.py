"""Random programs: PyTorch against flambeau, eager, compiled and fused.

``python -m tests.fuzz.programs --seconds 600 --seed 1`` searches in processes that end before they
have as many memory maps as Linux allows; ``--program INDEX`` shows one program of a seed and what
it does. Without PyTorch, compiled is compared with eager only.

Almost all of the time goes into compiling operators. So a block of programs shares a small
vocabulary (`tests.fuzz.generation`), few programs are compiled as a whole, and most processes
compile with `tests.fuzz.quick_xla`.
"""

from __future__ import annotations

import argparse
import faulthandler
import functools
import gc
import importlib.util
import json
import os
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import jax

import flambeau
from flambeau.compile import errors
from flambeau.compile.errors import CompileWarning
from flambeau.core.support.statistics import statistics
from tests.fuzz import known_differences, quick_xla
from tests.fuzz.generation import BLOCK, generate
from tests.fuzz.observation import (
    Difference,
    Observation,
    differences,
    maps,
    observe,
    sensitivity,
)
from tests.fuzz.program import HALF, Program
from tests.fuzz.reduce import reduce
from tests.fuzz.report import Disagreement, Report, main

MAPS = 45_000
# Compiling takes a hundred times as long as running, so few programs are compiled.
COMPILED = 0.05
# One process in so many compiles as XLA does without flags.
ORDINARY = 8
LONGEST = 200.0
FLAGS = ("requires_grad", "is_leaf", "has_node")
VALUES = ("elements", "value", "shape", "type")
HAS_TORCH = importlib.util.find_spec("torch") is not None


def oracle() -> Any:
    """PyTorch, or flambeau in its place."""
    if not HAS_TORCH:
        return flambeau
    import torch

    torch.set_num_threads(1)
    return torch


def is_rough(program: Program) -> bool:
    return any(each in program.source() for each in (*HALF, "half()"))


# The types of errors of functions that cannot become one program.
_REFUSALS = {
    name
    for name, each in vars(errors).items()
    if isinstance(each, type) and issubclass(each, errors.CompileError)
}


class Comparison:
    """A program in PyTorch and eager in flambeau, or eager and in another way.

    Args:
        program: The program.
        way: ``"eager"``, ``"compiled"``, or ``"fused"``: run until its sequences are one program.
    """

    def __init__(self, program: Program, way: str) -> None:
        self.program = program
        self.way = way
        self.compiled = way == "compiled"
        self.lib = oracle() if way == "eager" else flambeau
        self.rough = is_rough(program)
        self.counts: Counter[str] = Counter()

    def found(self, expected: Observation | None = None) -> list[Difference]:
        """What differs and should not."""
        with flambeau.compiler.gears(fuse=False):
            return self._found(expected)

    def _found(self, expected: Observation | None) -> list[Difference]:
        expected = expected or observe(self.program, self.lib)
        found = self._observed()
        all_found = list(differences(expected, found, rough=self.rough))
        remaining = self._not_in_table(all_found)
        if not all(each in remaining or each.what in FLAGS for each in all_found):
            # What follows from other values, or from an error, is not looked at.
            remaining = []
        remaining = self._not_of_memory(remaining, found, {})
        if len(remaining) < len(all_found):
            self.counts["documented differences"] += 1
        if not remaining:
            return []
        leeway = sensitivity(self.program, self.lib, expected, self.rough)
        if not leeway.get("error"):
            remaining = differences(expected, found, rough=self.rough, leeway=leeway)
            remaining = self._not_of_memory(self._not_in_table(remaining), found, leeway)
            if remaining:
                return remaining
        self.counts["ill-conditioned programs"] += 1
        return []

    def _observed(self) -> Observation:
        """The program, run in its way."""
        if self.compiled:
            whole = functools.partial(flambeau.compile, fullgraph=True)
            found = observe(self.program, flambeau, whole)
            if found.failure is None or found.failure.type not in _REFUSALS:
                return found
            # It cannot become one program, and so runs eagerly where that is allowed.
            self.counts["of these run eagerly"] += 1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CompileWarning)
                return observe(self.program, flambeau, flambeau.compile)
        if self.way == "eager":
            return observe(self.program, flambeau)
        before = statistics.fused
        with flambeau.compiler.gears(interpret=False, fuse=2):
            for _ in range(5):
                observe(self.program, flambeau)
            found = observe(self.program, flambeau)
        self.counts["sequences that ran as one program"] += statistics.fused - before
        return found

    def _not_in_table(self, found: Iterable[Difference]) -> list[Difference]:
        """Those that the table of documented differences does not know."""
        reason = known_differences.reason
        return [each for each in found if not reason(each, self.program, compiled=self.compiled)]

    def _not_of_memory(
        self, remaining: list[Difference], found: Observation, leeway: dict[str, float]
    ) -> list[Difference]:
        """Those that stay where PyTorch's memory is as documented."""
        if not remaining or self.way != "eager" or not HAS_TORCH:
            return remaining
        from tests.fuzz.as_documented import as_documented

        documented = as_documented(self.program)[0]
        staying = differences(documented, found, rough=self.rough, leeway=leeway)
        staying = self._not_in_table(staying)
        if any(each.what == "raised" for each in remaining):
            # One of them has seen no more than what came before the error.
            return staying
        names = {(each.name, each.what) for each in staying}
        return [
            each for each in remaining if each.what not in VALUES or (each.name, each.what) in names
        ]


def kind(difference: Difference) -> tuple[str, str]:
    """What a smaller program must share with the larger one."""
    if difference.name == "error":
        failure = difference.expected_failure or difference.found_failure
        return difference.what, failure.type if failure else ""
    return "value", difference.what


def search_one(
    lib: Any, seed: int, index: int, report: Report, share: float = COMPILED, fused: bool = False
) -> None:
    """Make one program, run it in every way, or fused only, and reduce it if they differ."""
    program = generate(lib, (seed, index))
    report.counts["programs"] += 1
    report.counts["statements"] += len(list(program.source().split("def step")[1].splitlines())) - 4
    expected = observe(program, lib)
    ways = ["eager"] if HAS_TORCH else []
    # The same programs every time, whatever has been run before.
    if fused:
        ways = ["fused"]
    elif program.compilable and (seed * 7919 + index * 104729) % 1000 < 1000 * share:
        ways.append("compiled")
        report.counts["of these compiled"] += 1
    if expected.failure is not None:
        report.counts["of these refused"] += 1
    for way in ways:
        comparison = Comparison(program, way)
        found = comparison.found(expected if way == "eager" else None)
        report.counts.update(comparison.counts)
        if found:
            report.disagreements.append(reduced(program, found[0], way, (seed, index)))
            return


def reduced(
    program: Program, difference: Difference, way: str, seed: tuple[int, int]
) -> Disagreement:
    """The shortest program with the same kind of difference."""

    def fails(candidate: Program) -> bool:
        found = Comparison(candidate, way).found()
        return bool(found) and kind(found[0]) == kind(difference)

    smallest = reduce(program, fails, 400 if way == "eager" else 80)
    found = Comparison(smallest, way).found()
    pair = "PyTorch/eager" if way == "eager" else f"eager/{way}"
    title = f"{pair}, seed {seed[0]}, program {seed[1]}: {found[0] if found else difference}"
    return Disagreement(title, smallest.script("flambeau", way == "compiled"))


def work(seed: int, start: int, seconds: float | None, limit: int | None, fused: bool) -> None:
    """Search in this process until it has too many memory maps; a line of JSON for each program."""
    lib = oracle()
    quick_xla.share_context()
    begin, index = time.monotonic(), start
    while (seconds is None or time.monotonic() - begin < seconds) and maps() < MAPS:
        if limit is not None and index >= limit:
            break
        faulthandler.dump_traceback_later(LONGEST, exit=True)
        report = Report("programs", seed)
        search_one(lib, seed, index, report, fused=fused)
        index += 1
        if index % BLOCK == 0:
            # The next block has other operators.
            jax.clear_caches()
            gc.collect()
        found = [(each.title, each.program) for each in report.disagreements]
        sys.stdout.write(json.dumps([index, dict(report.counts), found]) + "\n")
        sys.stdout.flush()
        faulthandler.cancel_dump_traceback_later()


def run(seconds: float | None, seed: int, limit: int | None, fused: bool = False) -> Report:
    """Search for that long, in one process after the other."""
    report = Report("fused programs" if fused else "programs", seed)
    begin, index, processes = time.monotonic(), 0, 0
    quick = quick_xla.environment()
    while True:
        left = None if seconds is None else seconds - (time.monotonic() - begin)
        if (left is not None and left <= 0) or (limit is not None and index >= limit):
            break
        command = [sys.executable, "-m", "tests.fuzz.programs", "--seed", str(seed)]
        command += ["--start", str(index)]
        command += ["--seconds", str(left)] if left is not None else []
        command += ["--limit", str(limit)] if limit is not None else []
        command += ["--fused"] if fused else []
        processes += 1
        environment = {**os.environ, **(quick if processes % ORDINARY else {})}
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert worker.stdout is not None
        before = index
        for line in worker.stdout:
            index = report.add_line(line)
        sys.stderr.write(f"# {index} programs\n")
        if worker.wait() != 0:
            source = written(seed, index)
            if source is None:
                report.counts["crashes of PyTorch"] += 1
            else:
                title = f"seed {seed}, program {index}: the process ended with {worker.returncode}"
                report.disagreements.append(Disagreement(title, source))
            index += 1
        elif index == before:
            break
    report.seconds = time.monotonic() - begin
    return report


def written(seed: int, index: int) -> str | None:
    """A program, written by another process; None if PyTorch crashes at it."""
    command = [sys.executable, "-m", "tests.fuzz.programs", "--seed", str(seed)]
    command += ["--program", str(index), "--write"]
    made = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return made.stdout if made.returncode == 0 else None


def show(seed: int, index: int, only_write: bool) -> None:
    """One program, and what each way of running it gives."""
    program = generate(oracle(), (seed, index))
    if only_write:
        # PyTorch may crash at what it could write.
        observe(program, oracle())
    sys.stdout.write(program.script("flambeau", only_write))
    if only_write:
        return
    for way in ("eager", "compiled", "fused"):
        found = Comparison(replace(program), way).found()
        sys.stdout.write(f"{way}: {[str(each) for each in found]}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--start", type=int, default=None)
    parser.add_argument("--program", type=int, default=None)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--limit", type=int, default=None)
    known = parser.parse_known_args()[0]
    if known.program is not None:
        show(known.seed, known.program, known.write)
    elif known.start is not None:
        work(known.seed, known.start, known.seconds, known.limit, known.fused)
    else:
        sys.exit(main(run))
