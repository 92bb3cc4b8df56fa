"""Filling an array in blocks, and the dtypes in which PyTorch draws reals."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flambeau.random.draws.arithmetic import convert

#: Bits of the significand of each floating-point dtype, the leading one included.
DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}

#: The largest finite value of each floating-point dtype.
LARGEST = {
    "float16": 65504.0,
    "bfloat16": (2 - 2.0**-7) * 2.0**127,
    "float32": (2 - 2.0**-23) * 2.0**127,
    "float64": (2 - 2.0**-52) * 2.0**1023,
}

# The number of elements drawn at a time, whose temporaries fit in the processor's cache.
_BLOCK = 1 << 16


@functools.cache
def name_of(dtype: np.dtype[Any]) -> str:
    """The name of a dtype, cached because NumPy rebuilds it each time."""
    return dtype.name


def fill(
    shape: Sequence[int], dtype: np.dtype[Any], block: Callable[[int], NDArray[Any]]
) -> NDArray[Any]:
    """A new array of consecutive results of `block(count)`, converted to `dtype`.

    Every count but the last is the same multiple of 16.
    """
    size = math.prod(shape)
    if size <= _BLOCK:
        return convert(block(size), dtype).reshape(shape)
    result = np.empty(size, dtype)
    for part in blocks(size):
        result[part] = convert(block(part.stop - part.start), dtype)
    return result.reshape(shape)


def blocks(size: int) -> Iterator[slice]:
    """Consecutive slices that cover `size` elements."""
    for start in range(0, size, _BLOCK):
        yield slice(start, min(start + _BLOCK, size))


def working_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which PyTorch computes reals of `dtype`: float64 for float64, else float32."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def words_of(dtype: np.dtype[Any]) -> int:
    """The number of 32-bit words of a standard uniform of this working dtype."""
    return dtype.itemsize // 4


def require_real(operator: str, dtype: np.dtype[Any]) -> None:
    """Raise NotImplementedError, as PyTorch's dispatch does, unless `dtype` is a float."""
    if name_of(dtype) not in DIGITS:
        raise NotImplementedError(
            f"{operator} is not implemented for {dtype.name}; it draws {', '.join(DIGITS)}"
        )


def require_number(operator: str, dtype: np.dtype[Any]) -> None:
    """Raise NotImplementedError for dtypes that PyTorch rejects: complex and wide unsigned ones."""
    if dtype.kind == "c" or dtype.name in ("uint16", "uint32", "uint64"):
        raise NotImplementedError(
            f"{operator} is not implemented for {dtype.name}; draw in int64 and convert the result"
        )
