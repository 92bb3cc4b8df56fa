"""Parsing a subscript: ``x[...]`` as one view followed by index arrays.

Integers, slices, ``None``, ``...`` and bools make a view. Tensors, lists and NumPy arrays then
index that view. As in PyTorch, and unlike NumPy, an integer next to an index array is part of the
view: ``x[0, :, [0, 1]]`` has the dimension of the list last.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from flambeau.core.devices.compiler import has_unknown_size
from flambeau.core.fusion.stream import seen
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.modes import modes
from flambeau.core.support.warning import warn
from flambeau.core.values.cell import is_abstract
from flambeau.core.values.convert import to_numpy
from flambeau.core.values.steps import Cut, Reshape, Slice, Step
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import AskedCountError
from flambeau.ops.indices.placement import first_outside, inside
from flambeau.ops.shapes.slicing import slice_bounds, wrap_index

__all__: list[str] = []


class Subscript(NamedTuple):
    """The parsed parts of a subscript.

    Attributes:
        steps: The view steps, each with the operator's name and its start positions. Empty if the
            view is the whole tensor.
        indices: Index arrays by the dimension of the view that they index. A mask is an array of
            bools, listed at the first of the dimensions that it covers.
        name: The last operator of the view.
    """

    steps: list[tuple[Step, str, Any]]
    indices: dict[int, Any]
    name: str


def parse(shape: tuple[int, ...], subscript: Any, key: tuple[Any, ...] | None = None) -> Subscript:
    """Parse ``subscript`` for a tensor of this shape.

    Args:
        shape: The shape of the tensor.
        subscript: What stands between the brackets.
        key: `key_of` the subscript, if it is known.

    Raises:
        IndexError: It has too many entries, an integer is out of bounds, a mask does not fit, or an
            entry has a type that cannot index.
        ValueError: A slice has a step below 1.
    """
    # Sizes may be symbolic ones of `jax.export`.
    if key is None or not _INTEGERS.issuperset(map(type, shape)):
        return _parsed(shape, _as_tuple(subscript))
    return _remembered(shape, key)


_INTEGERS = frozenset({int})
_SIMPLE = frozenset({int, type(None), type(...)})


def key_of(subscript: Any) -> tuple[Any, ...] | None:
    """A key of a subscript of integers, slices, ``None`` and ``...``; ``None`` for any other."""
    key: list[Any] = []
    for item in subscript if type(subscript) is tuple else (subscript,):
        kind = type(item)
        if kind is slice:
            # Python before 3.12 cannot hash a slice.
            bounds = item.start, item.stop, item.step
            if not _SIMPLE.issuperset(map(type, bounds)):
                return None
            key.append(bounds)
        elif kind in _SIMPLE:
            key.append(item)
        else:
            return None
    return tuple(key)


@functools.lru_cache(maxsize=4096)
def _remembered(shape: tuple[int, ...], key: tuple[Any, ...]) -> Subscript:
    """`parse` of the subscript of a key."""
    found = _parsed(shape, tuple([slice(*e) if type(e) is tuple else e for e in key]))
    steps = [
        (step, name, None if starts is None else np.array(starts, np.int64))
        for step, name, starts in found.steps
    ]
    return found._replace(steps=steps)


def _parsed(shape: tuple[int, ...], entries: tuple[Any, ...]) -> Subscript:
    """`parse` for a tuple of entries."""
    items = list(map(_entry, entries))
    used = sum(map(_consumed, items))
    ndim = len(shape)
    if used > ndim:
        raise IndexError(f"too many indices: {used} for a tensor with {ndim} dimensions")
    reader = _Reader(shape)
    for item in items:
        if item is ...:
            # A second ellipsis covers no dimensions.
            reader.skip(ndim - used)
            used = ndim
        else:
            reader.take(item)
    reader.skip(ndim - reader.dim)
    return Subscript(reader.steps(), reader.indices, reader.name)


def _as_tuple(subscript: Any) -> tuple[Any, ...]:
    if isinstance(subscript, tuple):
        return tuple(subscript)
    if not isinstance(subscript, list) or len(subscript) >= 32:
        return (subscript,)
    kinds = Tensor | np.ndarray | slice | Sequence | None
    if any(each is ... or isinstance(each, kinds) for each in subscript):
        warn(
            "a list that holds lists, tensors, slices or None is read as a tuple of subscripts; "
            "write x[tuple(list)] for that, or x[flambeau.tensor(list)] for one index tensor",
            UserWarning,
        )
        return tuple(subscript)
    return (subscript,)


def _entry(item: Any) -> Any:
    """One entry as an int, slice, None, ..., bool, 0-d traced array, or index array."""
    kind = type(item)
    if kind is int or kind is slice or item is None or item is ... or kind is bool:
        return item
    if isinstance(item, Tensor):
        return _from_tensor(item)
    if isinstance(item, np.ndarray | jax.Array):
        array = item if isinstance(item, jax.Array) else np.array(item, copy=True)
        return _checked(array)
    if isinstance(item, np.bool_ | float | complex):
        raise _unusable(item)
    if hasattr(item, "__index__"):
        return operator.index(item)
    if isinstance(item, str) or not isinstance(item, Sequence):
        raise _unusable(item)
    array = to_numpy(list(item))
    return array.astype(np.int64) if not array.size else _checked(array)


def _unusable(item: Any) -> IndexError:
    return IndexError(
        "only integers, slices, ..., None, bools, and tensors, arrays or lists of integers or "
        f"bools can index a tensor, got {type(item).__name__}: {item!r:.40}"
    )


def _from_tensor(item: Tensor) -> Any:
    array = _checked(item._read())
    if modes.trace is not None:
        modes.trace.note(item)
        return as_unknown(array)
    if array.ndim or isinstance(array, Tracer) or is_abstract(array):
        return array
    return bool(array) if array.dtype == np.bool_ else int(array)


def as_unknown(array: Any) -> Any:
    """``array`` as a tracer, while a trace is running.

    The values may differ when the program runs.
    """
    return array if isinstance(array, Tracer) else _same(array)


@jax.jit
def _same(array: Any) -> Any:
    return array


def _checked(array: Any) -> Any:
    """An index array of int64, int32 or bool, checked."""
    if array.dtype == np.uint8:
        warn("indexing with a uint8 mask is deprecated, use a bool mask", UserWarning)
        return array.astype(np.bool_)
    if array.dtype not in (np.int64, np.int32, np.bool_):
        found = dtypes.from_numpy_dtype(array.dtype)
        raise IndexError(f"an index tensor must be of int64, int32, bool or uint8, got {found}")
    return array


def is_mask(index: Any) -> bool:
    """Whether an index array is one of bools."""
    return index.dtype == np.bool_


def _consumed(item: Any) -> int:
    """The number of dimensions that an entry consumes."""
    if item is None or item is ... or isinstance(item, bool):
        return 0
    return item.ndim if hasattr(item, "ndim") and is_mask(item) else 1


class _Reader:
    """Reads the entries, collecting cuts, the shape of the view, and the index arrays."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.dim = 0
        self.sizes: list[int] = []
        self.cuts: list[Cut] = []
        self.starts: list[Any] = []
        self.indices: dict[int, Any] = {}
        self.inserted = False
        self.name = "alias"

    def skip(self, count: int) -> None:
        self.sizes.extend(self.shape[self.dim : self.dim + count])
        self.dim += count

    def take(self, item: Any) -> None:
        if item is None:
            self._insert()
        elif isinstance(item, bool):
            self.indices[len(self.sizes)] = np.zeros(int(item), np.int64)
            self._insert()
        elif isinstance(item, int):
            self._select(wrap_index(item, self.shape[self.dim], self.dim))
        elif isinstance(item, slice):
            self._slice(item)
        elif item.ndim:
            self._index(item)
        elif is_mask(item):
            self.indices[len(self.sizes)] = item.reshape(1)
            self._insert()
        else:
            size = self.shape[self.dim]
            if not size:
                raise IndexError(f"an index is out of bounds for dimension {self.dim} with size 0")
            check_bounds({self.dim: item}, self.shape)
            self._select(inside(item, size, wraps=True), computed=True)

    def _insert(self) -> None:
        self.sizes.append(1)
        self.inserted, self.name = True, "unsqueeze"

    def _select(self, start: Any, computed: bool = False) -> None:
        self.cuts.append(Cut(self.dim, 1, 1, True, computed))
        self.starts.append(start)
        self.dim += 1
        self.name = "select"

    def _slice(self, item: slice) -> None:
        if not self.shape:
            raise IndexError("a 0-d tensor cannot be sliced")
        whole = self.shape[self.dim]
        start, size, stride = slice_bounds(item, whole)
        if (size, stride) != (whole, 1):
            self.cuts.append(Cut(self.dim, size, stride, False))
            self.starts.append(start)
        self.sizes.append(size)
        self.dim += 1
        self.name = "slice"

    def _index(self, item: Any) -> None:
        at = len(self.sizes)
        covered = item.ndim if is_mask(item) else 1
        if is_mask(item):
            for i, size in enumerate(item.shape):
                if self.shape[self.dim + i] != size:
                    raise IndexError(
                        f"a mask of shape {list(item.shape)} does not fit a tensor of shape "
                        f"{list(self.shape)} at dimension {self.dim + i}: {size} differs from "
                        f"{self.shape[self.dim + i]}"
                    )
        self.indices[at] = item
        self.skip(covered)

    def steps(self) -> list[tuple[Step, str, Any]]:
        steps: list[tuple[Step, str, Any]] = []
        if self.cuts:
            name = "select" if any(cut.squeeze for cut in self.cuts) else "slice"
            name = name if self.inserted else self.name
            steps.append((Slice(tuple(self.cuts)), name, tuple(self.starts)))
        if self.inserted:
            steps.append((Reshape(tuple(self.sizes)), self.name, None))
        return steps


