"""Running sums, products, maxima and minima along a dimension.

On a CPU they are loops and products of matrices (`cpu_forms.running`), elsewhere XLA's own.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from flambeau import return_types
from flambeau.core.devices.compiler import cpu_forms
from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import op
from flambeau.core.support import dtype as dtypes
from flambeau.ops.common.checks import (
    cast_first,
    category,
    needs_floating,
    needs_ordered,
    wrap_dim,
)
from flambeau.ops.cpu_forms import running
from flambeau.ops.native import rows as native

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "logcumsumexp"]


def _accumulated(compute: Any, input: Any, dim: int, dtype: dtypes.dtype | None) -> Any:
    """``compute`` in the dtype of a running sum: int64 for integers, float32 for half precision."""
    if dtype is dtypes.bool:
        raise NotImplementedError("a running sum or product does not exist for bool; use int64")
    if dtype is not None:
        input = cast_first(input, dtype)
    elif category(input) <= dtypes.INTEGER:
        input = input.astype(jnp.int64)
    if input.ndim == 0:
        return input
    narrow = input.dtype
    wide = input.astype(jnp.float32) if _is_half(narrow) else input
    return compute(wide, dim).astype(narrow) if wide.size else wide.astype(narrow)


def _is_half(numpy_dtype: Any) -> bool:
    return jnp.issubdtype(numpy_dtype, jnp.floating) and numpy_dtype.itemsize == 2


def _sums(input: Any, dim: int) -> Any:
    if native.takes(input, dim, "cumsum"):
        return native.cumsum(input)
    return running.sums(input, dim) if cpu_forms() else jnp.cumsum(input, dim)


def _products(input: Any, dim: int) -> Any:
    return running.loop(jnp.multiply, 1, input, dim) if cpu_forms() else jnp.cumprod(input, dim)


@op(method=True, inplace=True, linear=True)
def cumsum(input: Array, dim: int, *, dtype: dtypes.dtype | None = None) -> Array:
    """The cumulative sum along a dimension, each element included.

    Args:
        input: A tensor; integers and bools are summed as int64.
        dim: The dimension of the sums.
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
    """The cumulative product along a dimension, each element included; see `cumsum`."""
    return _accumulated(_products, input, wrap_dim(dim, input.ndim, "cumprod"), dtype)


def _records(name: str, beats: Any, by_xla: Any, input: Any, dim: int) -> Any:
    """The running extreme elements, and the index of the last element equal to each."""
    needs_ordered(name, input)
    dim = wrap_dim(dim, input.ndim, name)
    if input.ndim == 0:
        return input, jnp.zeros((), jnp.int64)
    if input.size == 0:
        return input, jnp.zeros(input.shape, jnp.int64)
    if cpu_forms():
        return running.records(beats, input, dim)
    return _records_by_position(by_xla, input, dim)


def _records_by_position(by_xla: Any, input: Any, dim: int) -> Any:
    fixed = jax.lax.stop_gradient(input)
    if fixed.dtype == jnp.bool_:
        fixed = fixed.astype(jnp.int8)
    positions = jax.lax.broadcasted_iota(jnp.int64, input.shape, dim)
    is_record = (fixed == by_xla(fixed, dim)) | jnp.isnan(fixed)
    indices = jax.lax.cummax(jnp.where(is_record, positions, 0), dim)
    return jnp.take_along_axis(input, indices, dim), indices


@op(method=True, returns=return_types.cummax)
def cummax(input: Array, dim: int) -> Any:
    """The cumulative maximum along a dimension, and its index.

    Among equal elements the index is the last, which gets the gradient.

    Raises:
        IndexError: There is no such dimension.
    """
    return _records("cummax", jnp.greater_equal, jax.lax.cummax, input, dim)


@op(method=True, returns=return_types.cummin)
def cummin(input: Array, dim: int) -> Any:
    """The cumulative minimum along a dimension, and its index.

    Among equal elements the index is the last, which gets the gradient.

    Raises:
        IndexError: There is no such dimension.
    """
    return _records("cummin", jnp.less_equal, jax.lax.cummin, input, dim)


@op(method=True)
def logcumsumexp(input: Array, dim: int) -> Array:
    """``log(cumsum(exp(x)))`` along a dimension, without intermediate overflow.

    Raises:
        IndexError: There is no such dimension.
    """
    needs_floating("logcumsumexp", input)
    dim = wrap_dim(dim, input.ndim, "logcumsumexp")
    if cpu_forms():
        return _accumulated(running.logs_of_sums, input, dim, None)
    return _accumulated(jax.lax.cumlogsumexp, input, dim, None)
