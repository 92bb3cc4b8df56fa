"""Results that XLA's algebraic simplifier does not look through.

The simplifier rewrites expressions by the laws of real numbers, also where floating point numbers
do not obey them: ``x * mask`` is a choice, which is 0 where 0 times NaN is NaN; ``x * x >= 0`` is
true, of NaN too; ``x / y / y`` divides by ``y * y``, which overflows; ``log(x ** y)`` is a number
where ``x ** y`` is NaN; ``log(rsqrt(-0.))`` is infinity; ``x + 1e8 - 1e8`` is ``x``. Compiled
functions would not be what eager ones are.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def opaque(array: Any) -> Any:
    """``array`` as it is, where it is of single or double precision.

    A reduction to its own precision takes no instruction, and no law is known of it. Half precision
    is computed in single precision on CPUs, where the reduction would take time.
    """
    if not jnp.issubdtype(array.dtype, jnp.floating) or array.dtype.itemsize < 4:
        return array
    return _reduced(array)


@jax.custom_jvp
def _reduced(array: Any) -> Any:
    precision = jnp.finfo(array.dtype)
    return lax.reduce_precision(array, precision.nexp, precision.nmant)


@_reduced.defjvp
def _(primals: Any, tangents: Any) -> Any:
    # JAX would reduce cotangents again, in a long sum as often as it has terms.
    return _reduced(*primals), *tangents