def without_masks(indices: dict[int, Any]) -> dict[int, Any]:
    """Index arrays with each mask replaced by the positions of its True elements.

    Raises:
        TracedValueError: A mask is unknown, since a program is being compiled.
        NotImplementedError: A mask is on the meta device.
    """
    result = with_positions(indices)
    if any(map(is_mask, result.values())):
        raise AskedCountError(
            "a mask picks as many elements as it has True values, and that is not known while "
            "a program is being compiled. Write to a mask instead, as in x[mask] = 0; use "
            "flambeau.where(mask, x, 0), which keeps the shape; or move this line out of the "
            "compiled function"
        )
    return result


def with_positions(indices: dict[int, Any]) -> dict[int, Any]:
    """Index arrays with each known mask replaced by the positions of its True elements.

    Raises:
        NotImplementedError: A mask is on the meta device.
    """
    result: dict[int, Any] = {}
    for dim, index in indices.items():
        found = picked(index) if is_mask(index) else None
        if found is None:
            result[dim] = index
            continue
        for i, positions in enumerate(found):
            result[dim + i] = positions
    return result


def picked(mask: Any) -> tuple[Any, ...] | None:
    """The positions selected by a mask, an int64 array for each dimension.

    ``None`` if a program is being compiled and their number must stay unknown.

    Raises:
        NotImplementedError: The mask is on the meta device.
    """
    if is_abstract(mask):
        raise NotImplementedError("a mask on the meta device has no values to pick elements by")
    if not isinstance(mask, Tracer):
        return positions_in(np.asarray(seen(mask)))
    count = None if modes.asking is None else modes.asking.count(mask)
    if count is None:
        return None
    return tuple(each.astype(np.int64) for each in jnp.nonzero(mask, size=count))


