"""Dropout with a given mask."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import op

__all__: list[str] = []

# The negative of SELU's saturation value: Klambauer et al., https://arxiv.org/abs/1706.02515
_SELU_FLOOR = 1.7580993408473766


def _check_result_type(name: str, input: Any) -> None:
    if not jnp.issubdtype(input.dtype, jnp.inexact):
        raise RuntimeError(
            f"{name}(): the result is floating point, the input {input.dtype}; convert it first"
        )


def _either(mask: Array, kept: float, dropped: float, like: Array) -> Array:
    return jnp.where(mask, jnp.asarray(kept, like.dtype), jnp.asarray(dropped, like.dtype))


@op(node="MulBackward0", linear=True)
def keep_scaled(input: Array, mask: Array, p: float) -> Array:
    """The elements kept by ``mask`` divided by ``1 - p``, zeros elsewhere."""
    _check_result_type("dropout", input)
    scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
    # A product rather than a select, so that NaN propagates even if it is dropped.
    return input * _either(mask, scale, 0.0, input)


@op(node="AddBackward0", linear=True)
def keep_self_normalizing(input: Array, mask: Array, p: float) -> Array:
    """The elements kept by ``mask``, SELU's floor elsewhere, with unchanged mean and variance."""
    _check_result_type("alpha_dropout", input)
    if p == 1:
        return input * 0
    scale = 1.0 / math.sqrt((_SELU_FLOOR**2 * p + 1) * (1 - p))
    floor = _SELU_FLOOR * scale
    shift = _either(mask, floor * p, floor * p - floor, input)
    return input * _either(mask, scale, 0.0, input) + shift
