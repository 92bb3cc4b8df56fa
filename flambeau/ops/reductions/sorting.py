"""Sorting, and searching in sorted sequences."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from flambeau import return_types
from flambeau.core.kernels.kinds import Array, Number, Operand
from flambeau.core.kernels.promotion import result_dtype
from flambeau.core.operators.op import function, op
from flambeau.core.support import dtype as dtypes
from flambeau.core.support import errors
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import needs_ordered, wrap_dim
from flambeau.ops.common.ordering import sorting_order
from flambeau.ops.common.values import outside
from flambeau.ops.indices.placement import inside
from flambeau.ops.reductions.extremum import of_scalar, picked

__all__ = [
    "argsort", "bucketize", "kthvalue", "msort", "searchsorted", "sort", "topk",
]  # fmt: skip


def _order(name: str, input: Any, dim: int, descending: bool) -> Any:
    """The indices that sort ``input``; NaN is greatest, and equal elements keep their order."""
    needs_ordered(name, input)
    return sorting_order(input, dim, descending)


@op(name="sort", returns=return_types.sort)
def _sort(input: Array, dim: int, descending: bool) -> Any:
    dim = wrap_dim(dim, input.ndim, "sort")
    if input.ndim == 0:
        return of_scalar(input)
    return picked(input, _order("sort", input, dim, descending), dim, keepdim=True)


@function(method=True)
def sort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None
) -> Any:
    """The sorted elements along a dimension, and their indices.

    Args:
        input: A tensor; NaN is greater than every number.
        dim: The dimension to sort along.
        descending: Sort from the greatest to the least.
        stable: Ignored: equal elements always keep their order.

    Returns:
        The named tuple ``(values, indices)``.

    Raises:
        IndexError: There is no such dimension.

    >>> import flambeau
    >>> flambeau.sort(flambeau.tensor([3.0, 1.0, 2.0])).indices
    tensor([1, 2, 0])
    """
    return _sort(input, dim, descending)


@op(name="argsort", differentiable=False)
def _argsort(input: Array, dim: int, descending: bool) -> Array:
    dim = wrap_dim(dim, input.ndim, "argsort")
    if input.ndim == 0:
        return jnp.zeros((), jnp.int64)
    return _order("argsort", input, dim, descending)


@function(method=True)
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The indices that sort a tensor along a dimension; see `sort`."""
    return _argsort(input, dim, descending)


@op(method=True, node="SortBackward0")
def msort(input: Array) -> Array:
    """The sorted elements along the first dimension."""
    if input.ndim == 0:
        return input
    return picked(input, _order("msort", input, 0, False), 0, keepdim=True)[0]


