"""Running sums, products, maxima and minima along a dimension.

On a CPU they are loops over the dimension, each step for all places beside it at once, which XLA
makes faster than its own running sums; and along a last dimension, where the places beside are
far apart, products of matrices. Accelerators have no use for long loops and keep XLA's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flambeau import return_types
from flambeau.core import dtype as dtypes
from flambeau.core.compiler import only_cpu
from flambeau.core.kinds import Array
from flambeau.core.op import op
from flambeau.ops.checks import (
    cast_real,
    category,
    needs_floating,
    needs_ordered,
    wrap_dim,
)
from flambeau.ops.derivatives import with_derivatives

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "logcumsumexp"]


def _accumulated(compute: Any, input: Any, dim: int, dtype: dtypes.dtype | None) -> Any:
    """``compute`` in the dtype of a running sum: int64 for integers, single for half precision."""
    if dtype is dtypes.bool:
        raise NotImplementedError("a running sum or product does not exist for bool; use int64")
    if dtype is not None:
        input = cast_real(input, dtype)
    elif category(input) <= dtypes.INTEGER:
        input = input.astype(jnp.int64)
    if input.ndim == 0:
        return input
    narrow = input.dtype
    wide = input.astype(jnp.float32) if _is_half(narrow) else input
    return compute(wide, dim).astype(narrow) if wide.size else wide.astype(narrow)


def _is_half(numpy_dtype: Any) -> bool:
    return jnp.issubdtype(numpy_dtype, jnp.floating) and numpy_dtype.itemsize == 2


# How many elements of a row are summed by one product of matrices.
_BLOCK = 32


def _loop(combine: Callable[[Any, Any], Any], start: Any, input: Any, dim: int) -> Any:
    """What ``combine`` makes of the elements up to and with each, beginning with ``start``."""
    wide = jnp.float64 if input.dtype == jnp.float32 else input.dtype
    rows = jnp.moveaxis(input, dim, 0)

    def step(before: Any, row: Any) -> tuple[Any, Any]:
        after = combine(before, row.astype(wide))
        return after, after.astype(row.dtype)

    _, found = jax.lax.scan(step, jnp.full(rows.shape[1:], start, wide), rows)
    return jnp.moveaxis(found, 0, dim)


def _sums(input: Any, dim: int) -> Any:
    if not only_cpu():
        return jnp.cumsum(input, dim)
    is_real = jnp.issubdtype(input.dtype, jnp.floating)
    if is_real and dim == input.ndim - 1 and input.shape[dim] > _BLOCK:
        return _row_sums(input)
    return _loop(jnp.add, 0, input, dim)


@jax.custom_jvp
def _row_sums(input: Any) -> Any:
    """Running sums along the last dimension."""
    found = _sums_by_blocks(input)
    # The product has a zero for what is not summed yet, and zero times infinity is not zero.
    return jax.lax.cond(
        jnp.isfinite(found[..., -1]).all(),
        lambda input, found: found,
        lambda input, found: jnp.cumsum(input, -1),
        input,
        found,
    )


@_row_sums.defjvp
def _row_sums_jvp(primals: Any, tangents: Any) -> Any:
    return _row_sums(*primals), _sums_by_blocks(*tangents)


def _sums_by_blocks(input: Any) -> Any:
    *lead, size = input.shape
    count = -(-size // _BLOCK)
    padded = jnp.pad(input, [(0, 0)] * len(lead) + [(0, count * _BLOCK - size)])
    triangle = np.triu(np.ones((_BLOCK, _BLOCK), input.dtype))
    within = jnp.matmul(
        padded.reshape(*lead, count, _BLOCK), triangle, precision=jax.lax.Precision.HIGHEST
    )
    totals = jnp.cumsum(within[..., :-1, -1:], -2)
    before = jnp.pad(totals, [(0, 0)] * len(lead) + [(1, 0), (0, 0)])
    found = within + before
    return found.reshape(*lead, count * _BLOCK)[..., :size]


def _products(input: Any, dim: int) -> Any:
    return _loop(jnp.multiply, 1, input, dim) if only_cpu() else jnp.cumprod(input, dim)


@op(method=True, inplace=True, linear=True)
def cumsum(input: Array, dim: int, *, dtype: dtypes.dtype | None = None) -> Array:
    """The sum of the elements up to and with each, along a dimension.

    Args:
        input: A tensor; integers and bools are summed as int64.
        dim: The dimension to go along.
        dtype: Convert to this dtype first.

    Raises:
        IndexError: There is no such dimension.

    >>> import flambeau
    >>> flambeau.cumsum(flambeau.tensor([1, 2, 3]), 0)
    tensor([1, 3, 6])
    """
    return _accumulated(_sums, input, wrap_dim(dim, input.ndim, "cumsum"), dtype)


@op(method=True, inplace=True)
def cumprod(input: Array, dim: int, *, dtype: dtypes.dtype | None = None) -> Array:
    """The product of the elements up to and with each, along a dimension; see `cumsum`."""
    return _accumulated(_products, input, wrap_dim(dim, input.ndim, "cumprod"), dtype)


def _records(name: str, beats: Any, running: Any, input: Any, dim: int) -> Any:
    """The running extreme elements, and the index of the last that was equal to each."""
    needs_ordered(name, input)
    dim = wrap_dim(dim, input.ndim, name)
    if input.ndim == 0:
        return input, jnp.zeros((), jnp.int64)
    if input.size == 0:
        return input, jnp.zeros(input.shape, jnp.int64)
    compute = _records_in_a_loop if only_cpu() else _records_by_position
    return compute(beats, running, input, dim)


def _records_in_a_loop(beats: Any, running: Any, input: Any, dim: int) -> Any:
    del running
    rows = jnp.moveaxis(input, dim, 0)

    def step(best: Any, given: Any) -> tuple[Any, Any]:
        row, position = given
        # A NaN beats everything, and nothing but a NaN beats it.
        is_record = beats(row, best[0]) | (row != row)
        best = jnp.where(is_record, row, best[0]), jnp.where(is_record, position, best[1])
        return best, best

    start = rows[0], jnp.zeros(rows.shape[1:], jnp.int64)
    _, (values, indices) = jax.lax.scan(step, start, (rows, jnp.arange(rows.shape[0])))
    return jnp.moveaxis(values, 0, dim), jnp.moveaxis(indices, 0, dim)


def _records_by_position(beats: Any, running: Any, input: Any, dim: int) -> Any:
    del beats
    fixed = jax.lax.stop_gradient(input)
    if fixed.dtype == jnp.bool_:
        fixed = fixed.astype(jnp.int8)
    positions = jax.lax.broadcasted_iota(jnp.int64, input.shape, dim)
    is_record = (fixed == running(fixed, dim)) | jnp.isnan(fixed)
    indices = jax.lax.cummax(jnp.where(is_record, positions, 0), dim)
    return jnp.take_along_axis(input, indices, dim), indices


@op(method=True, returns=return_types.cummax)
def cummax(input: Array, dim: int) -> Any:
    """The greatest of the elements up to and with each along a dimension, and its index.

    Of several equal ones the index is the last, and the gradient goes to that one.

    Raises:
        IndexError: There is no such dimension.
    """
    return _records("cummax", jnp.greater_equal, jax.lax.cummax, input, dim)


@op(method=True, returns=return_types.cummin)
def cummin(input: Array, dim: int) -> Any:
    """The least of the elements up to and with each along a dimension, and its index.

    Of several equal ones the index is the last, and the gradient goes to that one.

    Raises:
        IndexError: There is no such dimension.
    """
    return _records("cummin", jnp.less_equal, jax.lax.cummin, input, dim)


def _part(own: Any, other: Any) -> Any:
    # Beside minus infinity everything counts whole, and so does infinity beside anything.
    alone = (other == -jnp.inf) | (own == jnp.inf)
    # Where the choice falls on 1, the other branch is kept finite for the gradient of the gradient.
    apart = jnp.where(alone, 0, other) - jnp.where(alone, 0, own)
    return jnp.where(alone, 1, jax.nn.sigmoid(-apart))


@with_derivatives(
    lambda tangent, result, before, row: tangent * _part(before, row),
    lambda tangent, result, before, row: tangent * _part(row, before),
)
def _log_of_sum(before: Any, row: Any) -> Any:
    return jnp.logaddexp(before, row)


@op(method=True)
def logcumsumexp(input: Array, dim: int) -> Array:
    """``log(cumsum(exp(x)))`` along a dimension, without overflow on the way.

    Raises:
        IndexError: There is no such dimension.
    """
    needs_floating("logcumsumexp", input)
    dim = wrap_dim(dim, input.ndim, "logcumsumexp")
    if only_cpu():
        return _accumulated(functools.partial(_loop, _log_of_sum, -jnp.inf), input, dim, None)
    return _accumulated(jax.lax.cumlogsumexp, input, dim, None)
