"""Powers of 2, exact for integer exponents."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.ops.common.derivatives import with_derivatives

# The integer dtype, the position of the exponent in its bits, and the bias.
_FORMATS = {jnp.dtype("float32"): (jnp.int32, 23, 127), jnp.dtype("float64"): (jnp.int64, 52, 1023)}


def power_of_two(exponent: Any, dtype: Any) -> Any:
    """``2 ** exponent`` for integers: infinite above the dtype's range, 0 below.

    Args:
        exponent: Integers.
        dtype: float32 or float64.
    """
    bits, place, bias = _FORMATS[jnp.dtype(dtype)]
    # As the product of two powers, so that powers at the ends of the range can be written as bits.
    exponent = jnp.clip(exponent, -2 * (bias - 1), 2 * bias).astype(bits)
    first = exponent // 2
    parts = ((each + bias) << place for each in (first, exponent - first))
    low, high = (jax.lax.bitcast_convert_type(each, dtype) for each in parts)
    return low * high


@with_derivatives(lambda tangent, result, exponent: tangent * (result * math.log(2)))
def two_to_the(exponent: Any) -> Any:
    """2 to the power of each element; XLA's own version first rounds the exponent times log 2."""
    if exponent.dtype not in _FORMATS:
        return jnp.exp2(exponent)
    whole = jnp.round(exponent)
    fraction = jnp.exp((exponent - whole) * math.log(2))
    finite = jnp.isfinite(exponent)
    # Far outside the range of every dtype.
    steps = jnp.where(finite, jnp.clip(whole, -5000, 5000), 0).astype(jnp.int32)
    scaled = fraction * power_of_two(steps, exponent.dtype)
    return jnp.where(finite, scaled, jnp.exp(exponent))
