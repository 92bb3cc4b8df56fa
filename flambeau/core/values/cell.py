"""The only mutable state: a box that holds one immutable array."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import jax

from flambeau.core.programs.deferred import Deferred, keep
from flambeau.core.programs.finishing import alone
from flambeau.core.types import Contents, DTypeLike

_epoch = 0


def next_epoch() -> int:
    """Begin a new epoch: the `Cell.born` of all later Cells."""
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
            a `jax.ShapeDtypeStruct`. Reading it computes a value deferred by `write_later`. While a
            program may be overwriting the array, the Cell is empty and readers on other threads
            wait.
        version: The number of replacements of the value.
        born: The epoch in which the Cell was made. Each transformation begins an epoch, which
            separates the Cells made inside it from earlier ones.
        loan: The memory that it shares with NumPy arrays, if it does; see `LentCell`.
    """

    __slots__ = ("__weakref__", "_make", "array", "born", "loan", "version")

    version: int

    def __init__(self, array: Contents) -> None:
        self.array = array
        if type(array) is Deferred:
            keep(self, array)
        self.version = 0
        self.born: int = _epoch
        self._make: Callable[[], jax.Array] | None = None

    def write(self, array: Contents) -> None:
        """Replace the value and count the write."""
        self.array = array
        if type(array) is Deferred:
            keep(self, array)
        self.version += 1
        self._make = None

    def write_later(self, make: Callable[[], jax.Array]) -> None:
        """Replace the value by the result of ``make()``, which is called when it is first read.

        So the initial values of a new layer are not drawn until they are needed.

        Args:
            make: Returns an array of the same shape and dtype, the same whenever it is called.
        """
        alone(self._put_off, make)

    def _put_off(self, make: Callable[[], jax.Array]) -> None:
        self._make = make
        self.version += 1
        with contextlib.suppress(AttributeError):
            del self.array

    def __reduce__(self) -> tuple[type[Cell], tuple[Contents]]:
        # A copy is a Cell of its own with no writes yet.
        return Cell, (self.array,)

    def __getattr__(self, name: str) -> Any:
        # Only called if the attribute is missing: the array is still to be computed, or a program
        # on another thread, which holds the lock, may be overwriting it.
        if name == "array":
            make = self._make
            if make is None:
                return alone(object.__getattribute__, self, name)
            return alone(self._fill, make, make())
        return object.__getattribute__(self, name)

    def _fill(self, make: Callable[[], jax.Array], array: jax.Array) -> Contents:
        """Fill the Cell with ``array``, unless another thread has written or filled it first."""
        if self._make is make:
            try:
                object.__getattribute__(self, "array")
            except AttributeError:
                self.array: Contents = array
            self._make = None
        return object.__getattribute__(self, "array")


@functools.lru_cache(maxsize=4096)
def abstract(shape: tuple[int, ...], numpy_dtype: DTypeLike) -> jax.ShapeDtypeStruct:
    """The value of a Cell on the meta device: a shape and a dtype."""
    return jax.ShapeDtypeStruct(shape, numpy_dtype)


def is_abstract(array: object) -> bool:
    """Whether ``array`` has no values, as on the meta device."""
    return isinstance(array, jax.ShapeDtypeStruct)
