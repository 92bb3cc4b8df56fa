"""Losses, with the reductions that PyTorch names and those that it has deprecated."""

from __future__ import annotations

import warnings

from flambeau.core.tensor import Tensor
from flambeau.ops import loss as ops

__all__ = ["cross_entropy", "l1_loss", "mse_loss", "nll_loss"]


def legacy_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that the deprecated flags mean, or ``reduction`` where neither is given."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        found = "none"
    else:
        found = "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce are deprecated; pass reduction={found!r} instead", stacklevel=3
    )
    return found


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The negative log-likelihood of the target classes under the softmax of ``input``.

    Args:
        input: Logits, ``(C,)``, ``(N, C)`` or ``(N, C, ...)``.
        target: Class indices, shaped as ``input`` without its class dimension; or probabilities,
            shaped as ``input``.
        weight: ``(C,)``, a factor for each class; the mean is then weighted too.
        size_average: Deprecated; see ``reduction``.
        ignore_index: A target that counts for nothing.
        reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        label_smoothing: The share, from 0 to 1, of the uniform distribution in the target.

    Raises:
        RuntimeError: ``label_smoothing`` is out of range, or the shapes do not match.
        ValueError: The batch sizes differ, or ``reduction`` is unknown.
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    return ops.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The negative of the log-probabilities in ``input`` of the target classes.

    See `cross_entropy` for the arguments; ``input`` holds log-probabilities here.
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    return ops.nll_loss(input, target, weight, ignore_index, reduction)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The squared differences of ``input`` and ``target``, times ``weight`` if given.

    Warns where the shapes differ and broadcast, which is seldom meant.
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    if input.shape != target.shape:
        warn_of_broadcast(input, target)
    return ops.mse_loss(input, target, reduction, weight)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The absolute differences of ``input`` and ``target``, times ``weight`` if given.

    Warns where the shapes differ and broadcast, which is seldom meant.
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    if input.shape != target.shape:
        warn_of_broadcast(input, target)
    return ops.l1_loss(input, target, reduction, weight)


def warn_of_broadcast(input: Tensor, target: Tensor) -> None:
    """Warn that input and target differ in shape."""
    warnings.warn(
        f"a target of shape {list(target.shape)} and an input of shape {list(input.shape)} "
        "differ, and will be broadcast; make them the same",
        stacklevel=3,
    )
