"""The number of programs that this machine can hold at once."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Callable
from pathlib import Path

#: The memory maps of one XLA program for the CPU: some 9 for an operator on short arrays, 12 beyond
#: 1,024 elements, and more for whole steps, which are few.
_MAPS = 12

#: The bytes of one program, including JAX's and flambeau's records of it.
_BYTES = 2**20

# On the smallest machine too, a model's step needs some hundred programs at once.
_LEAST, _MOST = 512, 4096


@functools.cache
def programs_at_once() -> int:
    """The number of programs kept in memory: half of the maps, or an eighth of the memory.

    Linux ends a process with more maps than ``vm.max_map_count`` (65,530 by default), and each
    program needs a few.
    """
    fitting = min(_maps() // 2 // _MAPS, memory() // 8 // _BYTES)
    return max(_LEAST, min(_MOST, fitting))


def give_back_memory() -> None:
    """Return the freed memory that the C library keeps to the system.

    Compiling needs much memory for a short time, and small long-lived objects fragment it: a
    process that had compiled 7,000 programs held 465 MB of unused memory.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """The C library's `malloc_trim`; ``None`` if it has none, as outside Linux."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


def _maps() -> int:
    return _number_in("/proc/sys/vm/max_map_count") or 65_530


def memory() -> int:
    """The bytes of memory available to the process."""
    limits = [
        _number_in("/sys/fs/cgroup/memory.max"),
        _number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    ]
    with contextlib.suppress(AttributeError, ValueError, OSError):  # Not a Unix.
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min((each for each in limits if each), default=8 * 2**30)


def _number_in(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None
