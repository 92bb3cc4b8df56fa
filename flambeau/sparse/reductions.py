"""Sums and softmax over the stored elements of a sparse tensor."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import op
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import wrap_dim
from flambeau.sparse.creation import coalesce
from flambeau.sparse.tensor import SparseTensor, is_known

__all__ = ["log_softmax", "softmax", "sum"]


def sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum of all elements; along dimensions, sparse unless all sparse ones are reduced.

    Args:
        input: A sparse tensor.
        dim: A dimension or several; None for all.
        dtype: Convert the values to this dtype first.

    Raises:
        TypeError: ``input`` is dense.

    >>> import flambeau
    >>> x = flambeau.sparse_coo_tensor([[0, 1], [2, 2]], [3.0, 4.0], (2, 3))
    >>> flambeau.sparse.sum(x, dim=0).to_dense()
    tensor([0., 0., 7.])
    """
    sparse = _required("sum", input)
    values = sparse._values_ if dtype is None else sparse._values_.to(dtype)
    if dim is None:
        return values.sum()
    given = (dim,) if isinstance(dim, int) else tuple(dim)
    dims = {wrap_dim(each, sparse.ndim, "sum") for each in given}
    count = sparse.sparse_dim()
    dense = [each - count + 1 for each in dims if each >= count]
    values = values.sum(dense) if dense else values
    kept = [each for each in range(count) if each not in dims]
    if not kept:
        return values.sum(0)
    size = tuple([n for each, n in enumerate(sparse.shape) if each not in dims])
    if len(kept) == count:
        return SparseTensor.of(sparse._indices_, values, size, sparse._coalesced_)
    indices = sparse._indices_[kept]
    result = SparseTensor.of(indices, values, size)
    # A program that is being compiled cannot know the number of remaining positions.
    return coalesce(result) if is_known(indices) else result


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """The softmax along ``dim`` over the stored elements: all others count as -infinity.

    Args:
        input: A sparse tensor.
        dim: A dimension.
        dtype: Convert the values to this dtype first.

    Raises:
        TypeError: ``input`` is dense.
        NotImplementedError: The tensor has dense dimensions.
    """
    return _normalized("softmax", input, dim, dtype, is_log=False)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """The logarithm of `softmax`."""
    return _normalized("log_softmax", input, dim, dtype, is_log=True)


def _normalized(name: str, input: Any, dim: int, dtype: Any, is_log: bool) -> SparseTensor:
    sparse = coalesce(_required(name, input))
    if sparse.dense_dim():
        raise NotImplementedError(
            f"{name}() takes sparse tensors with numbers as values, got {sparse.dense_dim()} dense "
            "dimensions"
        )
    dim = wrap_dim(dim, sparse.ndim, name)
    values = sparse._values_ if dtype is None else sparse._values_.to(dtype)
    # Elements along `dim` are a row; the other indices identify the row.
    row, count = None, 1
    for each, size in enumerate(sparse.shape):
        if each != dim:
            own = sparse._indices_[each]
            row, count = (own if row is None else row * size + own), count * size
    if row is None:
        row = sparse._indices_[0] * 0
    normalize = _log_softmax if is_log else _softmax
    return sparse.with_values(normalize(values, _compact(row), min(count, values.shape[0])))


@op(name="compact", differentiable=False)
def _compact(row: Array) -> Array:
    """Rows numbered consecutively from 0, so that there are no more numbers than elements."""
    order = jnp.argsort(row)
    ordered = row[order]
    is_new = jnp.concatenate([jnp.zeros(1, bool), ordered[1:] != ordered[:-1]])[: row.shape[0]]
    return jnp.zeros_like(row).at[order].set(jnp.cumsum(is_new))


@op(name="sparse_softmax", node="SparseSoftmaxBackward0")
def _softmax(values: Array, row: Array, count: int) -> Array:
    return jnp.exp(_log_of_softmax(values, row, count))


@op(name="sparse_log_softmax", node="SparseLogSoftmaxBackward0")
def _log_softmax(values: Array, row: Array, count: int) -> Array:
    return _log_of_softmax(values, row, count)


def _log_of_softmax(values: Any, row: Any, count: int) -> Any:
    greatest = jax.lax.stop_gradient(jax.ops.segment_max(values, row, count))
    shifted = values - greatest[row]
    return shifted - jnp.log(jax.ops.segment_sum(jnp.exp(shifted), row, count))[row]


def _required(name: str, input: Any) -> SparseTensor:
    if not isinstance(input, SparseTensor):
        raise TypeError(f"sparse.{name}() takes a sparse tensor, got a dense one; use to_sparse()")
    return input
