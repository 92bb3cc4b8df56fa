"""Splitting a tensor into several parts: `split`, `chunk`, `unbind`, `tensor_split`, …"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any

from jax import lax

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import function, op
from flambeau.core.operators.viewing import make_views
from flambeau.core.support.dtype import INTEGER
from flambeau.core.values.steps import Cut, Slice
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import wrap_dim
from flambeau.ops.common.dims import as_int, sizes_of
from flambeau.ops.shapes.slicing import take_slice

__all__ = [
    "chunk", "dsplit", "hsplit", "split", "split_with_sizes", "tensor_split", "unbind",
    "unsafe_chunk", "unsafe_split", "vsplit",
]  # fmt: skip


@function(method=True)
def unbind(input: Tensor, dim: int = 0) -> tuple[Any, ...]:
    """All slices along dimension ``dim``, which is removed.

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
    """A function from an array to all parts, which compares equal for equal arguments."""

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
    """Consecutive parts of the given sizes that cover the dimension."""
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
    """The dimension and the sizes of parts that are equal except for the last."""
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
    return (size,) * operator.index(full) + ((rest,) if rest else ())


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
    """The dimension and the sizes of at most ``given`` parts."""
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
    """Parts of dimension ``dim``, as by NumPy's ``array_split``.

    Args:
        indices_or_sections: A number of parts, the first of which are longer by one if they cannot
            be equal; or the positions at which to split, as a sequence or an int64 CPU tensor.

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
    """Start and length of the part selected by a slice with step 1."""
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
    """`tensor_split` along the columns: dimension 1, or 0 for a vector; equal parts only.

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
