"""Functions of mathematical physics and statistics: error functions, gamma functions, entropies."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array, Operand, TensorOperand
from flambeau.core.kernels.promotion import promote_to_float
from flambeau.core.operators.op import function, op
from flambeau.core.support import errors
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.aliases import also_method
from flambeau.ops.common.checks import needs_floating, needs_inexact
from flambeau.ops.common.derivatives import log_odds, where_chosen, with_derivatives
from flambeau.ops.elementwise.gamma import log_gamma, polygamma_of
from flambeau.ops.elementwise.incomplete_gamma import lower_incomplete_gamma, upper_incomplete_gamma
from flambeau.ops.elementwise.waves import bessel_i0, cardinal_sine

__all__ = [
    "arctan2", "atan2", "digamma", "erf", "erfc", "erfinv", "hypot", "i0", "igamma", "igammac",
    "lgamma", "logaddexp", "logaddexp2", "logit", "mvlgamma", "polygamma", "sinc", "xlogy",
]  # fmt: skip


@op(method=True, inplace=True, promote="float", widen=True)
def erf(input: Operand) -> Array:
    """The error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t^2)`` from 0 to x."""
    needs_floating("erf", input)
    return jax.lax.erf(input)


@op(method=True, inplace=True, promote="float", widen=True)
def erfc(input: Operand) -> Array:
    """``1 - erf(x)``, accurate for large x."""
    needs_floating("erfc", input)
    return jax.lax.erfc(input)


@op(method=True, inplace=True, promote="float", widen=True)
def erfinv(input: Operand) -> Array:
    """The inverse of `erf` on [-1, 1]; NaN outside."""
    needs_floating("erfinv", input)
    return jax.lax.erf_inv(input)


@op(method=True, inplace=True, promote="float", widen=True)
def lgamma(input: Operand) -> Array:
    """The logarithm of the absolute value of the gamma function."""
    needs_floating("lgamma", input)
    return log_gamma(input)


@op(method=True, inplace=True, promote="float", widen=True)
def digamma(input: Operand) -> Array:
    """The derivative of the logarithm of the gamma function."""
    needs_floating("digamma", input)
    return polygamma_of(0, input)


@op(widen=True)
def polygamma(n: int, input: Array) -> Array:
    """The derivative of order ``n`` of `digamma`.

    Raises:
        RuntimeError: ``n`` is negative.
        TypeError: ``n`` is not an integer.
    """
    if not isinstance(n, int):
        raise errors.TypeError(f"polygamma(): the order n must be an int, got {type(n).__name__}")
    if n < 0:
        raise RuntimeError(f"polygamma(): the order n must not be negative, got {n}")
    (input,) = promote_to_float(input)
    needs_floating("polygamma", input)
    return polygamma_of(n, input)


@function(method="polygamma")
def _polygamma_method(self: Tensor, n: int) -> Any:
    """`flambeau.polygamma` of this tensor."""
    return polygamma(n, self)


@op(method=True, inplace=True, widen=True)
def mvlgamma(input: Operand, p: int) -> Array:
    """The logarithm of the multivariate gamma function of dimension ``p``.

    Raises:
        RuntimeError: ``p`` is not positive.
    """
    if p < 1:
        raise RuntimeError(f"mvlgamma(): the dimension p must be positive, got {p}")
    (input,) = promote_to_float(input)
    needs_floating("mvlgamma", input)
    terms = (log_gamma(input - 0.5 * each) for each in range(p))
    return sum(terms) + p * (p - 1) / 4 * math.log(math.pi)


@op(method=True, inplace=True, promote="type", widen=True)
def igamma(input: TensorOperand, other: TensorOperand) -> Array:
    """The regularized lower incomplete gamma function of order ``input``, up to ``other``."""
    needs_floating("igamma", input)
    return lower_incomplete_gamma(*jnp.broadcast_arrays(input, other))


@op(method=True, inplace=True, promote="type", widen=True)
def igammac(input: TensorOperand, other: TensorOperand) -> Array:
    """``1 - igamma``: the regularized upper incomplete gamma function."""
    needs_floating("igammac", input)
    return upper_incomplete_gamma(*jnp.broadcast_arrays(input, other))


@op(method=True, inplace=True, promote="float", widen=True, node="I0Backward0")
def i0(input: Operand) -> Array:
    """The modified Bessel function of the first kind of order 0."""
    needs_floating("i0", input)
    return bessel_i0(input)


@op(method=True, inplace=True, promote="float", widen=True)
def sinc(input: Operand) -> Array:
    """``sin(pi x) / (pi x)``, and 1 at 0."""
    return cardinal_sine(input)


@op(method=True, inplace=True, widen=True)
def logit(input: Operand, eps: Array | None = None) -> Array:
    """``log(x / (1 - x))``, the inverse of `sigmoid`.

    Args:
        input: A tensor of probabilities.
        eps: Clamp the elements to ``[eps, 1 - eps]`` first, with zero gradient outside; without it
            elements outside [0, 1] give NaN.
    """
    (input,) = promote_to_float(input)
    needs_floating("logit", input)
    if eps is None:
        return log_odds(input)
    return log_odds(_inside(input, jnp.asarray(eps, input.dtype)))


@with_derivatives(
    lambda tangent, result, value, eps: where_chosen((value >= eps) & (value <= 1 - eps), tangent),
    None,
)
def _inside(value: Any, eps: Any) -> Any:
    return jnp.clip(value, eps, 1 - eps)


@op(
    method=True,
    inplace=True,
    widen=True,
    overloads={"nt": "XlogyBackward1", "tn": "XlogyBackward2"},
)
def xlogy(input: Operand, other: Operand) -> Array:
    """``input * log(other)``: 0 if ``input`` is 0, NaN if ``other`` is NaN."""
    input, other = promote_to_float(input, other)
    needs_floating("xlogy", input)
    return times_logarithm(input, other, 0)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def times_logarithm(factor: Any, of: Any, added: int) -> Any:
    """``factor * log(added + of)``: 0 if ``factor`` is 0, NaN if ``of`` is NaN.

    If ``factor`` is 0 its gradient is the logarithm, or 0 if the logarithm is not finite.
    """
    zero = (factor == 0) & ~jnp.isnan(of)
    return jnp.where(zero, jnp.zeros_like(of), factor * _logarithm(of, added))


@times_logarithm.defjvp
def _times_logarithm_jvp(added: int, primals: Any, tangents: Any) -> Any:
    (factor, of), (by_factor, by_of) = primals, tangents
    outside = (factor == 0) & (of <= -added)
    slope = jnp.where(outside, jnp.zeros_like(of), _logarithm(of, added))
    by_factor = where_chosen(~outside, by_factor)
    return times_logarithm(factor, of, added), by_factor * slope + by_of * factor / (of + added)


def _logarithm(of: Any, added: int) -> Any:
    return jnp.log1p(of) if added else jnp.log(of)


@op(method=True, inplace=True, widen=True)
def atan2(input: TensorOperand, other: TensorOperand) -> Array:
    """The angle in radians of the point ``(other, input)``; its gradient at the origin is 0."""
    input, other = promote_to_float(input, other)
    needs_floating("atan2", input)
    return _angle(*jnp.broadcast_arrays(input, other))


def _per_square(side: Any, y: Any, x: Any) -> Any:
    """``side / (y^2 + x^2)``, without intermediate overflow; 0 at the origin."""
    origin = (y == 0) & (x == 0)
    distance = jnp.hypot(jnp.where(origin, 1, y), x)
    return jnp.where(origin, 0, side / distance * (1 / distance))


@with_derivatives(
    lambda tangent, result, y, x: tangent * _per_square(x, y, x),
    lambda tangent, result, y, x: -tangent * _per_square(y, y, x),
)
def _angle(y: Any, x: Any) -> Any:
    return jnp.arctan2(y, x)


@op(method=True, inplace=True, promote="type", widen=True)
def hypot(input: TensorOperand, other: TensorOperand) -> Array:
    """``sqrt(input^2 + other^2)``, without intermediate overflow."""
    needs_floating("hypot", input)
    return _distance(*jnp.broadcast_arrays(input, other))


@with_derivatives(
    lambda tangent, result, first, second: tangent * (first / result),
    lambda tangent, result, first, second: tangent * (second / result),
)
def _distance(first: Any, second: Any) -> Any:
    return jnp.hypot(first, second)


def _slopes_of_log_of_sum(power: Callable[[Any], Any]) -> tuple[Callable[..., Any], ...]:
    """The tangents of the logarithm of ``power(first) + power(second)``, one for each operand."""
    return (
        lambda tangent, result, first, second: tangent / (1 + power(second - first)),
        lambda tangent, result, first, second: tangent / (1 + power(first - second)),
    )


@op(method=True, promote="type", widen=True)
def logaddexp(input: TensorOperand, other: TensorOperand) -> Array:
    """``log(exp(input) + exp(other))``, without intermediate overflow."""
    needs_inexact("logaddexp", input)
    return _log_of_sum(input, other)


@with_derivatives(*_slopes_of_log_of_sum(jnp.exp))
def _log_of_sum(first: Any, second: Any) -> Any:
    return jnp.logaddexp(first, second)


@op(method=True, promote="type", widen=True)
def logaddexp2(input: TensorOperand, other: TensorOperand) -> Array:
    """``log2(2^input + 2^other)``, without intermediate overflow."""
    needs_floating("logaddexp2", input)
    return _binary_log_of_sum(input, other)


@with_derivatives(*_slopes_of_log_of_sum(jnp.exp2))
def _binary_log_of_sum(first: Any, second: Any) -> Any:
    return jnp.logaddexp2(first, second)


arctan2: Any = also_method("arctan2", atan2)
