"""Interleaved timing of several programs, so that all of them see the same machine state."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

import jax

ROUNDS = 15
SECONDS_PER_ROUND = 0.05


def medians(
    programs: dict[str, Callable[[], object]],
    rounds: int = ROUNDS,
    seconds_per_round: float = SECONDS_PER_ROUND,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """The median time of one call of each program, in seconds.

    Each round times each program once, over many consecutive calls, in alternating order.

    Args:
        programs: The programs, by name.
        rounds: The number of measurements of each program.
        seconds_per_round: The approximate duration of each measurement.
        clock: The clock.
    """

    def timed(program: Callable[[], object], calls: int) -> float:
        gc.collect()
        start = clock()
        for _ in range(calls):
            result = program()
        # As in a training loop, the next call does not wait for a result.
        jax.block_until_ready(result)
        return (clock() - start) / calls

    def calls_for(program: Callable[[], object]) -> int:
        timed(program, 2)
        return max(1, int(seconds_per_round / max(timed(program, 3), 1e-7)))

    calls = {name: calls_for(program) for name, program in programs.items()}
    times: dict[str, list[float]] = {name: [] for name in programs}
    order = list(programs)
    for _ in range(rounds):
        for name in order:
            times[name].append(timed(programs[name], calls[name]))
        order.reverse()
    return {name: statistics.median(each) for name, each in times.items()}


def table(times: dict[str, float], baseline: str) -> str:
    """A table of the times, each with its ratio to the baseline."""
    width = max(map(len, times))
    lines = [f"{'':{width}}  {'median':>10}  ratio to {baseline}"]
    for name, seconds in times.items():
        ratio = seconds / times[baseline]
        lines.append(f"{name:{width}}  {seconds * 1e6:7.1f} µs  {ratio:.2f}")
    return "\n".join(lines)


def claim(name: str, ratio: float, limit: float) -> str:
    """A claim, its measured ratio, and whether it holds in this run."""
    verdict = "holds" if ratio <= limit else "DOES NOT HOLD in this run"
    return f"{name}: {ratio:.2f} (at most {limit:.2f}): {verdict}"
