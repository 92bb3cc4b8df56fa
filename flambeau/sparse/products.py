"""Products of a sparse matrix with dense ones."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import op
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.known import known_values
from flambeau.ops.factories.creation import zeros
from flambeau.ops.indices.placement import inside
from flambeau.ops.matrices.linalg import mm as dense_mm
from flambeau.ops.shapes.shape import stack
from flambeau.sparse.creation import coalesce, flat_positions, indices_like
from flambeau.sparse.selecting import spread
from flambeau.sparse.tensor import SparseTensor

__all__ = ["addmm", "mm", "spmm"]


@op(name="sparse_mm", node="SparseAddmmBackward0")
def _product(
    values: Array, dense: Array, rows: Array, columns: Array, count: int, in_order: bool
) -> Array:
    rows, columns = inside(rows, count), inside(columns, dense.shape[0])
    taken = dense.at[columns].get(mode="fill", fill_value=0)
    parts = values.reshape(-1, *(1,) * (dense.ndim - 1)) * taken
    return jax.ops.segment_sum(parts, rows, count, indices_are_sorted=in_order, mode="drop").astype(
        jnp.result_type(values, dense)
    )


def product(name: str, sparse: SparseTensor, dense: Tensor) -> Tensor:
    """A sparse matrix times a dense matrix or vector, dense.

    Raises:
        RuntimeError: Shapes or dtypes do not fit.
        NotImplementedError: The sparse operand is not a matrix of numbers.
    """
    _check(name, sparse)
    if dense.ndim not in (1, 2):
        raise RuntimeError(
            f"{name}(): a sparse matrix is multiplied by a matrix or a vector, got a tensor of "
            f"shape {list(dense.shape)}"
        )
    _check_sizes(name, sparse, dense)
    rows, places = sparse._indices_.unbind(0)
    return _product(sparse._values_, dense, rows, places, sparse.shape[0], sparse._coalesced_)


def _check(name: str, sparse: SparseTensor) -> None:
    if sparse.ndim != 2 or sparse.dense_dim():
        raise NotImplementedError(
            f"{name}() takes sparse matrices with numbers as values, got shape "
            f"{list(sparse.shape)} with {sparse.dense_dim()} dense dimensions; call to_dense()"
        )


def _sparse_product(name: str, input: SparseTensor, other: SparseTensor) -> SparseTensor:
    """The sparse product of two sparse matrices: each value times a row of the other."""
    _check(name, input)
    _check(name, other)
    _check_sizes(name, input, other)
    input, other = coalesce(input), coalesce(other)
    columns = known_values(name, input._indices_)[1]
    lengths = np.bincount(known_values(name, other._indices_)[0], minlength=other.shape[0])
    starts = np.cumsum(lengths) - lengths
    met = spread(starts[columns], lengths[columns])
    left_places, right_places = (indices_like(each, input) for each in met)
    indices = stack([input._indices_[0][left_places], other._indices_[1][right_places]])
    values = input._values_[left_places] * other._values_[right_places]
    return coalesce(SparseTensor.of(indices, values, (input.shape[0], other.shape[1])))


def intersection(input: SparseTensor, other: SparseTensor) -> SparseTensor:
    """The elementwise product of two sparse tensors.

    Raises:
        RuntimeError: The shapes differ.
        TracedValueError: A program is being compiled, and the positions are not the same object.
    """
    if input.shape != other.shape or input.sparse_dim() != other.sparse_dim():
        raise RuntimeError(
            f"mul(): expected sizes of sparse tensors to match, but {list(input.shape)} != "
            f"{list(other.shape)}"
        )
    if input._indices_ is other._indices_ and input._coalesced_:
        return input.with_values(input._values_ * other._values_)
    input, other = coalesce(input), coalesce(other)
    flat = flat_positions("mul", input), flat_positions("mul", other)
    _, *found = np.intersect1d(*flat, assume_unique=True, return_indices=True)
    left, right = (indices_like(each, input) for each in found)
    values = input._values_[left] * other._values_[right]
    return SparseTensor.of(input._indices_[:, left], values, tuple(input.shape), True)


def _check_sizes(name: str, input: Tensor, other: Tensor) -> None:
    if input.shape[1] != other.shape[0]:
        raise RuntimeError(
            f"{name}(): mat1 and mat2 shapes cannot be multiplied ({list(input.shape)} and "
            f"{list(other.shape)})"
        )
    if input.dtype is not other.dtype:
        raise RuntimeError(
            f"{name}(): expected m1 and m2 to have the same dtype, but got {input.dtype} and "
            f"{other.dtype}; convert one first"
        )


def multiplied(name: str, input: Any, other: Any) -> Tensor:
    """The product of two matrices, at least one sparse; sparse if both are."""
    if isinstance(input, SparseTensor) and isinstance(other, SparseTensor):
        return _sparse_product(name, input, other)
    if isinstance(input, SparseTensor):
        return product(name, input, other)
    if input.ndim != 2:
        raise RuntimeError(
            f"{name}(): a tensor of shape {list(input.shape)} cannot be multiplied by a sparse "
            "matrix; it must be a matrix"
        )
    _check(name, other)
    _check_sizes(name, input, other)
    return product(name, other.t(), input.t()).t()


def mm(mat1: Tensor, mat2: Tensor, reduce: str = "sum") -> Tensor:
    """The product of two matrices, at least one sparse; gradients flow to both.

    Args:
        mat1: ``(n, m)``.
        mat2: ``(m, p)``.
        reduce: The reduction of the products of an element: ``"sum"``, or, for a sparse and a dense
            matrix, ``"mean"``, ``"amax"`` or ``"amin"``; 0 without products.

    Returns:
        A dense matrix, ``(n, p)``; a sparse one if both are sparse.

    Raises:
        RuntimeError: Shapes or dtypes do not fit.
        ValueError: There is no such ``reduce``.
        NotImplementedError: The reduction does not support these matrices.
        TracedValueError: Both are sparse and a program is being compiled, which cannot know the
            number of values.

    >>> import flambeau
    >>> edges = flambeau.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2))
    >>> flambeau.sparse.mm(edges, flambeau.tensor([[1.0], [10.0]]))
    tensor([[10.],
            [ 2.]])
    """
    if reduce == "sum":
        return multiplied("mm", mat1, mat2)
    if reduce not in ("mean", "amax", "amin"):
        raise ValueError(f"mm(): reduce must be sum, mean, amax or amin, got {reduce!r}")
    if not isinstance(mat1, SparseTensor) or isinstance(mat2, SparseTensor) or mat2.ndim != 2:
        raise NotImplementedError(f"mm(): reduce={reduce!r} is for a sparse and a dense matrix")
    _check("mm", mat1)
    _check_sizes("mm", mat1, mat2)
    rows, columns = mat1._indices_.unbind(0)
    parts = mat1._values_.unsqueeze(1) * mat2[columns]
    found = zeros(mat1.shape[0], mat2.shape[1], dtype=parts.dtype, device=parts.device)
    return found.index_reduce(0, rows, parts, reduce, include_self=False)


def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The older name of `mm`, for which both matrices may be dense."""
    return dense_mm(input, mat2)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """``beta * mat + alpha * (mat1 @ mat2)``, where ``mat1`` is sparse.

    Args:
        mat: Broadcasts to ``(n, p)``.
        mat1: Sparse, ``(n, m)``.
        mat2: ``(m, p)``.
        beta: The factor of ``mat``.
        alpha: A factor.
    """
    result = multiplied("addmm", mat1, mat2)
    result = result if alpha == 1 else result * alpha
    return result + (mat if beta == 1 else mat * beta)
