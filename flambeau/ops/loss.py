"""Losses: distances between predictions and targets, averaged, summed or as they are."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.op import Array, Operand, op

__all__: list[str] = []

REDUCTIONS = ("none", "mean", "sum")


def reduced(losses: Any, reduction: str) -> Any:
    """The mean or the sum of ``losses``, or all of them.

    Raises:
        ValueError: ``reduction`` is neither ``"none"``, ``"mean"`` nor ``"sum"``.
    """
    if reduction == "mean":
        return jnp.mean(losses)
    if reduction == "sum":
        return jnp.sum(losses)
    if reduction == "none":
        return losses
    raise ValueError(f"reduction must be 'none', 'mean' or 'sum', got {reduction!r}")


# Classification


@op(node="NllLossBackward0")
def cross_entropy(
    input: Array, target: Array, weight: Array | None = None, ignore_index: int = -100,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Array:  # fmt: skip
    """The negative log-likelihood of the target classes under the softmax of ``input``.

    Args:
        input: Logits, ``(C,)``, ``(N, C)`` or ``(N, C, ...)``.
        target: Class indices, shaped as ``input`` without its class dimension; or probabilities,
            shaped as ``input``.
        weight: ``(C,)``, a factor for each class; the mean is then weighted too.
        ignore_index: A target that counts for nothing.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        label_smoothing: The share, from 0 to 1, of the uniform distribution in the target.

    Raises:
        RuntimeError: ``label_smoothing`` is out of range, or the shapes do not match.
        ValueError: The batch sizes differ, or ``reduction`` is unknown.
    """
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(
            f"cross_entropy(): label_smoothing must be from 0 to 1, got {label_smoothing}"
        )
    if not input.ndim >= 1:
        raise RuntimeError("cross_entropy(): input must have at least 1 dimension")
    axis = min(input.ndim - 1, 1)
    _check_class_weight("cross_entropy", weight, input.shape[axis])
    log_probabilities = jax.nn.log_softmax(input, axis)
    if target.shape == input.shape and jnp.issubdtype(target.dtype, jnp.floating):
        return _soft_cross_entropy(
            log_probabilities, target, weight, reduction, label_smoothing, axis
        )
    return _negative_log_likelihood(
        "cross_entropy", log_probabilities, target, weight, ignore_index, reduction,
        label_smoothing, axis,
    )  # fmt: skip


def _check_class_weight(name: str, weight: Any, classes: int) -> None:
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(
            f"{name}(): weight must have one element for each of {classes} classes, "
            f"got shape {list(weight.shape)}"
        )


def _soft_cross_entropy(
    log_probabilities: Any, target: Any, weight: Any, reduction: str, label_smoothing: float,
    axis: int,
) -> Any:  # fmt: skip
    classes = log_probabilities.shape[axis]
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    losses = -log_probabilities * target
    if weight is not None:
        losses = losses * weight.reshape((-1,) + (1,) * (losses.ndim - axis - 1))
    if reduction == "mean":
        return jnp.sum(losses) / (losses.size // max(classes, 1))
    return reduced(jnp.sum(losses, axis), reduction)


def _negative_log_likelihood(
    name: str, log_probabilities: Any, target: Any, weight: Any, ignore_index: int, reduction: str,
    label_smoothing: float, axis: int,
) -> Any:  # fmt: skip
    _check_target(name, log_probabilities, target, axis)
    classes = log_probabilities.shape[axis]
    counts = target != ignore_index
    index = jnp.expand_dims(jnp.where(counts, target, 0), axis)
    picked = jnp.take_along_axis(log_probabilities, index, axis, mode="fill")
    losses = -jnp.squeeze(picked, axis)
    factor = None
    if weight is not None:
        factor = jnp.take(weight, jnp.squeeze(index, axis), mode="fill")
        losses = losses * factor
    if label_smoothing:
        smooth = log_probabilities
        if weight is not None:
            smooth = smooth * weight.reshape((-1,) + (1,) * (smooth.ndim - axis - 1))
        spread = -jnp.sum(smooth, axis)
        losses = (1 - label_smoothing) * losses + label_smoothing / classes * spread
    losses = jnp.where(counts, losses, jnp.zeros_like(losses))
    if reduction != "mean":
        return reduced(losses, reduction)
    shares = counts.astype(losses.dtype) if factor is None else jnp.where(counts, factor, 0)
    return jnp.sum(losses) / jnp.sum(shares).astype(losses.dtype)


def _check_target(name: str, input: Any, target: Any, axis: int) -> None:
    expected = input.shape[:axis] + input.shape[axis + 1 :]
    if not jnp.issubdtype(target.dtype, jnp.integer):
        raise RuntimeError(
            f"{name}(): class indices must be integers, got {target.dtype} of shape "
            f"{list(target.shape)} for an input of shape {list(input.shape)}"
        )
    if target.shape == expected:
        return
    if axis == 1 and (target.ndim == 0 or target.shape[0] != input.shape[0]):
        raise ValueError(
            f"{name}(): input of shape {list(input.shape)} and target of shape "
            f"{list(target.shape)} differ in batch size"
        )
    raise RuntimeError(
        f"{name}(): an input of shape {list(input.shape)} needs a target of shape "
        f"{list(expected)}, got {list(target.shape)}"
    )


@op(node="NllLossBackward0")
def nll_loss(input: Array, target: Array, weight: Array | None = None, ignore_index: int = -100,
             reduction: str = "mean") -> Array:  # fmt: skip
    """The negative of the log-probabilities in ``input`` of the target classes.

    See `cross_entropy` for the arguments; ``input`` holds log-probabilities here.

    Raises:
        RuntimeError: The shapes do not match.
        ValueError: The batch sizes differ, or ``reduction`` is unknown.
    """
    if input.ndim < 1:
        raise RuntimeError("nll_loss(): input must have at least 1 dimension")
    axis = min(input.ndim - 1, 1)
    _check_class_weight("nll_loss", weight, input.shape[axis])
    return _negative_log_likelihood(
        "nll_loss", input, target, weight, ignore_index, reduction, 0.0, axis
    )


# Regression


def _weighted(losses: Any, weight: Any, reduction: str) -> Any:
    """`reduced`, where a weight, if given, multiplies the losses and divides their mean."""
    if weight is None:
        return reduced(losses, reduction)
    losses = losses * weight
    if reduction == "mean":
        return jnp.sum(losses) / jnp.sum(jnp.broadcast_to(weight, losses.shape))
    return reduced(losses, reduction)


@op(promote="type")
def mse_loss(input: Operand, target: Operand, reduction: str = "mean",
             weight: Array | None = None) -> Array:  # fmt: skip
    """``(input - target) ** 2``."""
    return _weighted(jnp.square(input - target), weight, reduction)


@op(promote="type")
def l1_loss(input: Operand, target: Operand, reduction: str = "mean",
            weight: Array | None = None) -> Array:  # fmt: skip
    """``abs(input - target)``."""
    return _weighted(jnp.abs(input - target), weight, reduction)
