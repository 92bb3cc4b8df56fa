"""The regularized incomplete gamma functions, with their limits, for orders of every size."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.ops.common.derivatives import with_derivatives


def _along_order(tangent: Any, order: Any, end: Any, sign: int) -> Any:
    return jax.jvp(lambda order: _value(order, end, sign), (order,), (tangent,))[1]


@with_derivatives(
    lambda tangent, result, order, end: _along_order(tangent, order, end, -1),
    lambda tangent, result, order, end: tangent * _density(order, end),
)
def lower_incomplete_gamma(order: Any, end: Any) -> Any:
    """The integral of the density of the gamma distribution from 0 to ``end``."""
    return _value(order, end, -1)


@with_derivatives(
    lambda tangent, result, order, end: _along_order(tangent, order, end, 1),
    lambda tangent, result, order, end: tangent * -_density(order, end),
)
def upper_incomplete_gamma(order: Any, end: Any) -> Any:
    """The integral of the density of the gamma distribution from ``end`` to infinity."""
    return _value(order, end, 1)


def _value(order: Any, end: Any, sign: int) -> Any:
    """The upper function if ``sign`` is 1, the lower one if it is -1."""
    # Just above the least number the terms of JAX's series would be subnormal.
    nothing = (order == 0) & (end == 0)
    tiny = (order >= 0) & (order < 8 * jnp.finfo(order.dtype).smallest_normal)
    order = jnp.where(tiny, 0, order)
    great, inside = _is_great(order, end)
    of_any_order = jax.lax.igamma if sign < 0 else jax.lax.igammac
    found = jnp.where(
        inside,
        _of_great_order(*_instead(inside, order, end), sign),
        of_any_order(jnp.where(great, 1, order), end),
    )
    at_zero, at_infinity = (1, 0) if sign > 0 else (0, 1)
    undefined = nothing | (jnp.isinf(order) & jnp.isinf(end))
    begins = (end == 0) | jnp.isinf(order)
    is_limit = begins | (order == 0) | jnp.isinf(end)
    limit = jnp.where(undefined, jnp.nan, jnp.where(begins, at_zero, at_infinity))
    outside = (order < 0) | (end < 0) | jnp.isnan(order) | jnp.isnan(end)
    return jnp.where(is_limit & ~outside, limit, found).astype(order.dtype)


def _density(order: Any, end: Any) -> Any:
    """The derivative of the lower function."""
    _, inside = _is_great(order, end)
    great_order, great_end = _instead(inside, order, end)
    half_square = _half_square_and_root(great_order, great_end)[0]
    factor = jnp.sqrt(great_order / (2 * math.pi)) / great_end
    weight = jnp.exp(-great_order * half_square)
    uniform = jnp.where(weight == 0, 0, weight * factor)
    ordinary = jnp.exp(jax.scipy.special.xlogy(order - 1, end) - end - jax.lax.lgamma(order))
    found = jnp.where(inside, uniform * (1 - 1 / (12 * great_order)), ordinary)
    return jnp.where(jnp.isposinf(end) & ~jnp.isnan(order), 0, found).astype(order.dtype)


def _is_great(order: Any, end: Any) -> tuple[Any, Any]:
    """Two masks: the order is too great for JAX's loops; and the end is finite or not.

    Beyond that the expansion is more accurate. A series needs as many terms as the square root of
    the order, and never ends if adding 1 to the order changes nothing.
    """
    great = order >= (1e5 if order.dtype == jnp.float64 else 200)
    return great, great & jnp.isfinite(order) & jnp.isfinite(end) & (end > 0)


def _instead(inside: Any, order: Any, end: Any) -> tuple[Any, Any]:
    """The order and the end, replaced by harmless numbers where they are not ``inside``."""
    return jnp.where(inside, order, 1e6), jnp.where(inside, end, 1e6)


def _half_square_and_root(order: Any, end: Any) -> tuple[Any, Any]:
    """``eta^2 / 2`` and ``eta`` of the uniform expansion, 0 if the end equals the order."""
    excess = (end - order) / order
    near = jnp.abs(excess) < 0.02
    small, beside = jnp.where(near, excess, 0), jnp.where(near, 1, excess)
    series = functools.reduce(lambda rest, n: rest * -small + 1 / n, range(11, 1, -1), 0.0)
    # If it is great, all that matters is that the exponential of its negative is 0.
    far = jnp.minimum(beside - jnp.log1p(beside), 1000)
    return (
        jnp.where(near, small * small * series, far),
        jnp.where(near, small * jnp.sqrt(2 * series), jnp.copysign(jnp.sqrt(2 * far), beside)),
    )


def _of_great_order(order: Any, end: Any, sign: int) -> Any:
    """The first terms of the uniform expansion.

    NIST Digital Library of Mathematical Functions, 8.12.3, 8.12.4 and 8.12.9.
    """
    half_square, eta = _half_square_and_root(order, end)
    excess = (end - order) / order
    near = jnp.abs(excess) < 0.02
    correction = jnp.where(
        near,
        -1 / 3 + eta * (1 / 12 + eta * (-2 / 135 + eta * (1 / 864 + eta / 2835))),
        1 / jnp.where(near, 1, excess) - 1 / jnp.where(near, 1, eta),
    )
    tail = jnp.exp(-order * half_square) / jnp.sqrt(2 * math.pi * order)
    main = jax.lax.erfc(sign * eta * jnp.sqrt(order / 2)) / 2
    return main + sign * tail * (correction - (1 / 540 + eta / 288) / order)
