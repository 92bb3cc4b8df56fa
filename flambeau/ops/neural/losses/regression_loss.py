"""Losses for regression: functions of the difference between prediction and target."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array, Operand
from flambeau.core.operators.op import op
from flambeau.core.support import errors
from flambeau.ops.common.checks import floating, needs_floating
from flambeau.ops.common.derivatives import magnitude
from flambeau.ops.neural.losses.loss import reduced

__all__: list[str] = []


def _times(losses: Any, weight: Any) -> Any:
    if weight.shape != losses.shape:
        raise errors.ValueError(
            f"a weight must have the shape of the losses, {list(losses.shape)}, got "
            f"{list(weight.shape)}"
        )
    return losses * weight


def _weighted(losses: Any, weight: Any, reduction: str) -> Any:
    """`reduced` with an optional weight, which multiplies the losses and divides their mean.

    Raises:
        ValueError: The weight does not have the shape of the losses.
    """
    if weight is None:
        return reduced(losses, reduction)
    losses = _times(losses, weight)
    if reduction == "mean":
        losses, weight = floating(losses, weight)
        return jnp.sum(losses) / jnp.sum(weight)
    return reduced(losses, reduction)


@op(widen=True, promote="type")
def mse_loss(
    input: Operand, target: Operand, reduction: str = "mean", weight: Array | None = None
) -> Array:
    """``(input - target) ** 2``."""
    return _weighted(jnp.square(input - target), weight, reduction)


@op(widen=True, promote="type", node="MeanBackward0")
def l1_loss(
    input: Operand, target: Operand, reduction: str = "mean", weight: Array | None = None
) -> Array:
    """``abs(input - target)``."""
    return _weighted(magnitude(input - target), weight, reduction)


@op(widen=True, promote="type")
def smooth_l1_loss(
    input: Operand, target: Operand, reduction: str = "mean", beta: float = 1.0
) -> Array:
    """The operator of `nn.functional.smooth_l1_loss`; see there."""
    if not beta >= 0:
        raise RuntimeError(f"smooth_l1_loss(): beta must not be negative, got {beta}")
    needs_floating("smooth_l1_loss", input)
    difference = input - target
    if beta == 0:
        return reduced(magnitude(difference), reduction)
    return reduced(_huber(difference, beta) / beta, reduction)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _huber(difference: Any, delta: float) -> Any:
    """``d ** 2 / 2`` up to ``delta``, linear beyond."""
    size = jnp.abs(difference)
    near = 0.5 * jnp.square(difference)
    # NaN selects the first branch, and with an infinite delta everything does.
    return jnp.where(size >= delta, delta * (size - 0.5 * delta), near)


@_huber.defjvp
def _huber_jvp(delta: float, primals: Any, tangents: Any) -> Any:
    (difference,), (tangent,) = primals, tangents
    # NaN stays NaN, while its sign would be 0.
    slope = jnp.where(jnp.abs(difference) >= delta, delta * jnp.sign(difference), difference)
    return _huber(difference, delta), tangent * slope


@op(widen=True)
def huber_loss(
    input: Operand,
    target: Operand,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Array | None = None,
) -> Array:
    """The operator of `nn.functional.huber_loss`; see there."""
    if not delta > 0:
        raise RuntimeError(f"huber_loss(): delta must be positive, got {delta}")
    needs_floating("huber_loss", input)
    losses = _huber(input - target, delta).astype(input.dtype)
    # Unlike above, the mean is not weighted: PyTorch's choice.
    return reduced(losses if weight is None else _times(losses, weight), reduction)
