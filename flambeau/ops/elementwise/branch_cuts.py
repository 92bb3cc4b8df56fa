"""Complex functions at their branch cuts, where the sign of a zero decides the side.

XLA ignores the sign of zeros, and so gives one side's value on both sides.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from flambeau.ops.common.derivatives import with_derivatives

__all__: list[str] = []


@with_derivatives(lambda tangent, result, input: tangent / (2 * result))
def square_root(input: Any) -> Any:
    """The square root."""
    result = jnp.sqrt(input)
    if not jnp.iscomplexobj(input):
        return result
    return jax.lax.complex(jnp.real(result), jnp.copysign(jnp.imag(result), jnp.imag(input)))


@with_derivatives(lambda tangent, result, input: tangent * (0.5 / result))
def power_of_half(input: Any) -> Any:
    """The power 0.5, whose gradient at 0 is infinite like that of other powers."""
    return square_root(input)


@with_derivatives(lambda tangent, result, values, signs: tangent, None)
def imaginary_with_sign(values: Any, signs: Any) -> Any:
    """Complex ``values``, the imaginary parts with the signs of ``signs``."""
    return jax.lax.complex(jnp.real(values), jnp.copysign(jnp.imag(values), signs))


@with_derivatives(lambda tangent, result, values, signs: tangent, None)
def real_with_sign(values: Any, signs: Any) -> Any:
    """Complex ``values``, the real parts with the signs of ``signs``."""
    return jax.lax.complex(jnp.copysign(jnp.real(values), signs), jnp.imag(values))


# JAX's own derivative is on the wrong branch if the real part is negative; this is PyTorch's.
@with_derivatives(
    lambda tangent, result, input: tangent * (1 / (jnp.sqrt(input + 1) * jnp.sqrt(input - 1)))
)
def hyperbolic_arc_cosine(input: Any) -> Any:
    """The inverse hyperbolic cosine of complex numbers."""
    # An imaginary part of -0 plus that of a complex 1 would give 0.
    above, below = (
        square_root(jax.lax.complex(jnp.real(input) + number, jnp.imag(input)))
        for number in (1, -1)
    )
    return jnp.log(input + above * below)
