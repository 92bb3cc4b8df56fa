"""What benchmarks beside PyTorch share: which cores they run on, and how they time.

Importing this chooses the cores, so it comes before the libraries, which start as many threads as
there are cores then. The process keeps the memory that either library gives back. Without that the
same call of either takes up to twice as long whenever its arrays happen to lie where the C library
returns them to the system, which then has to clear every page again.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import time
from collections.abc import Callable

ARGUMENTS = argparse.ArgumentParser()
ARGUMENTS.add_argument("--all-cores", action="store_true")
ARGUMENTS.add_argument("--only", nargs="*", default=[])
OPTIONS = ARGUMENTS.parse_args()
if not OPTIONS.all_cores:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import _timing  # noqa: E402

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
    """`_timing.medians`, on all cores or in time of the process.

    The latter other people's programs do not lengthen.

    Args:
        programs: What to call, by name.
        seconds_per_round: About how long each is called at a stretch.
    """
    clock = time.perf_counter if OPTIONS.all_cores else time.process_time
    return _timing.medians(programs, ROUNDS, seconds_per_round, clock)
