"""Keep memory that programs have freed in the process, for their next calls.

XLA allocates one block for all intermediate values of a program, and frees it at the end. The C
library returns blocks of more than 32 MB to the system (64 MB on threads other than the first),
which fills every page with zeros again at the next call: up to a quarter of a training step's time
on CPUs.
"""

from __future__ import annotations

import ctypes
import os
import sys
from importlib.util import find_spec

__all__: list[str] = []

# Parameters of `mallopt` in glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -3, -4, -8

# The largest block that is kept, and the most that may be free at the end of the heap: the maximum
# of these parameters.
_BYTES = (1 << 31) - 1


def keep_memory() -> bool:
    """Make the C library keep freed memory; return whether it does.

    Called for the package of native kernels, before JAX starts its threads. If the environment sets
    malloc's variables, the user has chosen and they are left alone.
    """
    if os.environ.get("FLAMBEAU_KERNELS") == "0" or _has_chosen() or not _is_installed():
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        return False
    # An older glibc takes no threshold above 32 MB, but can be told never to map blocks separately.
    is_whole = mallopt(_MMAP_THRESHOLD, _BYTES) or mallopt(_MMAP_MAX, 0)
    return bool(
        is_whole
        and mallopt(_TRIM_THRESHOLD, _BYTES)
        # A thread's own heap holds at most 64 MB, so all threads share the first one.
        and mallopt(_ARENA_MAX, 1)
    )


def _has_chosen() -> bool:
    return any(each.startswith("MALLOC_") or each == "GLIBC_TUNABLES" for each in os.environ)


def _is_installed() -> bool:
    return find_spec("flambeau_kernels") is not None
