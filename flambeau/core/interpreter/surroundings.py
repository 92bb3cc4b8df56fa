"""The processor's state in which XLA's programs run: subnormal numbers count as zeros.

Python has no name for it. The C library's `fesetenv` sets the register that holds it, for one
thread; what is there before is put back.
"""

from __future__ import annotations

import ctypes
import functools
import platform
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

_Result = TypeVar("_Result")


class _Register(NamedTuple):
    """Where `fenv_t` keeps the register, and the bits for subnormal operands and results."""

    offset: int
    bits: int


# By the machine, of the GNU C library.
_REGISTERS = {"x86_64": _Register(28, 0x8040), "aarch64": _Register(0, 1 << 24)}
_Content = ctypes.c_char * 32

# What `_Environment.flushing` has given, by the content of what it was given.
_known: dict[bytes, ctypes.Array[ctypes.c_char]] = {}
_MOST_KNOWN = 64


class _Environment(NamedTuple):
    """The C library's functions, and an environment of its type."""

    get: Callable[..., int]
    set: Callable[..., int]
    register: _Register

    def flushing(self, kept: ctypes.Array[ctypes.c_char]) -> ctypes.Array[ctypes.c_char]:
        """A copy of ``kept`` in which subnormal numbers are zeros."""
        content = kept.raw
        found = _known.get(content)
        if found is None:
            offset = self.register.offset
            number = int.from_bytes(content[offset : offset + 4], "little") | self.register.bits
            flushing = content[:offset] + number.to_bytes(4, "little") + content[offset + 4 :]
            found = _Content.from_buffer_copy(flushing)
            if len(_known) < _MOST_KNOWN:
                _known[content] = found
        return found


@functools.cache
def _environment() -> _Environment | None:
    register = _REGISTERS.get(platform.machine())
    if register is None or platform.libc_ver()[0] != "glibc":
        return None
    try:
        library = ctypes.CDLL(None)
        found = _Environment(library.fegetenv, library.fesetenv, register)
    except (AttributeError, OSError, TypeError):
        return None
    return found if _within(found, _flushes) and not _flushes() else None


def _flushes() -> bool:
    small = np.full(9, 1e-40, np.float32)
    tiny = np.full(9, 1e-310)
    return not (small + small).any() and not (tiny * 2).any()


def _within(
    environment: _Environment, function: Callable[..., _Result], *arguments: object
) -> _Result:
    kept = _Content()
    environment.get(kept)
    flushing = environment.flushing(kept)
    try:
        try:
            environment.set(flushing)
            return function(*arguments)
        finally:
            environment.set(kept)
    finally:
        # An interrupt may have come just before.
        environment.set(kept)


@functools.cache
def is_known() -> bool:
    """Whether this machine has the state, and Python can set it."""
    return _environment() is not None


def run(function: Callable[..., _Result], *arguments: object) -> _Result:
    """Call a function that computes with NumPy as XLA does: without subnormals and warnings."""
    environment = _environment()
    assert environment is not None
    with np.errstate(all="ignore"):
        return _within(environment, function, *arguments)
