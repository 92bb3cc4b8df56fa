"""Out-of-memory errors, raised as the error that PyTorch programs catch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax

__all__ = ["OutOfMemoryError"]

# The texts of JAX's errors on every device, also for programs whose arguments failed this way.
_PHRASES = "RESOURCE_EXHAUSTED", "Out of memory allocating"

_ON_CPU = "DefaultCPUAllocator: can't allocate memory"


class OutOfMemoryError(RuntimeError):
    """A device has not enough memory for the results of an operator or a program.

    The message begins with PyTorch's words, which programs that retry with smaller batches look
    for, and continues with JAX's.
    """


#: JAX's errors at run time and from its C++ calls, and NumPy's for arrays that are too large.
FAILURES = (jax.errors.JaxRuntimeError, ValueError, MemoryError)


def named(error: BaseException) -> BaseException:
    """One of `FAILURES` as `OutOfMemoryError` if memory has run out; any other error unchanged."""
    if not isinstance(error, FAILURES):
        return error
    text = str(error)
    if isinstance(error, MemoryError):
        return OutOfMemoryError(f"{_ON_CPU}. {text}")
    if not any(each in text for each in _PHRASES):
        return error
    is_gpu = jax.default_backend() in ("cuda", "gpu", "rocm")
    return OutOfMemoryError(f"{'CUDA out of memory' if is_gpu else _ON_CPU}. {text}")


def require_addressable(shape: Sequence[int], itemsize: int) -> None:
    """Raise an error for an array whose size in bytes exceeds the address space.

    Raises:
        RuntimeError: There are 2**63 bytes or more.
    """
    if math.prod(shape) * itemsize >= 2**63:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")
