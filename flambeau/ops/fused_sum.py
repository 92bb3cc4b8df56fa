"""Sums that XLA computes on a CPU together with what they are sums of."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from flambeau.core.compiler import only_cpu


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def fused_sum(array: Any, axis: int) -> Any:
    """``jnp.sum(array, axis)`` without storing what ``array`` is computed to.

    XLA hands sums to a library, for which their terms must be in memory. It knows them by their
    addition, which here is no addition to look at. Its own loop, which computes the terms on the
    way, is fast along any axis but the last.

    Args:
        array: What is summed.
        axis: Not the last one.
    """
    if not only_cpu():
        return jnp.sum(array, axis)
    return lax.reduce(array, np.zeros((), array.dtype), lambda a, b: a - (-b), (axis,))


@fused_sum.defjvp
def _fused_sum_jvp(axis: int, primals: Any, tangents: Any) -> Any:
    return fused_sum(primals[0], axis), jnp.sum(tangents[0], axis)
