"""The device, cores and layers of a benchmark, and its malloc settings.

Importing this module applies them, so it precedes the libraries, which then start one thread per
core. The process keeps freed memory. Otherwise any library's call takes up to twice as long
whenever malloc returns its arrays to the system, which then has to zero every page again.
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
# The steady state uses compiled programs, unlike first calls; see `gears.py` for these.
os.environ.setdefault("FLAMBEAU_INTERPRET", "0")

# Parameters of glibc's mallopt: the trim and mmap thresholds.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
if hasattr(ctypes.CDLL(None), "mallopt"):
    ctypes.CDLL(None).mallopt(M_TRIM_THRESHOLD, 1 << 30)
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 32 << 20)

WHAT = "wall clock, all cores" if OPTIONS.all_cores else "process time, one core"
SETTING = "all-cores" if OPTIONS.all_cores else "1-core"
if OPTIONS.device != "cpu":
    WHAT, SETTING = f"wall clock, {OPTIONS.device}", "gpu"


def is_asked_for(name: str) -> bool:
    """Whether the arguments select this case."""
    return not OPTIONS.only or any(each in name for each in OPTIONS.only)