@op(method=True, returns=return_types.topk)
def topk(input: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The ``k`` greatest elements along a dimension, sorted, and their indices.

    Args:
        input: A tensor; NaN is greater than every number.
        k: The number of elements.
        dim: The dimension to search.
        largest: ``False`` selects the least elements instead.
        sorted: Ignored: the results are always sorted.

    Returns:
        The named tuple ``(values, indices)``.

    Raises:
        RuntimeError: The dimension has fewer than ``k`` elements.
        IndexError: There is no such dimension.
    """
    dim = wrap_dim(dim, input.ndim, "topk")
    size = input.shape[dim] if input.ndim else 1
    if not 0 <= k <= size:
        raise RuntimeError(
            f"topk(): k={k} is out of range for dimension {dim} of shape {list(input.shape)}"
        )
    if input.ndim == 0:
        return of_scalar(input)
    fixed = jax.lax.stop_gradient(input)
    if largest and jnp.issubdtype(input.dtype, jnp.floating):
        _, indices = jax.lax.top_k(jnp.moveaxis(fixed, dim, -1), k)
        indices = jnp.moveaxis(indices, -1, dim)
    else:
        order = _order("topk", fixed, dim, largest)
        indices = jax.lax.slice_in_dim(order, 0, k, axis=dim)
    return picked(input, indices, dim, keepdim=True)


@op(method=True, returns=return_types.kthvalue)
def kthvalue(input: Array, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The ``k``-th least element along a dimension, counted from 1, and its index.

    Raises:
        RuntimeError: The dimension has fewer than ``k`` elements.
        IndexError: There is no such dimension.
    """
    dim = wrap_dim(dim, input.ndim, "kthvalue")
    size = input.shape[dim] if input.ndim else 1
    if not size:
        raise errors.IndexError(
            f"kthvalue(): dimension {dim} of shape {list(input.shape)} is empty: there is no value"
        )
    if not 1 <= k <= size:
        raise RuntimeError(
            f"kthvalue(): k={k} is out of range for dimension {dim} of shape {list(input.shape)}; "
            "it counts from 1"
        )
    if input.ndim == 0:
        return of_scalar(input)
    order = _order("kthvalue", input, dim, False)
    indices = jax.lax.slice_in_dim(order, k - 1, k, axis=dim)
    return picked(input, indices, dim, keepdim)


# Searching


def _comparable(name: str, boundaries: Any, values: Any) -> tuple[Any, Any]:
    """Boundaries and values in their common dtype."""
    needs_ordered(name, boundaries, values)
    to = result_dtype((boundaries, values)).numpy
    return jnp.asarray(boundaries, to), jnp.asarray(values, to)


def _found(boundaries: Any, values: Any, right: bool) -> Any:
    """The positions of ``values`` in the rows of ``boundaries``."""
    side = "right" if right else "left"
    if boundaries.ndim == 1:
        return jnp.searchsorted(boundaries, values, side=side)
    rows = boundaries.reshape(-1, boundaries.shape[-1])
    of_rows = values.reshape(-1, values.shape[-1])
    search = jax.vmap(lambda row, sought: jnp.searchsorted(row, sought, side=side))
    return search(rows, of_rows).reshape(values.shape)


@op(name="searchsorted", differentiable=False)
def _searchsorted(
    sorted_sequence: Array, input: Array | Number, out_int32: bool, right: bool, side: str | None,
    sorter: Array | None,
) -> Array:  # fmt: skip
    if sorted_sequence.ndim == 0:
        raise RuntimeError("searchsorted(): the sorted sequence must not be 0-d")
    if side not in (None, "left", "right"):
        raise RuntimeError(f"searchsorted(): side must be 'left' or 'right', got {side!r}")
    if side == "left" and right:
        raise RuntimeError("searchsorted(): side='left' contradicts right=True")
    leading = sorted_sequence.shape[:-1]
    if sorted_sequence.ndim != 1 and leading != input.shape[:-1]:
        raise RuntimeError(
            f"searchsorted(): sequences of shape {list(sorted_sequence.shape)} and values of shape "
            f"{list(input.shape)} must agree in all dimensions but the last"
        )
    if sorter is not None:
        if sorter.shape != sorted_sequence.shape:
            raise RuntimeError(
                f"searchsorted(): a sorter of shape {list(sorter.shape)} for sequences of shape "
                f"{list(sorted_sequence.shape)}"
            )
        places = inside(sorter, sorted_sequence.shape[-1])
        sorted_sequence = jnp.take_along_axis(sorted_sequence, places, -1)
    boundaries, values = _comparable("searchsorted", sorted_sequence, input)
    found = _found(boundaries, values, right or side == "right")
    return found.astype(jnp.int32 if out_int32 else jnp.int64)


@function
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """The indices at which elements would be inserted into a sorted sequence.

    Args:
        sorted_sequence: Shape ``(n,)``, or ``(..., n)`` with a sequence for each row of ``input``.
        input: A number or a tensor; with several sequences, of their leading shape.
        out_int32: Return int32 rather than int64.
        right: Insert after equal elements rather than before them.
        side: ``"left"`` or ``"right"``, an alternative to ``right``.
        sorter: The indices that sort ``sorted_sequence``, if it is not sorted itself.

    Raises:
        RuntimeError: The shapes do not fit, ``side`` contradicts ``right``, or ``sorter`` has an
            index that is out of range.
    """
    size = sorted_sequence.shape[-1]
    if isinstance(sorter, Tensor) and sorter.dtype is not dtypes.int64:
        raise RuntimeError(
            f"searchsorted(): sorter must be a tensor of int64 indices, as of argsort(), but got "
            f"dtype {sorter.dtype}"
        )
    places = outside(sorter, 0, size) if isinstance(sorter, Tensor) else None
    if places is not None:
        raise RuntimeError(
            f"searchsorted(): the indices of sorter must be from 0 to {size - 1}, got "
            f"{places.min()} to {places.max()}"
        )
    return _searchsorted(sorted_sequence, input, out_int32, right, side, sorter)


@op(differentiable=False)
def bucketize(
    input: Operand, boundaries: Array, *, out_int32: bool = False, right: bool = False
) -> Array:
    """The index of the bucket of each element.

    Args:
        input: A number or a tensor.
        boundaries: The sorted boundaries between the buckets, shape ``(n,)``.
        out_int32: Return int32 rather than int64.
        right: An element equal to a boundary belongs to the bucket above rather than below it.

    Raises:
        RuntimeError: ``boundaries`` is not 1-d.
    """
    if boundaries.ndim != 1:
        raise RuntimeError(
            f"bucketize(): boundaries must be 1-d, got shape {list(boundaries.shape)}"
        )
    found = _found(*_comparable("bucketize", boundaries, input), right)
    return found.astype(jnp.int32 if out_int32 else jnp.int64)
