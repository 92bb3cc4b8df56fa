"""Values that XLA's algebraic simplifier does not see through.

The simplifier rewrites expressions by the laws of real numbers, even if floating point numbers
violate them: ``x * mask`` becomes a select, which gives 0 for NaN times 0; ``x * x >= 0`` becomes
true, for NaN too; ``x / y / y`` divides by ``y * y``, which overflows; ``log(x ** y)`` gives a
number if ``x ** y`` is NaN; ``log(rsqrt(-0.))`` is infinity; ``x + 1e8 - 1e8`` is ``x``. Compiled
functions would differ from eager ones.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def opaque(array: Any) -> Any:
    """``array`` unchanged but hidden from the simplifier, in single or double precision.

    `lax.reduce_precision` to the same precision takes no instruction, and the simplifier has no
    rule for it. Half precision is computed in single precision on CPUs, where the reduction would
    take time.
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
    # JAX would also reduce cotangents: in a long sum, once for each term.
    return _reduced(*primals), *tangents
