"""Which machine the programs are compiled for."""

from __future__ import annotations

import functools
import os

from flambeau.core.device import available_devices


@functools.cache
def only_cpu() -> bool:
    """Whether the machine has no accelerator."""
    return all(each.startswith("cpu") for each in available_devices())


@functools.cache
def cores() -> int:
    """Over how many cores XLA spreads programs for the CPU."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
