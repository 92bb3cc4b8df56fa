"""Which device, cores and layers a benchmark asks for, and the memory that its process keeps.

Importing this chooses them, so it comes before the libraries, which then start as many threads
as there are cores. The process keeps the memory that a library gives back. Without that the same
call of any library takes up to twice as long whenever its arrays happen to lie where the C library
returns them to the system, which then has to clear every page again.
"""

from __future__ import annotations

import argparse
import ctypes
import os

ARGUMENTS = argparse.ArgumentParser()
ARGUMENTS.add_argument("--all-cores", action="store_true")
ARGUMENTS.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
ARGUMENTS.add_argument("--only", nargs="*", default=[])
ARGUMENTS.add_argument("--column", help=argparse.SUPPRESS)
OPTIONS = ARGUMENTS.parse_args()
if OPTIONS.device == "cuda":
    OPTIONS.all_cores = True
    os.environ.setdefault("JAX_PLATFORMS", "cuda,cpu")
    # Several processes share the GPU.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
if not OPTIONS.all_cores:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Steady times are those of programs, which first calls are not; see `gears.py` for these.
os.environ.setdefault("FLAMBEAU_INTERPRET", "0")

# Of glibc's mallopt: how much may be free at the end of the heap, and what lies outside it.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
if hasattr(ctypes.CDLL(None), "mallopt"):
    ctypes.CDLL(None).mallopt(M_TRIM_THRESHOLD, 1 << 30)
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 32 << 20)

WHAT = "wall clock, all cores" if OPTIONS.all_cores else "process time, one core"
if OPTIONS.device != "cpu":
    WHAT = f"wall clock, {OPTIONS.device}"


def is_asked_for(name: str) -> bool:
    """Whether the arguments ask for this one."""
    return not OPTIONS.only or any(each in name for each in OPTIONS.only)
