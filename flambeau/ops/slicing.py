"""Views of part of a tensor: `select`, `narrow`, `split`, `unbind`, `diagonal`, `unfold`, …

Where a part begins is data of the compiled program, so taking ``x[0]``, ``x[1]``, … compiles once.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any

from jax import lax

from flambeau.core.dtype import INTEGER
from flambeau.core.kinds import Array
from flambeau.core.op import function, op
from flambeau.core.steps import Cut, Diagonal, Slice, Strided, Windows
from flambeau.core.strides import memory_order
from flambeau.core.tensor import Tensor
from flambeau.core.viewing import make_view, make_views
from flambeau.ops.checks import wrap_dim
from flambeau.ops.dims import as_int, sizes_of

__all__ = [
    "as_strided",
    "chunk",
    "diagonal",
    "dsplit",
    "hsplit",
    "narrow",
    "select",
    "split",
    "split_with_sizes",
    "tensor_split",
    "unbind",
    "unsafe_chunk",
    "unsafe_split",
    "vsplit",
]


# One part


@function(method=True)
def select(input: Tensor, dim: Any, index: Any) -> Any:
    """The part at ``index`` of dimension ``dim``, which disappears.

    Raises:
        IndexError: The index or the dimension is out of range, or ``input`` is 0-d.
    """
    step, starts = select_step(input, dim, index, "select")
    return make_view(input, step, "select", starts)


def select_step(source: Tensor, dim: Any, index: Any, name: str) -> tuple[Slice, tuple[int, ...]]:
    """The view step of one position, and where it starts, checked."""
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
        RuntimeError: The part would reach beyond the end, or the length is negative.
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
    """The view step of a slice of one dimension, and where it starts, checked."""
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
    start, stop, step = part.indices(size)
    return start, max(0, -(-(stop - start) // step)), step


def take_slice(source: Tensor, dim: int, start: int, size: int, stride: int = 1) -> Any:
    """A view of ``size`` positions of one dimension, with bounds already checked."""
    return make_view(source, Slice((Cut(dim, size, stride, False),)), "slice", (start,))


# Several parts


@function(method=True)
def unbind(input: Tensor, dim: int = 0) -> tuple[Any, ...]:
    """All parts along dimension ``dim``, which disappears.

    Raises:
        IndexError: The dimension is out of range, or ``input`` is 0-d.
    """
    shape = input.shape
    dim = wrap_dim(dim, len(shape), "unbind")
    if not shape:
        raise IndexError("unbind(): a 0-d tensor has no dimension to go along")
    step = Slice((Cut(dim, 1, 1, True),))
    parts = functools.partial(_unbound, dim=dim)
    return make_views(input, [(step, (i,)) for i in range(shape[dim])], _Whole(parts), "unbind")


class _Whole:
    """A function from an array to all parts, equal to others with the same arguments."""

    __slots__ = ("call", "key")

    def __init__(self, call: functools.partial[Any]) -> None:
        self.call = call
        self.key = (call.func, tuple(call.keywords.items()))

    def __call__(self, array: Any) -> Any:
        return self.call(array)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Whole) and self.key == other.key


def _unbound(array: Any, *, dim: int) -> tuple[Any, ...]:
    sizes = (1,) * array.shape[dim]
    return tuple(lax.squeeze(part, (dim,)) for part in lax.split(array, sizes, dim))


def _parted(array: Any, *, sizes: tuple[int, ...], dim: int) -> tuple[Any, ...]:
    return tuple(lax.split(array, sizes, dim))


def _parts(source: Tensor, sizes: tuple[int, ...], dim: int, name: str) -> tuple[Any, ...]:
    """Consecutive parts of the given sizes, which cover the dimension."""
    steps, start = [], 0
    for size in sizes:
        steps.append((Slice((Cut(dim, size, 1, False),)), (start,)))
        start += size
    whole = _Whole(functools.partial(_parted, sizes=sizes, dim=dim))
    return make_views(source, steps, whole, name)


@function
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Consecutive parts of dimension ``dim``.

    Args:
        split_size_or_sections: The size of every part (the last may be smaller), or the sizes of
            all parts in order.

    Raises:
        RuntimeError: A size is negative, or the sizes do not sum to the dimension's.
        IndexError: The dimension is out of range.
    """
    return _split(tensor, split_size_or_sections, dim)


