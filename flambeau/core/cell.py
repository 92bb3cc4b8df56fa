"""The only thing that changes: a box that holds one immutable array."""

from __future__ import annotations

import functools
from typing import Any

import jax

_epoch = 0


def next_epoch() -> int:
    """Begin a new epoch: what `Cell.born` will be for the Cells made from now on."""
    global _epoch
    _epoch += 1
    return _epoch


class Cell:
    """A one-slot mutable box for a `jax.Array`.

    Parameters, buffers, gradients, optimizer state, learning rates and random-number state are all
    Cells; nothing else in the library is mutable tensor state. "In place" means putting a new array
    into the box.

    Attributes:
        array: The value: a `jax.Array`, a tracer while a transformation runs, or on the meta device
            a `jax.ShapeDtypeStruct`.
        version: How many times the value has been replaced.
        born: The epoch in which the Cell was made. Each transformation begins one, and so tells
            the Cells made inside it from those outside.
    """

    __slots__ = ("__weakref__", "array", "born", "version")

    def __init__(self, array: Any) -> None:
        self.array = array
        self.version = 0
        self.born = _epoch

    def write(self, array: Any) -> None:
        """Replace the value and count the write."""
        self.array = array
        self.version += 1


@functools.lru_cache(maxsize=4096)
def abstract(shape: tuple[int, ...], numpy_dtype: Any) -> jax.ShapeDtypeStruct:
    """The value of a Cell on the meta device: a shape and a dtype."""
    return jax.ShapeDtypeStruct(shape, numpy_dtype)


def is_abstract(array: Any) -> bool:
    """Whether ``array`` has no values, as on the meta device."""
    return isinstance(array, jax.ShapeDtypeStruct)
