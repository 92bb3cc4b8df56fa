"""Losses for regression."""

from __future__ import annotations

from flambeau.core.operators.overrides import asks
from flambeau.core.values.tensor import Tensor
from flambeau.nn.functional._reductions import resolved, warn_of_broadcast
from flambeau.ops.neural.losses import regression_loss as ops

__all__ = ["huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss"]


@asks
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``(x - t) ** 2``.

    Args:
        input: Predictions.
        target: The target values; another shape broadcasts, with a warning.
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: A factor for each loss; the mean is then weighted too.

    Raises:
        ValueError: ``reduction`` is unknown.
    """
    if size_average is not None or reduce is not None:
        reduction = resolved(size_average, reduce, reduction)
    if input.shape != target.shape:
        warn_of_broadcast(input, target)
    return ops.mse_loss(input, target, reduction, weight)


@asks
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``abs(x - t)``; see `mse_loss` for the arguments."""
    reduction = resolved(size_average, reduce, reduction)
    if input.shape != target.shape:
        warn_of_broadcast(input, target)
    return ops.l1_loss(input, target, reduction, weight)


@asks
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """``d ** 2 / 2 / beta`` for differences below ``beta``, ``abs(d) - beta / 2`` beyond.

    See `mse_loss` for the arguments.

    Raises:
        RuntimeError: ``beta`` is negative.
        ValueError: ``reduction`` is unknown.
    """
    reduction = resolved(size_average, reduce, reduction)
    if input.shape != target.shape:
        warn_of_broadcast(input, target)
    return ops.smooth_l1_loss(input, target, reduction, beta)


@asks
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """``d ** 2 / 2`` for differences below ``delta``, ``delta * (abs(d) - delta / 2)`` beyond.

    See `mse_loss` for the arguments.

    Raises:
        RuntimeError: ``delta`` is not positive.
        ValueError: ``reduction`` is unknown.
    """
    if input.shape != target.shape:
        warn_of_broadcast(input, target)
    return ops.huber_loss(input, target, reduction, delta, weight)
