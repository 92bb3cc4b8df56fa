"""Memory that programs have used stays with the process, for their next calls.

XLA takes one block for all that a program computes on the way, and gives it back at the end. The C
library returns blocks of more than 32 MB to the system, and those of threads other than the first
if they exceed 64 MB. So at each call the system fills every page of them with zeros again, which
takes up to a quarter of a training step's time on CPUs.
"""

from __future__ import annotations

import ctypes
import os
import sys
from importlib.util import find_spec

__all__: list[str] = []

# Parameters of `mallopt` in glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -3, -4, -8

# The largest block that is kept, and what may be free at the end of the heap: the most that these
# parameters can say.
_BYTES = (1 << 31) - 1


def keep_memory() -> bool:
    """Let the C library keep memory that is freed, and say whether it does.

    It belongs to the package of native kernels, which is for speed on CPUs, and must come before
    JAX starts its threads. Variables of malloc's in the environment are a choice of the user's.
    """
    if os.environ.get("FLAMBEAU_KERNELS") == "0" or _has_chosen() or not _is_installed():
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        return False
    # An older glibc takes no threshold above 32 MB, but can be told to have no blocks of their own.
    is_whole = mallopt(_MMAP_THRESHOLD, _BYTES) or mallopt(_MMAP_MAX, 0)
    return bool(
        is_whole
        and mallopt(_TRIM_THRESHOLD, _BYTES)
        # A thread's own heap has at most 64 MB, so all share the first one.
        and mallopt(_ARENA_MAX, 1)
    )


def _has_chosen() -> bool:
    return any(each.startswith("MALLOC_") or each == "GLIBC_TUNABLES" for each in os.environ)


def _is_installed() -> bool:
    return find_spec("flambeau_kernels") is not None
