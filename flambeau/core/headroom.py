"""Memory of the CPU that may run out, and how a program fails then: at its call, with all intact.

XLA's CPU device takes memory when a computation begins, which is after its call, and tells of a
failure when a result is read. By then the failed results are in Cells, and what the program was to
overwrite is gone. Linux refuses memory only where a process has a limit, or where one block is
larger than the machine's memory. So programs that may meet this run by `carefully`, and all others
as ever.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from flambeau.core.limits import memory

try:
    import resource
except ImportError:  # Windows: no limits, and no way to ask for a block.
    resource = None

#: The bytes that a program takes when it runs, block by block.
Need = Sequence[int]

# XLA ends the process where it finds no memory for a program itself, as it loads or compiles one.
_TO_LOAD, _TO_COMPILE = 2**23, 2**25

# A program takes a little more than XLA says: alignment, tables, and what its parts take meanwhile.
_SLACK = 2**20
_SHARE = 16

#: Whether the process has been found to have a limit of memory.
limited: bool = False

#: Forgets the programs that are called without Python; `programs` sets it.
forget: Callable[[], None] = lambda: None  # noqa: E731


def look() -> bool:
    """Whether memory is limited, which may begin at any time and then counts for ever."""
    global limited
    if not limited and _has_limit():
        limited = True
        forget()
    return limited


def may_lack(need: Need) -> bool:
    """Whether the memory for a program may be refused."""
    return limited or max(need, default=0) > _most()


def carefully(call: Callable[..., Any], arguments: Sequence[Any], claimed: Need) -> Any:
    """The results of a program, once they are there, or its error, or that of an argument.

    Args:
        call: The program.
        arguments: Its arguments.
        claimed: What it takes, if it overwrites arguments. Nothing is overwritten unless there is
            so much memory.

    Raises:
        MemoryError: There is not.
    """
    jax.block_until_ready(arguments)
    claim(claimed)
    return jax.block_until_ready(call(*arguments))


def claim_to_load() -> None:
    """Have the memory to load a program, where memory is limited."""
    if limited:
        _claim_maps(_TO_LOAD)


def claim_to_compile() -> None:
    """Have the memory to compile a program, where memory is limited."""
    if limited:
        _claim_maps(_TO_COMPILE)


def _claim_maps(size: int) -> None:
    # Programs lie in maps of their own, and not in what the C library has kept.
    if resource is None:
        return
    try:
        mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError:
        raise MemoryError(f"Out of memory allocating {size} bytes for a program's code") from None


def claim(need: Need) -> None:
    """Take memory and give it back, so that it is there for what follows.

    Raises:
        MemoryError: There is not so much.
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
def _allocator() -> tuple[Any, Any]:
    library = ctypes.CDLL(None)
    malloc, free = library.malloc, library.free
    malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    free.argtypes, free.restype = [ctypes.c_void_p], None
    return malloc, free


def _has_limit() -> bool:
    if resource is None:
        return False
    limits = map(resource.getrlimit, (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    return any(soft != resource.RLIM_INFINITY for soft, _ in limits) or _is_strict()


@functools.cache
def _is_strict() -> bool:
    """Whether Linux promises no more memory than there is."""
    try:
        return Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "2"
    except OSError:
        return False


@functools.cache
def _most() -> int:
    """The bytes of a block that Linux grants to every process without a limit, and half as many."""
    return memory() // 2
