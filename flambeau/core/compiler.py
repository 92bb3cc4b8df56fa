"""Which compiler the programs are for."""

from __future__ import annotations

import functools
import os

from flambeau.core.device import available_devices


@functools.cache
def only_cpu() -> bool:
    """Whether the machine has no accelerator."""
    return all(each.startswith("cpu") for each in available_devices())


@functools.cache
def only_one_core() -> bool:
    """Whether programs for the CPU run on one core."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) == 1
    return os.cpu_count() == 1
