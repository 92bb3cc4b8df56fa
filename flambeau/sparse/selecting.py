"""Parts of sparse tensors: the host finds the positions in a part."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import wrap_dim
from flambeau.ops.common.known import known_values
from flambeau.ops.shapes.slicing import wrap_index
from flambeau.sparse.creation import indices_like
from flambeau.sparse.tensor import SparseTensor

__all__: list[str] = []


def select(input: SparseTensor, dim: int, index: int) -> Tensor:
    """The part of ``input`` at ``index`` of one dimension; dense if no sparse dimension is left.

    Raises:
        IndexError: ``dim`` or ``index`` is out of range.
        TracedValueError: A program is being compiled, which cannot know the number of values.
    """
    dim = wrap_dim(dim, input.ndim, "select")
    index = wrap_index(index, input.shape[dim], dim)
    size = tuple([n for d, n in enumerate(input.shape) if d != dim])
    count = input.sparse_dim()
    if dim >= count:
        values = input._values_.select(dim - count + 1, index)
        return SparseTensor.of(input._indices_, values, size, input._coalesced_)
    known = known_values("select", input._indices_, "use to_dense()")
    found = indices_like(np.flatnonzero(known[dim] == index), input)
    values = input._values_[found]
    if count == 1:
        return values.sum(0)
    rest = [d for d in range(count) if d != dim]
    return SparseTensor.of(input._indices_[rest][:, found], values, size, input._coalesced_)


def index_select(input: SparseTensor, dim: int, index: Tensor) -> SparseTensor:
    """The parts of ``input`` at the positions ``index`` of one dimension.

    Raises:
        IndexError: ``dim`` or a position is out of range.
        TracedValueError: A program is being compiled, which cannot know the number of values.
    """
    dim = wrap_dim(dim, input.ndim, "index_select")
    size = list(input.shape)
    size[dim] = index.numel()
    if dim >= input.sparse_dim():
        values = input._values_.index_select(dim - input.sparse_dim() + 1, index)
        return SparseTensor.of(input._indices_, values, tuple(size), input._coalesced_)
    known = known_values("index_select", input._indices_, "use to_dense()")
    wanted = known_values("index_select", index).reshape(-1)
    if wanted.size and not 0 <= wanted.min() <= wanted.max() < input.shape[dim]:
        raise IndexError(
            f"index_select(): index out of range: positions of dimension {dim} are from 0 to "
            f"{input.shape[dim] - 1}, got {wanted.min()} to {wanted.max()}"
        )
    order = np.argsort(known[dim], kind="stable")
    ordered = known[dim][order]
    starts = np.searchsorted(ordered, wanted)
    owners, places = spread(starts, np.searchsorted(ordered, wanted, "right") - starts)
    taken = order[places]
    indices = known[:, taken]
    indices[dim] = owners
    values = input._values_[indices_like(taken, input)]
    return SparseTensor.of(indices_like(indices, input), values, tuple(size))


def spread(starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All members of some ranges: the index of the range, and the member."""
    owners = np.repeat(np.arange(len(lengths)), lengths)
    first = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    return owners, first + np.arange(len(owners))


def getitem(input: SparseTensor, subscript: Any) -> Tensor:
    """The part selected by integers and full slices.

    Raises:
        NotImplementedError: The subscript has another kind of entry.
    """
    items = subscript if isinstance(subscript, tuple) else (subscript,)
    if len(items) > input.ndim:
        raise IndexError(f"too many indices for a sparse tensor of {input.ndim} dimensions")
    result: Any = input
    dim = 0
    for each in items:
        if isinstance(each, int) and not isinstance(each, bool):
            result = result.select(dim, each)
        elif isinstance(each, slice) and each == slice(None):
            dim += 1
        else:
            input.refuse("a subscript of other entries than integers and ':'")
    return result
