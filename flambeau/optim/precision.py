"""The precision of a step: real numbers, in single precision at least.

PyTorch's scalars are Python numbers: they have double precision, and do not affect the dtype of
arrays that they are combined with. `number` converts an array to such a scalar, so that a rule
reads like its formula, and 1 − β₂ᵗ is computed in double precision for every parameter. Half
precision is computed in single precision and rounded once, at the end of the step, as in PyTorch's
fused implementations.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

_COMPUTED_IN = {jnp.dtype("float16"): jnp.float32, jnp.dtype("bfloat16"): jnp.float32}


def number(array: Any) -> Any:
    """A 0-d array that acts like a Python number: in double precision, and weakly typed."""
    return jnp.full_like(0.0, array)


def unpacked(array: Any) -> Any:
    """The array that a step computes with: complex numbers as pairs of real ones."""
    if jnp.iscomplexobj(array):
        return jnp.stack([array.real, array.imag], -1)
    return array.astype(_COMPUTED_IN.get(array.dtype, array.dtype))


def packed(result: Any, before: Any) -> Any:
    """``result`` in the dtype of ``before``, which it replaces."""
    if jnp.iscomplexobj(before):
        result = jax.lax.complex(result[..., 0], result[..., 1])
    return result.astype(before.dtype)
