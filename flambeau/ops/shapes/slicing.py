"""Views of part of a tensor: `select`, `narrow`, `split`, `unbind`, `diagonal`, `unfold`, …

The start of a part is data of the compiled program, so ``x[0]``, ``x[1]``, … compile only once.
"""

from __future__ import annotations

import operator
from typing import Any

from flambeau.core.operators.op import function
from flambeau.core.operators.viewing import make_view
from flambeau.core.support.dtype import INTEGER
from flambeau.core.values.steps import Cut, Diagonal, Slice, Strided, Windows
from flambeau.core.values.strides import memory_order
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import wrap_dim
from flambeau.ops.common.dims import as_int, is_open, sizes_of

__all__ = [
    "as_strided",
    "diagonal",
    "narrow",
    "select",
]


# One part


@function(method=True)
def select(input: Tensor, dim: Any, index: Any) -> Any:
    """The slice at ``index`` of dimension ``dim``, which is removed.

    Raises:
        IndexError: The index or the dimension is out of range, or ``input`` is 0-d.
    """
    step, starts = select_step(input, dim, index, "select")
    return make_view(input, step, "select", starts)


def select_step(source: Tensor, dim: Any, index: Any, name: str) -> tuple[Slice, tuple[int, ...]]:
    """The view step of one position, and its start, checked."""
    shape = source.shape
    if not shape:
        raise IndexError(f"{name}(): a 0-d tensor has no dimension to select from")
    dim = wrap_dim(dim, len(shape), name)
    start = wrap_index(as_int(index, f"{name}(): index"), shape[dim], dim)
    return Slice((Cut(dim, 1, 1, True),)), (start,)


def wrap_index(index: int, size: int, dim: int) -> int:
    """``index`` counted from the front of a dimension.

    Raises:
        IndexError: It is out of range.
    """
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {size}")
    return index + size if index < 0 else index


@function(method=True)
def narrow(input: Tensor, dim: Any, start: Any, length: Any) -> Any:
    """``length`` positions of dimension ``dim``, from ``start`` on.

    Raises:
        IndexError: The dimension or the start is out of range.
        RuntimeError: The part would exceed the dimension, or the length is negative.
    """
    shape = input.shape
    if not shape:
        raise RuntimeError("narrow(): a 0-d tensor has no dimension to narrow")
    dim = wrap_dim(dim, len(shape), "narrow")
    if isinstance(start, Tensor) and (start.ndim or start.dtype.category != INTEGER):
        raise RuntimeError(
            f"narrow(): start must be a 0-d tensor of integers, got {start.dtype} of shape "
            f"{list(start.shape)}"
        )
    start, length = as_int(start, "narrow(): start"), as_int(length, "narrow(): length")
    size = shape[dim]
    if length < 0:
        raise RuntimeError(f"narrow(): length must not be negative, got {length}")
    if not -size <= start <= size:
        raise IndexError(
            f"narrow(): start {start} is out of range for dimension {dim} of size {size}"
        )
    if start < 0:
        start += size
    if start + length > size:
        raise RuntimeError(
            f"narrow(): start {start} plus length {length} exceeds dimension {dim} of size {size}"
        )
    return take_slice(input, dim, start, length)


def slice_step(source: Tensor, dim: Any, part: slice, name: str) -> tuple[Slice, tuple[int, ...]]:
    """The view step of a slice of one dimension, and its start, checked."""
    shape = source.shape
    if not shape:
        raise IndexError(f"{name}(): a 0-d tensor has no dimension to slice")
    dim = wrap_dim(dim, len(shape), name)
    start, size, stride = slice_bounds(part, shape[dim])
    return Slice((Cut(dim, size, stride, False),)), (start,)


