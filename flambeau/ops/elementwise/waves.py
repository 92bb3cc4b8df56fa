"""The cardinal sine and modified Bessel functions, with derivatives that are exact at 0."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.ops.common.derivatives import with_derivatives


@with_derivatives(lambda tangent, result, x: tangent * bessel_i1(x))
def bessel_i0(x: Any) -> Any:
    """The modified Bessel function of the first kind of order 0."""
    return jax.scipy.special.i0(x)


def _slope_of_i1(x: Any) -> Any:
    """``i0(x) - i1(x) / x``, near 0 by the series of the quotient.

    See NIST Digital Library of Mathematical Functions, 10.29.2 and 10.25.2.
    """
    near = jnp.abs(x) < math.sqrt(jnp.finfo(x.dtype).eps)
    small, far = jnp.where(near, x, 0), jnp.where(near, 1, x)
    return bessel_i0(x) - jnp.where(near, 0.5 + small * small / 16, bessel_i1(far) / far)


# JAX's second derivative at 0 is 1.
@with_derivatives(lambda tangent, result, x: tangent * _slope_of_i1(x))
def bessel_i1(x: Any) -> Any:
    """The modified Bessel function of the first kind of order 1."""
    return jax.scipy.special.i1(x)


def _slope(x: Any) -> Any:
    """``-pi j1(pi x)``, with the spherical Bessel function of order 1.

    Near 0 by its series, where the terms of the closed form cancel (NIST Digital Library of
    Mathematical Functions, 10.53.1).
    """
    y = math.pi * x
    near = jnp.abs(y) < 0.75
    small = jnp.where(near, y, 0)
    square = small * small
    series = jnp.ones_like(square)
    for k in (6, 5, 4, 3, 2, 1):
        series = 1 - square / (2 * k * (2 * k + 3)) * series
    far = jnp.where(near, 1, y)
    closed = jnp.sin(far) / (far * far) - jnp.cos(far) / far
    return -math.pi * jnp.where(near, small / 3 * series, closed)


@with_derivatives(lambda tangent, result, x: tangent * _slope(x))
def cardinal_sine(x: Any) -> Any:
    """``sin(pi x) / (pi x)``, and 1 at 0."""
    zero = x == 0
    y = math.pi * jnp.where(zero, 1, x)
    return jnp.where(zero, 1, jnp.sin(y) / y)
