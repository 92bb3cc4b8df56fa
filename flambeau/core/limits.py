"""The number of programs that this machine can hold at once."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Callable
from pathlib import Path

#: The memory maps of one of XLA's programs for the CPU: some 9 for an operator on short arrays, 12
#: beyond 1,024 elements, and more for whole steps, of which there are few.
_MAPS = 12

#: The bytes of one program, with what JAX and flambeau keep about it.
_BYTES = 2**20

# However small the machine is, a model's step needs some hundred programs at once.
_LEAST, _MOST = 512, 4096


@functools.cache
def programs_at_once() -> int:
    """The number of programs kept in memory: half of the maps, or an eighth of the memory.

    Linux ends a process that has more maps than ``vm.max_map_count``, 65,530 unless it was changed
    it, and each program needs a few.
    """
    fitting = min(_maps() // 2 // _MAPS, memory() // 8 // _BYTES)
    return max(_LEAST, min(_MOST, fitting))


def give_back_memory() -> None:
    """Give the system the memory that was freed and that the C library keeps.

    Compiling needs much memory for a moment, and small things that live on lie in between: a
    process that had met 7,000 programs held 465 MB that were not used.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """The C library's function; ``None`` where it has none, as elsewhere than on Linux."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


def _maps() -> int:
    return _number_in("/proc/sys/vm/max_map_count") or 65_530


def memory() -> int:
    """The bytes of memory that the process may use."""
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
