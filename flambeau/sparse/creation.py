"""Creating sparse tensors, and converting them to dense ones."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from flambeau.core.devices.layout import sparse_coo
from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import op
from flambeau.core.operators.viewing import make_view
from flambeau.core.support import dtype as dtypes
from flambeau.core.values.steps import Reshape
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.known import known_values
from flambeau.ops.common.values import outside
from flambeau.ops.factories.creation import empty, zeros
from flambeau.ops.factories.factory import checked_dtype
from flambeau.ops.factories.from_data import tensor
from flambeau.ops.indices.placement import all_inside
from flambeau.sparse.tensor import SparseTensor

__all__ = ["sparse_coo_tensor"]


def sparse_coo_tensor(
    indices: Any = None, values: Any = None, size: Any = None, *, dtype: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None, is_coalesced: bool | None = None, layout: Any = None,
) -> SparseTensor:  # fmt: skip
    """A tensor of zeros with some ``values`` at ``indices``; gradients flow to ``values``.

    ``sparse_coo_tensor(size)`` has no values.

    Args:
        indices: The positions, ``(sparse_dim, nnz)``, from 0 on.
        values: The elements at these positions, ``(nnz, *dense sizes)``. Duplicates are summed.
        size: The shape; by default just large enough.
        dtype: The type of the values, by default their own.
        device: The device, by default that of the values.
        pin_memory: Accepted for compatibility.
        requires_grad: Make it a leaf of the tape, if ``values`` do not require grad themselves.
        check_invariants: Accepted: ``indices`` are always checked if they are known.
        is_coalesced: Declare that the positions are sorted and unique, as a single one is.
        layout: Accepted, if it is `flambeau.sparse_coo`.

    Raises:
        RuntimeError: The shapes do not fit each other, or a position is outside ``size``.

    >>> import flambeau
    >>> x = flambeau.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    >>> x.to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    >>> (x @ flambeau.ones(3, 1)).tolist()
    [[3.0], [4.0]]
    """
    if layout not in (None, sparse_coo):
        raise ValueError(f"sparse_coo_tensor(): layout must be sparse_coo, got {layout}")
    dtype = checked_dtype("sparse_coo_tensor", dtype)
    if values is None:
        size = tuple(indices if size is None else size)
        positions = empty(len(size), 0, dtype=dtypes.int64, device=device)
        elements = zeros(0, dtype=dtype, device=device, requires_grad=requires_grad)
        return SparseTensor.of(positions, elements, size, True)
    elements = values if isinstance(values, Tensor) else tensor(values, device=device)
    elements = elements.to(device=device, dtype=dtype) if dtype or device else elements
    positions = indices if isinstance(indices, Tensor) else tensor(indices, dtype=dtypes.int64)
    positions = positions.to(device=elements.device, dtype=dtypes.int64)
    _check(positions, elements, size)
    size = _least_size(positions, elements) if size is None else tuple(size)
    _check_positions(positions, size)
    # A new tensor on the same elements, on the tape if the values are.
    step = Reshape(tuple(elements.shape))
    elements = make_view(elements, step, "sparse_coo_tensor_with_dims_and_tensors")
    if requires_grad and not elements.requires_grad:
        elements = elements.detach().requires_grad_()
    is_coalesced = len(elements) < 2 if is_coalesced is None else is_coalesced
    return SparseTensor.of(positions, elements, size, is_coalesced)


def _check(indices: Tensor, values: Tensor, size: Any) -> None:
    if indices.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    if not values.ndim or indices.shape[1] != values.shape[0]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {indices.shape[1]}, "
            f"and values of shape {list(values.shape)}"
        )
    if size is None:
        return
    dims, dense = indices.shape[0], list(values.shape[1:])
    if len(size) != dims + len(dense):
        raise RuntimeError(
            f"size {list(size)} must have as many dimensions as indices have rows, {dims}, and "
            f"values beyond the first, {len(dense)}"
        )
    if list(size[dims:]) != dense:
        raise RuntimeError(
            f"values has incorrect size, expected [nnz, {', '.join(map(str, size[dims:]))}], "
            f"got {list(values.shape)}"
        )


def _least_size(indices: Tensor, values: Tensor) -> tuple[int, ...]:
    known = known_values("sparse_coo_tensor", indices, "give its size")
    greatest = known.max(1, initial=-1) + 1
    return (*map(int, greatest), *values.shape[1:])


def _check_positions(indices: Tensor, size: tuple[int, ...]) -> None:
    """Check the positions if they are available; elsewhere, positions out of range are ignored."""
    for dim, count in enumerate(size[: len(indices)]):
        found = outside(indices[dim], 0, count)
        if found is not None and found.min() < 0:
            least = found.min()
            raise RuntimeError(f"found negative index {least} for dim {dim} of a sparse tensor")
        if found is not None:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {count} but found "
                f"index {found.max()}"
            )


@op(name="sparse_to_dense", node="ToDenseBackward0", linear=True)
def _to_dense(values: Array, indices: Array, size: tuple[int, ...]) -> Array:
    start = jnp.zeros(size, values.dtype)
    named = start.at[all_inside(size, tuple(range(len(indices))), tuple(indices))]
    # The sum of bools is their disjunction.
    return (named.max if values.dtype == np.bool_ else named.add)(values, mode="drop")


def to_dense(input: SparseTensor, dtype: Any = None, *, masked_grad: bool = True) -> Tensor:
    """The dense tensor, with all zeros."""
    values = input._values_
    if not input.sparse_dim():
        dense = values.sum(0)
    else:
        dense = _to_dense(values, input._indices_, tuple(input.shape))
    return dense if dtype is None else dense.to(dtype)


def to_sparse(input: Tensor, sparse_dim: int | None = None) -> SparseTensor:
    """The nonzero elements of a dense tensor, or rows with nonzero elements.

    Args:
        input: The dense tensor.
        sparse_dim: The number of leading dimensions that are sparse; by default all.

    Raises:
        RuntimeError: ``sparse_dim`` is out of range.
        TracedValueError: A program is being compiled, which cannot know the number of elements.
    """
    if isinstance(input, SparseTensor):
        return input
    dims = input.ndim if sparse_dim is None else sparse_dim
    if not (0 < dims <= input.ndim or dims == input.ndim):
        raise RuntimeError(
            f"to_sparse(): sparse_dim must be from 1 to {input.ndim} for a tensor of shape "
            f"{list(input.shape)}, got {dims}"
        )
    known = known_values("to_sparse", input) != 0
    found = np.argwhere(known.any(tuple(range(dims, input.ndim))) if dims < input.ndim else known)
    indices = tensor(np.ascontiguousarray(found.T), dtype=dtypes.int64, device=input.device)
    values = input[tuple(indices)] if dims else input.reshape(1)[: len(found)]
    return SparseTensor.of(indices, values, tuple(input.shape), True)


@op(name="coalesce", linear=True)
def _summed(values: Array, places: Array, count: int) -> Array:
    named = jnp.zeros((count, *values.shape[1:]), values.dtype).at[places]
    return (named.max if values.dtype == np.bool_ else named.add)(values)


def coalesce(input: SparseTensor) -> SparseTensor:
    """The same tensor with sorted, unique positions; values of one position are summed.

    Raises:
        TracedValueError: A program is being compiled, which cannot know their number.
    """
    if input._coalesced_:
        return input
    places, inverse = np.unique(flat_positions("coalesce", input), return_inverse=True)
    sizes = tuple(input.shape[: input.sparse_dim()])
    ordered = np.zeros((0, len(places)), np.int64)
    if sizes:
        ordered = np.stack(np.unravel_index(places, sizes))
    where = indices_like(inverse.reshape(-1), input)
    values = _summed(input._values_, where, len(places))
    return SparseTensor.of(indices_like(ordered, input), values, tuple(input.shape), True)


def taken(dense: Tensor, sparse: SparseTensor) -> Tensor:
    """The elements of a dense tensor at the positions of a sparse one of the same shape."""
    if not sparse.sparse_dim():
        return dense.expand(sparse._nnz(), *dense.shape)
    return dense[tuple(sparse._indices_.unbind(0))]


def flat_positions(name: str, sparse: SparseTensor) -> np.ndarray:
    """The positions as flat indices.

    Raises:
        TracedValueError: A program is being compiled.
    """
    known = known_values(name, sparse._indices_, f"call {name}() before")
    sizes = tuple(sparse.shape[: sparse.sparse_dim()])
    if not sizes:
        return np.zeros(known.shape[1], np.int64)
    return np.asarray(np.ravel_multi_index(tuple(known), sizes))


def indices_like(values: np.ndarray, sparse: SparseTensor) -> Tensor:
    """NumPy integers as a tensor on the device of a sparse one."""
    return tensor(np.ascontiguousarray(values), dtype=dtypes.int64, device=sparse.device)
