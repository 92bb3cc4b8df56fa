"""Losses of regression: functions of the difference of prediction and target."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from flambeau.core.op import Array, Operand, op
from flambeau.ops.checks import floating
from flambeau.ops.derivatives import magnitude
from flambeau.ops.neural.loss import reduced

__all__: list[str] = []


def _times(losses: Any, weight: Any) -> Any:
    if weight.shape != losses.shape:
        raise ValueError(
            f"a weight must have the shape of the losses, {list(losses.shape)}, got "
            f"{list(weight.shape)}"
        )
    return losses * weight


def _weighted(losses: Any, weight: Any, reduction: str) -> Any:
    """`reduced`, where a weight, if given, multiplies the losses and divides their mean.

    Raises:
        ValueError: The weight has not the shape of the losses.
    """
    if weight is None:
        return reduced(losses, reduction)
    losses = _times(losses, weight)
    if reduction == "mean":
        losses, weight = floating(losses, weight)
        return jnp.sum(losses) / jnp.sum(weight)
    return reduced(losses, reduction)


@op(promote="type")
def mse_loss(
    input: Operand, target: Operand, reduction: str = "mean", weight: Array | None = None
) -> Array:
    """``(input - target) ** 2``."""
    return _weighted(jnp.square(input - target), weight, reduction)


@op(promote="type", node="MeanBackward0")
def l1_loss(
    input: Operand, target: Operand, reduction: str = "mean", weight: Array | None = None
) -> Array:
    """``abs(input - target)``."""
    return _weighted(magnitude(input - target), weight, reduction)


@op(promote="type")
def smooth_l1_loss(
    input: Operand, target: Operand, reduction: str = "mean", beta: float = 1.0
) -> Array:
    """``d ** 2 / 2 / beta`` for differences below ``beta``, ``abs(d) - beta / 2`` beyond.

    Raises:
        RuntimeError: ``beta`` is negative.
    """
    if not beta >= 0:
        raise RuntimeError(f"smooth_l1_loss(): beta must not be negative, got {beta}")
    difference = input - target
    size = magnitude(difference)
    if beta == 0:
        return reduced(size, reduction)
    is_near = size < beta
    near = 0.5 / beta * _square_where(is_near, difference)
    return reduced(jnp.where(is_near, near, size - 0.5 * beta), reduction)


def _square_where(chosen: Any, difference: Any) -> Any:
    """Squares; 0 where not chosen, so that the gradient of an infinity there is no NaN."""
    return jnp.square(jnp.where(chosen, difference, jnp.zeros_like(difference)))


@op(promote="type")
def huber_loss(
    input: Operand,
    target: Operand,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Array | None = None,
) -> Array:
    """``d ** 2 / 2`` for differences below ``delta``, ``delta * (abs(d) - delta / 2)`` beyond.

    Raises:
        RuntimeError: ``delta`` is not positive.
    """
    if not delta > 0:
        raise RuntimeError(f"huber_loss(): delta must be positive, got {delta}")
    difference = input - target
    size = magnitude(difference)
    is_near = size <= delta
    losses = 0.5 * _square_where(is_near, difference)
    if not math.isinf(delta):
        losses = jnp.where(is_near, losses, delta * (size - 0.5 * delta))
    # Here the mean is not weighted, unlike those above: PyTorch's choice.
    return reduced(losses if weight is None else _times(losses, weight), reduction)
