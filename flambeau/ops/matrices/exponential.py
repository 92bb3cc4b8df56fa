"""The exponential of matrices, by its series."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.ops.common import loops

# A matrix is halved until its norm is below this; the exponential is squared as often.
_NORM = 0.5
# Beyond a norm of 2e9 the exponential is NaN.
_SQUARINGS = 32


def matrix_exponential(matrices: Any) -> Any:
    """The exponentials of square matrices, ``(..., n, n)``.

    No term of the series is much larger than the result, so nothing cancels; the rational
    approximation of JAX loses up to half of the digits of single precision.
    """
    norms = jax.lax.stop_gradient(jnp.max(jnp.sum(jnp.abs(matrices), -2), -1))
    _, exponent = jnp.frexp(norms / _NORM)
    times = jnp.where(jnp.isfinite(norms), jnp.maximum(exponent, 0), 0)[..., None, None]
    # Repeated halving is exact, and never too small for the dtype.
    scale = jnp.exp2(-times.astype(norms.dtype))
    terms = 16 if norms.dtype == jnp.float64 else 9
    found = _series(matrices * scale.astype(matrices.dtype), terms)

    def square(found: Any, step: Any) -> tuple[Any, None]:
        squared = lambda: jnp.where(step < times, found @ found, found)  # noqa: E731
        return jax.lax.cond(jnp.any(step < times), squared, lambda: found), None

    found, _ = loops.scan(square, found, jnp.arange(_SQUARINGS))
    return jnp.where(times > _SQUARINGS, jnp.nan, found)


def _series(matrices: Any, degree: int) -> Any:
    """The first terms of the series, by Paterson and Stockmeyer's scheme."""
    width = math.isqrt(degree)
    assert width * width == degree
    powers = [jnp.broadcast_to(jnp.eye(matrices.shape[-1], dtype=matrices.dtype), matrices.shape)]
    for _ in range(width):
        powers.append(powers[-1] @ matrices if len(powers) > 1 else matrices)

    def block(first: int) -> Any:
        parts = (powers[i] / math.factorial(first + i) for i in range(width))
        return functools.reduce(jnp.add, parts)

    found = powers[width] / math.factorial(degree)
    for first in range(degree - width, -1, -width):
        found = found + block(first)
        found = found @ powers[width] if first else found
    return found
