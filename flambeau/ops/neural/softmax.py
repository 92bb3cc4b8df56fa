"""Exponentials summed over a dimension: softmax, log-softmax, logsumexp."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import op
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.dtype import COMPLEX, FLOATING, from_numpy_dtype, get_default_dtype
from flambeau.ops.common.checks import (
    Dims,
    cast_first,
    category,
    needs_floating,
    wrap_dim,
    wrap_dims,
)
from flambeau.ops.cpu_forms.linear_maps import LinearMap
from flambeau.ops.native import rows as native

__all__ = ["log_softmax", "logsumexp", "softmax"]


def _widened(name: str, input: Any, dtype: Any) -> tuple[Any, Any]:
    """``input`` in at least single precision, and the NumPy dtype of the result."""
    if dtype is not None:
        input = cast_first(input, dtype)
    needs_floating(name, input)
    wide = input.astype(jnp.float32) if input.dtype.itemsize == 2 else input
    return wide, input.dtype


@op(method=True)
def softmax(input: Array, dim: int, dtype: dtypes.dtype | None = None) -> Array:
    """``exp(x) / sum(exp(x))`` along a dimension.

    Args:
        input: A floating point tensor.
        dim: The dimension along which the results sum to one.
        dtype: Convert to this dtype first.

    Raises:
        NotImplementedError: ``input`` is not floating point and no ``dtype`` is given.
        IndexError: There is no such dimension.

    >>> import flambeau
    >>> flambeau.softmax(flambeau.tensor([0.0, 0.0]), 0)
    tensor([0.5000, 0.5000])
    """
    dim = wrap_dim(dim, input.ndim, "softmax")
    wide, result = _widened("softmax", input, dtype)
    if wide.ndim == 0:
        return jnp.exp(wide - wide).astype(result)
    if native.takes(wide, dim):
        return native.softmax(wide, "softmax").astype(result)
    return _softmax(wide, dim).astype(result)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _softmax(array: Any, dim: int) -> Any:
    return jax.nn.softmax(array, dim)


@_softmax.defjvp
def _softmax_jvp(dim: int, primals: Any, tangents: Any) -> Any:
    weights = _softmax(primals[0], dim)
    return weights, moved_weights(weights, tangents[0], dim)


def moved_weights(weights: Any, moved: Any, dim: int) -> Any:
    """The tangent of the result of a softmax, from that of its input.

    Args:
        weights: The results.
        moved: The tangent of the exponents.
        dim: The dimension along which the weights sum to one.
    """
    return _jacobian(dim)((weights,), (moved,))[0]


@functools.cache
def _jacobian(dim: int) -> LinearMap:
    """A symmetric matrix; JAX would write its transpose as a sum of two products instead."""

    def apply(fixed: Any, linear: Any) -> Any:
        (weights,), (moved,) = fixed, linear
        return (weights * (moved - jnp.sum(weights * moved, dim, keepdims=True)),)

    return LinearMap(apply, apply)


@op(method=True)
def log_softmax(input: Array, dim: int, dtype: dtypes.dtype | None = None) -> Array:
    """The logarithm of `softmax`, computed without overflow: ``x - logsumexp(x)``.

    Args:
        input: A floating point tensor.
        dim: The dimension along which the exponentials of the results sum to one.
        dtype: Convert to this dtype first.

    Raises:
        NotImplementedError: ``input`` is not floating point and no ``dtype`` is given.
        IndexError: There is no such dimension.
    """
    dim = wrap_dim(dim, input.ndim, "log_softmax")
    wide, result = _widened("log_softmax", input, dtype)
    if wide.ndim == 0:
        return (wide - wide).astype(result)
    if native.takes(wide, dim):
        return native.softmax(wide, "log_softmax").astype(result)
    return jax.nn.log_softmax(wide, dim).astype(result)


@op(method=True)
def logsumexp(input: Array, dim: Dims, keepdim: bool = False) -> Array:
    """``log(sum(exp(x)))`` over some dimensions, computed without overflow.

    Args:
        input: A tensor; integers are converted to the default dtype.
        dim: One dimension or several.
        keepdim: Keep the reduced dimensions, with size 1.

    Raises:
        IndexError: There is no such dimension.
    """
    dims = wrap_dims(dim, input.ndim, "logsumexp")
    if category(input) < FLOATING:
        input = input.astype(get_default_dtype().numpy)
    wide = input.astype(jnp.float32) if input.dtype.itemsize == 2 else input
    if category(wide) == COMPLEX:
        raise NotImplementedError(
            f"logsumexp() is not implemented for {from_numpy_dtype(input.dtype).name}"
        )
    # Without elements the sum is 0 and its logarithm minus infinity.
    total = jax.scipy.special.logsumexp(wide, dims, keepdims=keepdim)
    return total.astype(input.dtype)
