"""Products of matrices by NumPy, on the calling thread alone.

NumPy's BLAS library divides a product over threads and waits for all of them. On a busy machine
it waits for a time slice: 10 ms for a product of 40 us. Its threads do not flush subnormal numbers
to zero either, which `surroundings` makes the calling thread do.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from importlib import import_module
from typing import TypeVar

import numpy as np

_Result = TypeVar("_Result")

# The functions of OpenBLAS, with the prefixes and suffixes of NumPy's wheels and of others.
_NAMES = [
    (f"{prefix}openblas_get_num_threads{suffix}", f"{prefix}openblas_set_num_threads{suffix}")
    for prefix in ("scipy_", "")
    for suffix in ("64_", "")
]


class _Threads:
    """The number of threads of a BLAS library, which all threads of the process share.

    Args:
        get: Returns the number.
        set: Sets it.
    """

    def __init__(self, get: Callable[[], int], set: Callable[[int], object]) -> None:
        self._get = get
        self._set = set
        # The running calls, and the number before the first of them. Without a lock, which a fork
        # could leave locked: at worst, a call runs on several threads.
        self._calls: dict[object, None] = {}
        self._before = 0

    def on_one(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Call a function with one thread."""
        call = object()
        try:
            try:
                self._calls[call] = None
                number = self._get()
                if number > 1:
                    self._before = number
                    self._set(1)
                return function(*arguments)
            finally:
                self._end(call)
        finally:
            # An interrupt may have come just before.
            self._end(call)

    def _end(self, call: object) -> None:
        self._calls.pop(call, None)
        if self._before and not self._calls:
            self._set(self._before)
            # A call that another thread began meanwhile has made it 1 again, and needs the number.
            if not self._calls:
                self._before = 0


@functools.cache
def _threads() -> _Threads | None:
    """Those of NumPy's BLAS library, if it is a known one."""
    try:
        # Finds the names of the libraries that it is linked with, too.
        library = ctypes.CDLL(import_module("numpy._core._multiarray_umath").__file__)
    except (ImportError, OSError):
        return None
    for get, set in _NAMES:
        if hasattr(library, get) and hasattr(library, set):
            return _Threads(getattr(library, get), getattr(library, set))
    return None


def matmul(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """`numpy.matmul` on the calling thread."""
    threads = _threads()
    return np.matmul(one, other) if threads is None else threads.on_one(np.matmul, one, other)
