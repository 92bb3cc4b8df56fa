"""The logarithm of the gamma function and its derivatives, with values at the poles."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.ops.common.derivatives import with_derivatives


@with_derivatives(lambda tangent, result, x: tangent * polygamma_of(0, x))
def log_gamma(x: Any) -> Any:
    """The logarithm of the absolute value of the gamma function."""
    return jax.lax.lgamma(x)


@functools.cache
def _polygamma(order: int) -> Any:
    @with_derivatives(lambda tangent, result, x: tangent * polygamma_of(order + 1, x))
    def polygamma(x: Any) -> Any:
        if order == 0:
            pole = -jnp.copysign(jnp.inf, x).astype(x.dtype)
            return jnp.where(x == 0, pole, jax.scipy.special.digamma(x))
        if order == 1:
            return _trigamma(x)
        factor = math.factorial(order) * (-1) ** (order + 1)
        return factor * hurwitz_zeta(jnp.full_like(x, order + 1), x)

    return polygamma


def polygamma_of(order: int, x: Any) -> Any:
    """The derivative of `log_gamma` of order ``order + 1``."""
    return _polygamma(order)(x)


def _trigamma(x: Any) -> Any:
    """The sum of ``(x + k)^-2`` over k = 0, 1, 2, ...

    Six terms and the asymptotic series of the rest; below a half by the reflection formula (NIST
    Digital Library of Mathematical Functions, 5.15.6 and 5.15.8).
    """
    reflected = x < 0.5
    y = jnp.where(reflected, 1 - x, x)
    total = jnp.zeros_like(y)
    for _ in range(6):
        total = total + 1 / (y * y)
        y = y + 1
    inverse = 1 / y
    square = inverse * inverse
    series = 1 / 6 - square * (1 / 30 - square * (1 / 42 - square * (1 / 30 - square * 5 / 66)))
    total = total + inverse + square / 2 + inverse * square * series
    sine = jnp.sin(math.pi * (x - jnp.round(x)))
    return jnp.where(reflected, (math.pi / sine) ** 2 - total, total)


def _along_q(tangent: Any, result: Any, x: Any, q: Any) -> Any:
    return tangent * -x * hurwitz_zeta(x + 1, q)


@with_derivatives(None, _along_q)
def hurwitz_zeta(x: Any, q: Any) -> Any:
    """The sum of ``(q + k)^-x`` over k = 0, 1, 2, ...: infinite if a term is."""
    pole = (q <= 0) & (q == jnp.floor(q))
    found = jnp.where(pole, jnp.inf, jax.scipy.special.zeta(x, jnp.where(pole, 1, q)))
    return jnp.where(x < 1, jnp.nan, found).astype(x.dtype)
