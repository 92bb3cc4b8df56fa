"""An array whose shape and dtype are known, and whose elements are computed when needed."""

from __future__ import annotations

import weakref
from typing import Any

import jax
import numpy as np
from jax.sharding import Sharding

from flambeau.core.support import jax_private
from flambeau.core.support.jax_private import ArrayImpl
from flambeau.core.types import Args, Cell, Function, JaxDevice, Leaf, Segment, View


class Deferred(jax.Array):
    """The result of a call that waits in a `Segment`; any use of its elements computes them.

    JAX takes it wherever it takes an array. Whatever is asked of it besides its shape, dtype and
    placement is asked of the computed array.

    Attributes:
        aval: The shape and dtype.
        facts: These and the placement, as a `sequence.Result`.
        segment: The calls that wait; ``None`` once `value` is there.
        index: Which of the results of these calls it is.
        value: The computed array.
    """

    __slots__ = ("aval", "facts", "index", "segment", "value")

    aval: Any
    facts: Any
    index: int
    segment: Segment | None
    value: jax.Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of every dimension."""
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        """Whether JAX's promotion takes it for a Python number."""
        return self.aval.weak_type

    @property
    def sharding(self) -> Sharding:
        """The placement."""
        return self.facts.sharding

    @property
    def committed(self) -> bool:
        """Whether the array was put on its device on purpose."""
        return self.facts.committed

    _committed = committed

    def devices(self) -> set[JaxDevice]:
        """The devices of JAX on which the array is."""
        return {*self.facts.sharding.device_set}

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError("len() of unsized object")
        return self.aval.shape[0]

    def computed(self) -> jax.Array:
        """The array itself."""
        segment = self.segment
        if segment is not None:
            segment.compute(self)
        return self.value

    def __getattr__(self, name: str) -> Any:
        if name in Deferred.__slots__:
            raise AttributeError(name)
        return getattr(self.computed(), name)

    def __hash__(self) -> int:
        return hash(self.computed())

    def __reduce__(self) -> str | Args:
        return self.computed().__reduce__()


#: The types of arrays with values, now or when they are asked for.
ARRAYS: frozenset[type] = frozenset({ArrayImpl, Deferred})


def computed(array: Leaf) -> Leaf:
    """``array``, computed if it waits; anything else as it is."""
    return array.computed() if type(array) is Deferred else array


def keep(holder: Cell | View, array: Deferred) -> None:
    """Note that ``holder.array`` is ``array``, in whose place the computed array will be."""
    segment = array.segment
    if segment is None:
        holder.array = array.value
    else:
        segment.holders.append(weakref.ref(holder))


# Names of classes and of Python's own bookkeeping.
_NOT_DELEGATED = {"__annotations__", "__del__", "__dict__", "__slots__", "__weakref__"}


def _delegate() -> None:
    """Forward all other attributes of an array to the computed one."""
    own = {*vars(Deferred), *vars(object)} - {
        "__eq__",
        "__ne__",
        "__lt__",
        "__le__",
        "__gt__",
        "__ge__",
    }
    for name in dir(ArrayImpl):
        if name in own or name in _NOT_DELEGATED:
            continue
        if name.startswith("__") and callable(getattr(ArrayImpl, name)):
            setattr(Deferred, name, _operator(name))
        else:
            setattr(Deferred, name, _member(name))


def _operator(name: str) -> Function:
    def call(self: Deferred, *args: object, **kwargs: object) -> Any:
        return getattr(self.computed(), name)(*map(computed, args), **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def _member(name: str) -> property:
    return property(lambda self: getattr(self.computed(), name))


_delegate()

#: Whether this JAX takes such arrays.
IS_KNOWN: bool = jax_private.take_arrays_of(Deferred, computed)
