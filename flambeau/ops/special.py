"""Functions of mathematical physics and statistics: error functions, gamma functions, entropies."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.op import Array, Operand, TensorOperand, function, op
from flambeau.core.promotion import promote_to_float
from flambeau.core.tensor import Tensor
from flambeau.ops.aliases import also_method
from flambeau.ops.checks import needs_floating, needs_inexact
from flambeau.ops.derivatives import log_odds

__all__ = [
    "arctan2", "atan2", "digamma", "erf", "erfc", "erfinv", "hypot", "i0", "igamma", "igammac",
    "lgamma", "logaddexp", "logaddexp2", "logit", "mvlgamma", "polygamma", "sinc", "xlogy",
]  # fmt: skip


@op(method=True, inplace=True, promote="float")
def erf(input: Operand) -> Array:
    """The error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t^2)`` from 0 to x."""
    needs_floating("erf", input)
    return jax.lax.erf(input)


@op(method=True, inplace=True, promote="float")
def erfc(input: Operand) -> Array:
    """``1 - erf(x)``, exact for large x."""
    needs_floating("erfc", input)
    return jax.lax.erfc(input)


@op(method=True, inplace=True, promote="float")
def erfinv(input: Operand) -> Array:
    """The inverse of `erf` on [-1, 1]; NaN outside."""
    needs_floating("erfinv", input)
    return jax.lax.erf_inv(input)


@op(method=True, inplace=True, promote="float")
def lgamma(input: Operand) -> Array:
    """The logarithm of the absolute value of the gamma function."""
    needs_floating("lgamma", input)
    return jax.lax.lgamma(input)


@op(method=True, inplace=True, promote="float")
def digamma(input: Operand) -> Array:
    """The derivative of the logarithm of the gamma function."""
    needs_floating("digamma", input)
    pole = -jnp.copysign(jnp.inf, input).astype(input.dtype)
    return jnp.where(input == 0, pole, jax.scipy.special.digamma(input))


@op
def polygamma(n: int, input: Array) -> Array:
    """The derivative of order ``n`` of `digamma`.

    Raises:
        RuntimeError: ``n`` is negative.
        TypeError: ``n`` is no integer.
    """
    if not isinstance(n, int):
        raise TypeError(f"polygamma(): the order n must be an int, got {type(n).__name__}")
    if n < 0:
        raise RuntimeError(f"polygamma(): the order n must not be negative, got {n}")
    (input,) = promote_to_float(input)
    needs_floating("polygamma", input)
    if n == 0:
        return jax.scipy.special.digamma(input)
    return jax.scipy.special.polygamma(jnp.asarray(n, jnp.int32), input)


@function(method="polygamma")
def _polygamma_method(self: Tensor, n: int) -> Any:
    """`flambeau.polygamma` of this tensor."""
    return polygamma(n, self)


@op(method=True, inplace=True)
def mvlgamma(input: Operand, p: int) -> Array:
    """The logarithm of the multivariate gamma function of dimension ``p``.

    Raises:
        RuntimeError: ``p`` is not positive.
    """
    if p < 1:
        raise RuntimeError(f"mvlgamma(): the dimension p must be positive, got {p}")
    (input,) = promote_to_float(input)
    needs_floating("mvlgamma", input)
    terms = (jax.lax.lgamma(input - 0.5 * each) for each in range(p))
    return sum(terms) + p * (p - 1) / 4 * math.log(math.pi)


@op(method=True, inplace=True, promote="type")
def igamma(input: TensorOperand, other: TensorOperand) -> Array:
    """The regularized lower incomplete gamma function of order ``input``, up to ``other``."""
    needs_floating("igamma", input)
    return jax.lax.igamma(*jnp.broadcast_arrays(input, other))


@op(method=True, inplace=True, promote="type")
def igammac(input: TensorOperand, other: TensorOperand) -> Array:
    """``1 - igamma``: the regularized upper incomplete gamma function."""
    needs_floating("igammac", input)
    return jax.lax.igammac(*jnp.broadcast_arrays(input, other))


@op(method=True, inplace=True, promote="float", node="I0Backward0")
def i0(input: Operand) -> Array:
    """The modified Bessel function of the first kind of order 0."""
    needs_floating("i0", input)
    return jax.scipy.special.i0(input)


@op(method=True, inplace=True, promote="float")
def sinc(input: Operand) -> Array:
    """``sin(pi x) / (pi x)``, and 1 at 0."""
    return jnp.sinc(input)


@op(method=True, inplace=True)
def logit(input: Operand, eps: Array | None = None) -> Array:
    """``log(x / (1 - x))``, the inverse of `sigmoid`.

    Args:
        input: A tensor of probabilities.
        eps: Clamp the elements to ``[eps, 1 - eps]`` first, where no gradient passes; without it
            elements outside [0, 1] give NaN.
    """
    (input,) = promote_to_float(input)
    needs_floating("logit", input)
    if eps is None:
        return log_odds(input)
    eps = jnp.asarray(eps, input.dtype)
    low = jnp.where(input < eps, jax.lax.stop_gradient(eps), input)
    clamped = jnp.where(low > 1 - eps, jax.lax.stop_gradient(1 - eps), low)
    return log_odds(clamped)


@op(method=True, inplace=True, overloads={"nt": "XlogyBackward1", "tn": "XlogyBackward2"})
def xlogy(input: Operand, other: Operand) -> Array:
    """``input * log(other)``: 0 where ``input`` is 0, NaN where ``other`` is."""
    input, other = promote_to_float(input, other)
    needs_floating("xlogy", input)
    return times_logarithm(input, other, 0)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def times_logarithm(factor: Any, of: Any, added: int) -> Any:
    """``factor * log(added + of)``: 0 where ``factor`` is 0, NaN where ``of`` is.

    Where ``factor`` is 0 its gradient is the logarithm, or 0 where that is not finite.
    """
    zero = (factor == 0) & ~jnp.isnan(of)
    return jnp.where(zero, jnp.zeros_like(of), factor * _logarithm(of, added))


@times_logarithm.defjvp
def _times_logarithm_jvp(added: int, primals: Any, tangents: Any) -> Any:
    (factor, of), (by_factor, by_of) = primals, tangents
    outside = (factor == 0) & (of <= -added)
    slope = jnp.where(outside, jnp.zeros_like(of), _logarithm(of, added))
    return times_logarithm(factor, of, added), by_factor * slope + by_of * factor / (of + added)


def _logarithm(of: Any, added: int) -> Any:
    return jnp.log1p(of) if added else jnp.log(of)


@op(method=True, inplace=True)
def atan2(input: TensorOperand, other: TensorOperand) -> Array:
    """The angle in radians of the point ``(other, input)``; its gradient at the origin is 0."""
    input, other = promote_to_float(input, other)
    needs_floating("atan2", input)
    origin = (input == 0) & (other == 0)
    regular = jnp.arctan2(input, jnp.where(origin, jnp.ones_like(other), other))
    at_origin = jnp.arctan2(*map(jax.lax.stop_gradient, (input, other)))
    return jnp.where(origin, at_origin, regular)


@op(method=True, inplace=True, promote="type")
def hypot(input: TensorOperand, other: TensorOperand) -> Array:
    """``sqrt(input^2 + other^2)``, without overflow on the way."""
    needs_floating("hypot", input)
    return jnp.hypot(input, other)


@op(method=True, promote="type")
def logaddexp(input: TensorOperand, other: TensorOperand) -> Array:
    """``log(exp(input) + exp(other))``, without overflow on the way."""
    needs_inexact("logaddexp", input)
    return jnp.logaddexp(input, other)


@op(method=True, promote="type")
def logaddexp2(input: TensorOperand, other: TensorOperand) -> Array:
    """``log2(2^input + 2^other)``, without overflow on the way."""
    needs_floating("logaddexp2", input)
    return jnp.logaddexp(input * math.log(2), other * math.log(2)) / math.log(2)


arctan2 = also_method("arctan2", atan2)
