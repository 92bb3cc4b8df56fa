"""What benchmarks beside PyTorch share: which cores they run on, and how they time.

Importing this chooses the cores, so it comes before the libraries, which start as many threads as
there are cores then. The process keeps the memory that either library gives back. Without that the
same call of either takes up to twice as long whenever its arrays happen to lie where the C library
returns them to the system, which then has to clear every page anew.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import time
from collections.abc import Callable

ARGUMENTS = argparse.ArgumentParser()
ARGUMENTS.add_argument("--all-cores", action="store_true")
ARGUMENTS.add_argument("--only", nargs="*", default=[])
OPTIONS = ARGUMENTS.parse_args()
if not OPTIONS.all_cores:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402

# Of glibc's mallopt: how much may be free at the end of the heap, and what lies outside it.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
if hasattr(ctypes.CDLL(None), "mallopt"):
    ctypes.CDLL(None).mallopt(M_TRIM_THRESHOLD, 1 << 30)
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 32 << 20)

ROUNDS = 9
WHAT = "wall clock" if OPTIONS.all_cores else "process time, one core"


def is_asked_for(name: str) -> bool:
    """Whether the arguments ask for this one."""
    return not OPTIONS.only or any(each in name for each in OPTIONS.only)


def medians(
    programs: dict[str, Callable[[], object]], seconds_per_round: float = 0.05
) -> dict[str, float]:
    """The median time of one call of each, in seconds; see `_timing.medians`.

    Here in time of the process, which other people's programs do not lengthen, or on all cores.

    Args:
        programs: What to call, by name.
        seconds_per_round: About how long each is called at a stretch.
    """
    clock = time.perf_counter if OPTIONS.all_cores else time.process_time

    def timed(program: Callable[[], object], calls: int) -> float:
        start = clock()
        for _ in range(calls):
            results = program()
        # XLA computes beside Python; in a training loop nobody waits for it before the next call.
        jax.block_until_ready(results)
        return (clock() - start) / calls

    calls = {}
    for name, program in programs.items():
        for _ in range(2):
            program()
        calls[name] = max(1, int(seconds_per_round / max(timed(program, 3), 1e-7)))
    times: dict[str, list[float]] = {name: [] for name in programs}
    order = list(programs)
    for _ in range(ROUNDS):
        for name in order:
            times[name].append(timed(programs[name], calls[name]))
        order.reverse()
    return {name: statistics.median(each) for name, each in times.items()}
