"""Memory that has run out, as an error that PyTorch's programs catch."""

from __future__ import annotations

import jax

__all__ = ["OutOfMemoryError"]

# What JAX's errors say, whatever the device.
_PHRASE = "RESOURCE_EXHAUSTED"


class OutOfMemoryError(RuntimeError):
    """A device has not enough memory for the results of an operator or a program.

    The message begins as PyTorch's does, since programs that try again with smaller batches look
    for the words, and goes on with JAX's.
    """


def named(error: BaseException) -> BaseException:
    """An error of JAX's at run time as what it means: `OutOfMemoryError`, or as it is."""
    text = str(error)
    if not text.startswith(_PHRASE):
        return error
    is_gpu = jax.default_backend() in ("cuda", "gpu", "rocm")
    phrase = "CUDA out of memory" if is_gpu else "DefaultCPUAllocator: can't allocate memory"
    return OutOfMemoryError(f"{phrase}. {text}")
