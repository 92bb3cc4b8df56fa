"""Attention by cuDNN, in one kernel that never stores the scores."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from flambeau.core.devices.compiler import cuda_capability, is_portable

__all__: list[str] = []

_LEAST_CAPABILITY = (8, 0)
_LARGEST_HEAD = 128

#: Whether programs traced in this context may call it; see `flambeau.nn.attention`.
enabled: Any = jax.make_user_context(True)


def takes(query: Any, key: Any, value: Any, mask: Any, kept: Any, is_causal: bool) -> bool:
    """Whether `or_else` can use cuDNN for these arguments.

    Args:
        query: ``(..., H, L, E)``, like ``key`` and ``value``.
        key: As for attention.
        value: As for attention.
        mask: The keys that queries attend to; cuDNN does not support additive masks.
        kept: The weights that dropout keeps, if there is dropout.
        is_causal: A query attends to the keys up to its own position.
    """
    if is_portable():
        return False
    half = query.dtype in (jnp.float16, jnp.bfloat16) and query.size > 0 and key.size > 0
    head = query.shape[-1] == value.shape[-1] <= _LARGEST_HEAD and query.shape[-1] % 8 == 0
    # For odd lengths, cuDNN has no gradients with a mask.
    lengths = query.shape[-2], key.shape[-2]
    seen = mask is None or (mask.dtype == jnp.bool_ and not any(each % 2 for each in lengths))
    seen = seen and (not is_causal or lengths[0] == lengths[1])
    fits = half and head and seen and kept is None and query.ndim >= 3
    return fits and enabled.value and cuda_capability() >= _LEAST_CAPABILITY


def or_else(
    plain: Any, query: Any, key: Any, value: Any, mask: Any, scale: Any, is_causal: bool
) -> Any:
    """Attention by cuDNN if the program is for an NVIDIA GPU, otherwise ``plain()``.

    Args:
        plain: Attention of ``(query, key, value, mask)`` by XLA's operators.
        query: ``(..., H, L, E)``; all three have one batch.
        key: ``(..., H, S, E)``.
        value: ``(..., H, S, E)``.
        mask: Broadcasts to ``(..., H, L, S)``: true where a query attends to a key.
        scale: The factor of the scores.
        is_causal: A query attends to the keys up to its own position.
    """
    by_cudnn = functools.partial(_by_cudnn, scale=scale, is_causal=is_causal)
    return lax.platform_dependent(query, key, value, mask, cuda=by_cudnn, default=plain)


def _by_cudnn(query: Any, key: Any, value: Any, mask: Any, *, scale: Any, is_causal: bool) -> Any:
    if not isinstance(scale, float):
        # cuDNN's scale is a constant of the program, but this one may change from call to call.
        query, scale = (query * scale).astype(query.dtype), 1.0
    batch = query.shape[:-2]

    def heads_third(array: Any) -> Any:
        return jnp.moveaxis(array.reshape(math.prod(batch[:-1]), *array.shape[-3:]), 1, 2)

    if mask is not None:
        mask = jnp.broadcast_to(mask, (*batch, query.shape[-2], key.shape[-2]))
        mask = mask.reshape(math.prod(batch[:-1]), *mask.shape[-3:])
    found = jax.nn.dot_product_attention(
        *map(heads_third, (query, key, value)),
        mask=mask,
        scale=scale,
        is_causal=is_causal,
        implementation="cudnn",
    )
    found = jnp.moveaxis(found, 2, 1)
    if mask is not None:
        # A query without keys would get the mean of all values.
        found = jnp.where(jnp.any(mask, -1, keepdims=True), found, jnp.zeros_like(found))
    return found.reshape(*batch, *found.shape[-2:])