@function(method="split")
def _split_method(self: Tensor, split_size: Any, dim: int = 0) -> tuple[Any, ...]:
    """Consecutive parts of dimension ``dim``; see `flambeau.split`."""
    return _split(self, split_size, dim)


def _split(source: Tensor, given: Any, dim: int) -> tuple[Any, ...]:
    if isinstance(given, Sequence):
        return _split_with_sizes(source, given, dim, "split_with_sizes")
    dim, sizes = _split_sizes(source, given, dim, "split")
    return _parts(source, sizes, dim, "split")


def _split_sizes(source: Tensor, given: Any, dim: Any, name: str) -> tuple[int, tuple[int, ...]]:
    """The dimension and the sizes of parts that are equal but for the last."""
    shape = source.shape
    if not shape:
        raise RuntimeError(f"{name}(): a 0-d tensor cannot be split")
    dim = wrap_dim(dim, len(shape), name)
    size, total = as_int(given, f"{name}(): split_size"), shape[dim]
    if size < 0:
        raise RuntimeError(f"{name}(): split_size must not be negative, got {size}")
    if size == 0 and total:
        raise RuntimeError(
            f"{name}(): split_size 0 needs a dimension of size 0, dimension {dim} has size {total}"
        )
    return dim, _equal_sizes(total, size)


def _equal_sizes(total: int, size: int) -> tuple[int, ...]:
    if not total or not size:
        return (0,)
    full, rest = divmod(total, size)
    return (size,) * full + ((rest,) if rest else ())


@function(method=True)
def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Any, ...]:
    """Consecutive parts of dimension ``dim`` with the given sizes.

    Raises:
        RuntimeError: A size is negative, or the sizes do not sum to the dimension's.
    """
    return _split_with_sizes(input, split_sizes, dim, "split_with_sizes")


def _split_with_sizes(source: Tensor, given: Any, dim: Any, name: str) -> tuple[Any, ...]:
    sizes, shape = sizes_of((given,), name), source.shape
    if not shape:
        raise RuntimeError(f"{name}(): a 0-d tensor cannot be split")
    dim = wrap_dim(dim, len(shape), name)
    if any(size < 0 for size in sizes):
        raise RuntimeError(f"{name}(): sizes must not be negative, got {list(sizes)}")
    if sum(sizes) != shape[dim]:
        raise RuntimeError(
            f"{name}(): the sizes {list(sizes)} sum to {sum(sizes)}, but dimension {dim} has size "
            f"{shape[dim]}"
        )
    return _parts(source, sizes, dim, name)


@function(method=True)
def chunk(input: Tensor, chunks: Any, dim: int = 0) -> tuple[Any, ...]:
    """At most ``chunks`` parts of equal size along ``dim``; the last may be smaller.

    Raises:
        RuntimeError: ``chunks`` is not positive, or ``input`` is 0-d.
        IndexError: The dimension is out of range.
    """
    dim, sizes = _chunk_sizes(input, chunks, dim, "chunk")
    return _parts(input, sizes, dim, "split" if input.shape[dim] else "split_with_sizes")