def positions_in(values: np.ndarray) -> tuple[np.ndarray, ...]:
    """The positions of true or nonzero elements, an array for each dimension."""
    found = np.nonzero(values)
    if modes.asking is not None:
        modes.asking.note_count(len(found[0]))
    return found


def check_bounds(indices: dict[int, Any], shape: tuple[int, ...]) -> None:
    """Raise if an index array that is known and on the CPU is out of range.

    In a compiled program and on other devices out-of-range positions read NaN (the least value of
    an integer dtype) and are not written.

    Raises:
        IndexError: A position is out of range.
    """
    for dim, index in indices.items():
        outside = first_outside(index, -shape[dim], shape[dim])
        if outside is not None:
            raise IndexError(
                f"index {outside} is out of bounds for dimension {dim} with size {shape[dim]}"
            )


def check_broadcast(indices: dict[int, Any]) -> None:
    """Raise if index arrays do not broadcast.

    Raises:
        IndexError: The shapes do not broadcast.
    """
    if len(indices) == 1:
        return
    shapes = [tuple(index.shape) for index in indices.values()]
    try:
        broadcast = jnp if has_unknown_size(indices.values()) else np
        broadcast.broadcast_shapes(*shapes)
    except ValueError:
        shown = ", ".join(str(list(shape)) for shape in shapes)
        raise IndexError(f"index tensors of shapes {shown} do not broadcast") from None
