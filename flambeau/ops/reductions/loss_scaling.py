"""The operators that scale a loss against underflow."""

from __future__ import annotations

import functools

import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array, Arrays, Number
from flambeau.core.operators.op import op

__all__: list[str] = []


@op(differentiable=False)
def unscaled(gradients: Arrays, scale: Array) -> Array:
    """Whether any element is infinite or NaN, as 1.0 or 0.0, and the gradients over scale."""
    finite = functools.reduce(
        jnp.logical_and, (jnp.all(jnp.isfinite(each)) for each in gradients), jnp.asarray(True)
    )
    inverse = 1.0 / scale.astype(jnp.float64)
    parts = (each * inverse.astype(jnp.float32).astype(each.dtype) for each in gradients)
    return 1.0 - finite.astype(jnp.float32), *parts


@op(differentiable=False)
def next_scale(
    scale: Array,
    count: Array,
    found: Array,
    growth: Array | Number,
    backoff: Array | Number,
    interval: Array | Number,
) -> Array:
    """The scale and the count of steps since it changed, for the next step.

    Args:
        scale: The scale, 0-d.
        count: The number of consecutive steps with finite gradients, 0-d.
        found: Not 0 if this step had infinite or NaN gradients, 0-d.
        growth: The factor of the scale after ``interval`` steps in a row.
        backoff: The factor of the scale after a step that was not finite.
        interval: The number of steps before the scale grows.
    """
    bad = found > 0
    grows = ~bad & (count + 1 >= interval)
    larger = scale * jnp.asarray(growth, scale.dtype)
    # An infinite scale would never become finite again.
    kept = jnp.where(grows & jnp.isfinite(larger), larger, scale)
    following = jnp.where(bad, scale * jnp.asarray(backoff, scale.dtype), kept)
    return following, jnp.where(bad | grows, 0, count + 1).astype(count.dtype)
