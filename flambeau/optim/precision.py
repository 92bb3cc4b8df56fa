"""In which numbers a step is computed: real ones, in single precision at least.

PyTorch's scalars are Python numbers: of double precision, and without a say in the precision of the
arrays that they meet. `number` makes such a scalar of an array, so that a rule is written as its
formula stands, and 1 − β₂ᵗ comes out in double precision whatever the parameter is. Half precision
is computed in single precision and rounded once, where the step ends, as PyTorch's fused
implementations do.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

_COMPUTED_IN = {jnp.dtype("float16"): jnp.float32, jnp.dtype("bfloat16"): jnp.float32}


def number(array: Any) -> Any:
    """A 0-d array that counts as a Python number: in double precision, and weakly typed."""
    return jnp.full_like(0.0, array)


def unpacked(array: Any) -> Any:
    """The array that a step computes with: for complex numbers, the pairs of their parts."""
    if jnp.iscomplexobj(array):
        return jnp.stack([array.real, array.imag], -1)
    return array.astype(_COMPUTED_IN.get(array.dtype, array.dtype))


def packed(result: Any, before: Any) -> Any:
    """``result`` in the dtype of ``before``, whose new value it is."""
    if jnp.iscomplexobj(before):
        result = jax.lax.complex(result[..., 0], result[..., 1])
    return result.astype(before.dtype)