def slice_bounds(part: slice, size: int) -> tuple[int, int, int]:
    """Start, number of positions and step of a slice of a dimension.

    Raises:
        ValueError: The step is below 1.
    """
    step = 1 if part.step is None else operator.index(part.step)
    if step < 1:
        raise ValueError(f"the step of a slice must be greater than zero, got {step}; use flip()")
    if part.start is None and part.stop is None and step == 1:
        return 0, size, 1
    try:
        start, stop, step = part.indices(size)
    except TypeError:
        bounds: Any = part.start, part.stop, size
        if not any(map(is_open, bounds)):
            raise
        start, stop = _bound(part.start, size, 0), _bound(part.stop, size, size)
    count = -(-(stop - start) // step)
    return start, max(count, 0), step


def _bound(value: Any, size: Any, default: Any) -> Any:
    """The start or the end of a slice; sizes may be symbolic ones of `jax.export`."""
    value = default if value is None else as_int(value, "a bound of a slice")
    if value < 0:
        return max(value + size, 0)
    return min(value, size)


def take_slice(source: Tensor, dim: int, start: int, size: int, stride: int = 1) -> Any:
    """A view of ``size`` positions of one dimension, with bounds already checked."""
    return make_view(source, Slice((Cut(dim, size, stride, False),)), "slice", (start,))


# Diagonals, windows and strides


@function(method=True)
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonal of dimensions ``dim1`` and ``dim2``, as a new last dimension.

    Args:
        offset: Positive for diagonals above the main one, negative for those below.

    Raises:
        RuntimeError: ``dim1`` and ``dim2`` are the same.
        IndexError: A dimension is out of range.
    """
    return make_view(input, diagonal_step(input, offset, dim1, dim2, "diagonal"), "diagonal")


def diagonal_step(source: Tensor, offset: Any, dim1: Any, dim2: Any, name: str) -> Diagonal:
    """The view step of a diagonal, checked."""
    ndim = source.ndim
    first, second = wrap_dim(dim1, ndim, name), wrap_dim(dim2, ndim, name)
    if first == second:
        raise RuntimeError(f"{name}(): dim1 and dim2 are the same dimension, {dim1} and {dim2}")
    return Diagonal(as_int(offset, f"{name}(): offset"), first, second)


def _unfold(self: Tensor, dimension: Any, size: Any, step: Any) -> Any:
    """Windows of ``size`` along a dimension, ``step`` apart, as a new last dimension.

    Raises:
        RuntimeError: ``size`` exceeds the dimension's or is negative, or ``step`` is not positive.
        IndexError: The dimension is out of range.
    """
    shape = self.shape
    dim = wrap_dim(dimension, len(shape), "unfold")
    size, step = as_int(size, "unfold(): size"), as_int(step, "unfold(): step")
    limit = shape[dim] if shape else 1
    if not 0 <= size <= limit:
        raise RuntimeError(
            f"unfold(): size {size} must be between 0 and {limit}, the size of dimension {dim}"
        )
    if step <= 0:
        raise RuntimeError(f"unfold(): step must be positive, got {step}")
    return make_view(self, Windows(dim, size, step), "unfold")


_unfold.__name__ = _unfold.__qualname__ = "unfold"
# A method only: the function of this name in `nn.functional` extracts image patches.
Tensor.unfold = function(_unfold)


@function(method=True)
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """Elements at regular distances in memory order.

    Args:
        input: A tensor that is not a view of part of another one, unless only its first element is
            selected. Its dimensions may be in another order than in memory; see `stride()`.
        size: The shape of the result.
        stride: For each dimension, the distance of its positions in elements.
        storage_offset: The first element; by default that of ``input``.

    Raises:
        RuntimeError: The number of strides differs from that of sizes, one is negative, elements
            are out of range, or ``input`` is a view of part of another tensor.
    """
    shape, strides = sizes_of((size,), "as_strided"), sizes_of((stride,), "as_strided")
    start = 0 if storage_offset is None else as_int(storage_offset, "as_strided(): storage_offset")
    if len(shape) != len(strides):
        raise RuntimeError(f"as_strided(): strides {list(strides)} do not fit size {list(shape)}")
    if any(each < 0 for each in (*shape, *strides, start)):
        raise RuntimeError(
            f"as_strided(): sizes {list(shape)}, strides {list(strides)} and the offset {start} "
            "must not be negative"
        )
    last = start + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if last >= input.numel() and 0 not in shape:
        raise RuntimeError(
            f"as_strided(): size {list(shape)} with strides {list(strides)} from {start} on "
            f"reaches element {last} of {input.numel()}"
        )
    counted = input if last == 0 and storage_offset is None else _as_in_memory(input)
    return make_view(counted, Strided(shape, strides), "as_strided", (start,))


def _as_in_memory(source: Tensor) -> Tensor:
    """A view of all elements of ``source``, with its dimensions in memory order."""
    view, array = source._view, source._cell.array
    if view is None:
        return source
    ordered = source.permute(memory_order(view, array.shape, array.dtype))
    if source.numel() != array.size or not ordered.is_contiguous():
        raise RuntimeError(
            "as_strided() needs a view of all elements of its base, each of them once; call "
            "clone() first"
        )
    return ordered
