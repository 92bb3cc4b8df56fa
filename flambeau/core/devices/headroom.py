"""Running out of CPU memory: a program fails at its call, before it changes anything.

XLA's CPU device allocates memory when a computation begins, after its call has returned, and
reports a failure when a result is read. By then the failed results are in Cells, and the donated
arrays are gone. Linux refuses memory only to a process with a limit, or for one block that is
larger than the machine's memory. Only programs at this risk run through `carefully`.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import jax

from flambeau.core.devices.limits import memory
from flambeau.core.types import Leaf

_Result = TypeVar("_Result")

try:
    import resource
except ImportError:  # Windows: no limits, and no way to ask for a block.
    resource = None

#: The sizes in bytes of the blocks of memory that a program allocates for a run.
Need = Sequence[int]

# XLA ends the process if it finds no memory for the program itself when it loads or compiles it.
_TO_LOAD, _TO_COMPILE = 2**23, 2**25

# A program takes a little more than XLA reports: alignment, tables, and scratch memory.
_SLACK = 2**20
_SHARE = 16

#: Whether the process has been found to have a limit of memory.
limited: bool = False

#: Drops the programs that are called without Python; set by `programs`.
forget: Callable[[], None] = lambda: None  # noqa: E731


def look() -> bool:
    """Whether memory is limited; once limited, it counts as limited from then on."""
    global limited
    if not limited and _has_limit():
        limited = True
        forget()
    return limited


def may_lack(need: Need) -> bool:
    """Whether the memory for a program may be refused."""
    return limited or max(need, default=0) > _most()


def carefully(call: Callable[..., _Result], arguments: Sequence[Leaf], claimed: Need) -> _Result:
    """The results of a program, once computed; raises the program's error or an argument's.

    Args:
        call: The program.
        arguments: Its arguments.
        claimed: The memory that it needs, if it overwrites arguments. Nothing is overwritten unless
            this much is available.

    Raises:
        MemoryError: The memory is not available.
    """
    jax.block_until_ready(arguments)
    claim(claimed)
    return jax.block_until_ready(call(*arguments))


def claim_to_load() -> None:
    """Make sure of the memory to load a program, if memory is limited."""
    if limited:
        _claim_maps(_TO_LOAD)


def claim_to_compile() -> None:
    """Make sure of the memory to compile a program, if memory is limited."""
    if limited:
        _claim_maps(_TO_COMPILE)


def _claim_maps(size: int) -> None:
    # Programs are mapped separately, not in memory that the C library has kept.
    if resource is None:
        return
    try:
        mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError:
        raise MemoryError(f"Out of memory allocating {size} bytes for a program's code") from None


def claim(need: Need) -> None:
    """Allocate memory and free it again, so that it is available for the next call.

    Raises:
        MemoryError: So much is not available.
    """
    if resource is None or not any(need):
        return
    malloc, free = _allocator()
    blocks = []
    try:
        for size in (*need, _SLACK):
            wanted = size + size // _SHARE
            block = malloc(wanted)
            if block is None:
                raise MemoryError(f"Out of memory allocating {wanted} bytes for a program")
            blocks.append(block)
    finally:
        for block in blocks:
            free(block)


@functools.cache
def _allocator() -> tuple[Callable[[int], int | None], Callable[[int], None]]:
    library = ctypes.CDLL(None)
    malloc, free = library.malloc, library.free
    malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    free.argtypes, free.restype = [ctypes.c_void_p], None
    return malloc, free


def _has_limit() -> bool:
    if resource is None:
        return False
    return (
        resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
        or resource.getrlimit(resource.RLIMIT_DATA)[0] != resource.RLIM_INFINITY
        or _is_strict()
    )


@functools.cache
def _is_strict() -> bool:
    """Whether Linux refuses to overcommit memory."""
    try:
        return Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "2"
    except OSError:
        return False


@functools.cache
def _most() -> int:
    """The bytes of one block that Linux grants to every process without a limit, less a half."""
    return memory() // 2
