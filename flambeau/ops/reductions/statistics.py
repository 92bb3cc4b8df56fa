"""Covariances and correlations of variables with observations in columns."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import function, op
from flambeau.core.support.dtype import FLOATING, INTEGER, get_default_dtype
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import category, needs_numeric
from flambeau.ops.common.values import concrete_values

__all__ = ["corrcoef", "cov"]


def _check_weights(argument: str, weights: Any, count: int, integral: bool) -> None:
    if weights is None:
        return
    if weights.shape != (count,):
        raise RuntimeError(
            f"cov(): {argument} of shape {list(weights.shape)} for {count} observations"
        )
    if (category(weights) == INTEGER) != integral:
        kind = "integers" if integral else "floating point numbers"
        raise RuntimeError(f"cov(): {argument} must be {kind}, got {weights.dtype}")


def _covariance(
    name: str, input: Any, correction: int, fweights: Any = None, aweights: Any = None
) -> Any:
    if input.ndim > 2:
        raise RuntimeError(f"{name}() takes at most two dimensions, got {list(input.shape)}")
    needs_numeric(name, input)
    if category(input) < FLOATING:
        input = input.astype(get_default_dtype().numpy)
    rows = input.reshape(1, -1) if input.ndim < 2 else input
    count = rows.shape[1]
    _check_weights("fweights", fweights, count, integral=True)
    _check_weights("aweights", aweights, count, integral=False)
    real = jnp.real(rows).dtype
    weights = jnp.ones((count,), real)
    for each in (fweights, aweights):
        weights = weights if each is None else weights * each.astype(real)
    total = jnp.sum(weights)
    if aweights is None or correction == 0:
        freedom = total - correction
    else:
        freedom = total - correction * jnp.sum(weights * aweights.astype(real)) / total
    deviation = rows - jnp.sum(rows * weights, 1, keepdims=True) / total
    products = jnp.matmul(
        deviation * weights, jnp.conj(deviation).T, precision=jax.lax.Precision.HIGHEST
    )
    matrix = products / jnp.maximum(freedom, 0)
    # One variable gives a variance, for input of any shape.
    return matrix[0, 0] if matrix.shape == (1, 1) else matrix


@op(name="cov", widen=True, node="SqueezeBackward0")
def _cov(input: Array, correction: int, fweights: Array | None, aweights: Array | None) -> Array:
    return _covariance("cov", input, correction, fweights, aweights)


@function(method=True)
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """The covariance matrix of the rows of ``input``; for a vector, its variance.

    Args:
        input: Shape ``(variables, observations)`` or ``(observations,)``.
        correction: The number to subtract from the number of observations in the divisor.
        fweights: The frequency of each observation, integers.
        aweights: The weight of each observation.

    Raises:
        RuntimeError: There are more than two dimensions, or the weights do not fit or are negative.
    """
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        found = concrete_values(weights)
        if found is not None and found.size and found.min() < 0:
            raise RuntimeError(f"cov(): {name} must not be negative, got {found.min()}")
    return _cov(input, correction, fweights, aweights)


@op(widen=True, method=True, node="ClampBackward1")
def corrcoef(input: Array) -> Array:
    """The matrix of the correlation coefficients of the rows of ``input``.

    Args:
        input: Shape ``(variables, observations)`` or ``(observations,)``.

    Raises:
        RuntimeError: There are more than two dimensions.
    """
    matrix = _covariance("corrcoef", input, 1)
    if matrix.ndim == 0:
        return matrix / matrix
    spread = jnp.sqrt(jnp.real(jnp.diagonal(matrix)))
    scaled = matrix / spread[:, None] / spread[None, :]
    if jnp.iscomplexobj(scaled):
        return jax.lax.complex(*(jnp.clip(part(scaled), -1, 1) for part in (jnp.real, jnp.imag)))
    return jnp.clip(scaled, -1, 1)