def _chunk_sizes(source: Tensor, given: Any, dim: Any, name: str) -> tuple[int, tuple[int, ...]]:
    """The dimension and the sizes of at most so many parts."""
    shape = source.shape
    if not shape:
        raise RuntimeError(f"{name}(): a 0-d tensor cannot be split")
    chunks = as_int(given, f"{name}(): chunks")
    if chunks <= 0:
        raise RuntimeError(f"{name}(): chunks must be positive, got {chunks}")
    dim = wrap_dim(dim, len(shape), name)
    total = shape[dim]
    return dim, _equal_sizes(total, -(-total // chunks)) if total else (0,) * chunks


@function(method=True)
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Parts of dimension ``dim``, as NumPy's ``array_split`` makes them.

    Args:
        indices_or_sections: A number of parts, the first of which are one longer where they cannot
            be equal; or the positions at which to cut, as a sequence or an int64 CPU tensor.

    Raises:
        RuntimeError: The number of parts is not positive, or ``input`` is 0-d.
        IndexError: The dimension is out of range.
    """
    return _tensor_split(input, indices_or_sections, dim, "tensor_split")


def _tensor_split(source: Tensor, cuts: Any, dim: Any, name: str) -> tuple[Any, ...]:
    shape = source.shape
    if not shape:
        raise RuntimeError(f"{name}(): a 0-d tensor cannot be split")
    dim = wrap_dim(dim, len(shape), name)
    total = shape[dim]
    if isinstance(cuts, Tensor):
        if cuts.dtype.category != INTEGER:
            raise RuntimeError(f"{name}(): positions must be of int64, got {cuts.dtype}")
        cuts = cuts.tolist()
    if isinstance(cuts, Sequence):
        bounds = [0, *sizes_of((cuts,), name), total]
    else:
        sections = as_int(cuts, f"{name}(): sections")
        if sections <= 0:
            raise RuntimeError(f"{name}(): the number of sections must be positive, got {sections}")
        small, longer = divmod(total, sections)
        bounds = [i * small + min(i, longer) for i in range(sections + 1)]
    return tuple(
        [
            take_slice(source, dim, *_clamped(start, end, total))
            for start, end in itertools.pairwise(bounds)
        ]
    )


def _clamped(start: int, end: int, size: int) -> tuple[int, int]:
    """Start and length of what a slice with step 1 takes."""
    first, last, _ = slice(start, end).indices(size)
    return first, max(0, last - first)


def _split_along(source: Tensor, cuts: Any, dim: int, name: str, at_least: int) -> tuple[Any, ...]:
    if source.ndim < at_least:
        raise RuntimeError(
            f"{name}() needs a tensor with at least {at_least} dimensions, this one has "
            f"{source.ndim}"
        )
    if not isinstance(cuts, Sequence | Tensor):
        sections = as_int(cuts, f"{name}(): sections")
        if sections <= 0 or source.shape[dim] % sections:
            raise RuntimeError(
                f"{name}() cannot divide dimension {dim} of size {source.shape[dim]} into "
                f"{sections} equal parts"
            )
    return _tensor_split(source, cuts, dim, name)


@function(method=True)
def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Any, ...]:
    """`tensor_split` along the columns: dimension 1, or 0 of a vector; equal parts only.

    Raises:
        RuntimeError: The parts would not be equal, or ``input`` is 0-d.
    """
    return _split_along(input, indices_or_sections, int(input.ndim > 1), "hsplit", 1)


@function(method=True)
def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Any, ...]:
    """`tensor_split` along the rows, dimension 0; equal parts only.

    Raises:
        RuntimeError: The parts would not be equal, or there are fewer than 2 dimensions.
    """
    return _split_along(input, indices_or_sections, 0, "vsplit", 2)


@function(method=True)
def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Any, ...]:
    """`tensor_split` along the depth, dimension 2; equal parts only.

    Raises:
        RuntimeError: The parts would not be equal, or there are fewer than 3 dimensions.
    """
    return _split_along(input, indices_or_sections, 2, "dsplit", 3)


# Copies of several parts


@op(name="unsafe_split", linear=True)
def _split_copies(tensor: Array, sizes: tuple[int, ...], dim: int) -> Any:
    return _parted(tensor, sizes=sizes, dim=dim)


@function(method=True)
def unsafe_split(tensor: Tensor, split_size: int, dim: int = 0) -> tuple[Any, ...]:
    """`split` whose parts are copies, which may be written while gradients are recorded."""
    dim, sizes = _split_sizes(tensor, split_size, dim, "unsafe_split")
    return _split_copies(tensor, sizes, dim)


@function(method=True)
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """`chunk` whose parts are copies, which may be written while gradients are recorded."""
    dim, sizes = _chunk_sizes(input, chunks, dim, "unsafe_chunk")
    return _split_copies(input, sizes, dim)


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
    """Elements at regular distances, counted through all elements in memory's order.

    Args:
        input: A tensor that is no view of part of another one, unless only its first element is
            asked for. Its dimensions may be in another order than memory's, as `stride()` says.
        size: The shape of the result.
        stride: For each dimension, how many elements its positions are apart.
        storage_offset: The first element; by default that of ``input``.

    Raises:
        RuntimeError: There are not as many strides as sizes, one is negative, elements beyond the
            end are reached, or ``input`` is a view of part of another tensor.
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
    """A view of all elements of ``source``, its dimensions in the order of memory."""
    view, array = source._view, source._cell.array
    if view is None:
        return source
    ordered = source.permute(memory_order(view, array.shape, array.dtype))
    if source.numel() != array.size or not ordered.is_contiguous():
        raise RuntimeError(
            "as_strided() counts through all elements of what a tensor is a view of, and this view "
            "has some of them only, or some twice; call clone() first"
        )
    return ordered
