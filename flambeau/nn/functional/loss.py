"""Losses for classes and distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.operators.misfits import require_tensors
from flambeau.core.operators.overrides import asks
from flambeau.core.support.tracebacks import trimmed
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.nn.functional._reductions import resolved
from flambeau.ops.common.values import check_below, concrete_values
from flambeau.ops.neural.losses import loss as ops
from flambeau.ops.neural.losses.linear_cross_entropy import (
    linear_cross_entropy as _linear_cross_entropy,
)
from flambeau.ops.neural.losses.loss import REDUCTIONS

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy",
    "gaussian_nll_loss", "kl_div", "linear_cross_entropy", "nll_loss", "poisson_nll_loss",
]  # fmt: skip


@asks
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
        target: Class indices, shaped like ``input`` without its class dimension; or probabilities,
            shaped like ``input``.
        weight: ``(C,)``, a factor for each class; the mean is then weighted too.
        size_average: Deprecated; see ``reduction``.
        ignore_index: A target value that is ignored.
        reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        label_smoothing: The share, from 0 to 1, of the uniform distribution in the target.

    Raises:
        IndexError: A target is not a class. In compiled functions, and on other devices than the
            CPU, its loss is NaN instead.
        RuntimeError: ``label_smoothing`` is out of range, or the shapes do not match.
        ValueError: The batch sizes differ, or ``reduction`` is unknown.
    """
    if size_average is not None or reduce is not None:
        reduction = resolved(size_average, reduce, reduction)
    _check_classes("cross_entropy", input, target, ignore_index)
    return ops.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


@asks
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """`cross_entropy` of the logits ``linear(input, linear_weight, linear_bias)``.

    Args:
        input: ``(N, in_features)`` or ``(in_features,)``.
        linear_weight: ``(C, in_features)``, or ``(C, ..., in_features)`` for several outputs per
            sample.
        target: Class indices, ``(N, ...)``; or probabilities, ``(N, C, ...)``.
        linear_bias: ``(C, ...)``.
        weight: ``(C,)``, a factor for each class; the mean is then weighted too.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        ignore_index: A target value that is ignored, by default -100.
        label_smoothing: The share, from 0 to 1, of the uniform distribution in the target.
        options: `nn.LinearCrossEntropyOptions`: compute the logits for a part of the batch at a
            time, forward and backward, so that they are never all in memory.

    Raises:
        RuntimeError: Shapes do not match, or ``ignore_index`` is given for probabilities.
        IndexError: A target is not a class.
    """
    if input.dim() not in (1, 2) or linear_weight.dim() < 2:
        raise RuntimeError(
            "linear_cross_entropy() takes an input of 1 or 2 dimensions and a weight of at least "
            f"2, got shapes {list(input.shape)} and {list(linear_weight.shape)}"
        )
    features, scores = input.shape[-1], linear_weight.shape[:-1]
    if linear_weight.shape[-1] != features:
        raise RuntimeError(
            f"linear_cross_entropy(): the input has {features} features, the weight of shape "
            f"{list(linear_weight.shape)} takes {linear_weight.shape[-1]}"
        )
    if linear_bias is not None and linear_bias.shape != scores:
        raise RuntimeError(
            f"linear_cross_entropy(): linear_bias must have shape {list(scores)}, "
            f"got {list(linear_bias.shape)}"
        )
    if len(scores) > 1 and input.dim() == 1:
        raise RuntimeError(
            f"linear_cross_entropy(): a weight of shape {list(linear_weight.shape)} needs a batch "
            f"of inputs, got shape {list(input.shape)}"
        )
    soft = target.shape == (*input.shape[:-1], *scores)
    if soft and ignore_index is not None:
        raise RuntimeError("linear_cross_entropy(): ignore_index is for class indices")
    ignore_index = -100 if ignore_index is None else ignore_index
    if not soft:
        check_below("linear_cross_entropy", "target", target, scores[0], ignore_index)
    chunk = None
    if options is not None and not _can_chunk(scores, soft, reduction, label_smoothing):
        warn(
            "linear_cross_entropy(): options are ignored, since they are for class indices of one "
            "output per sample, without label_smoothing",
        )
    elif options is not None:
        count = input.shape[0] if input.dim() == 2 else 1
        chunk = options._chunk_for(count, features, scores[0], input)
    return _linear_cross_entropy(
        input, linear_weight, target, linear_bias, weight, reduction, ignore_index,
        label_smoothing, chunk,
    )  # fmt: skip


def _can_chunk(scores: Sequence[int], soft: bool, reduction: str, label_smoothing: float) -> bool:
    return len(scores) == 1 and not soft and label_smoothing == 0 and reduction in REDUCTIONS


@asks
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
    reduction = resolved(size_average, reduce, reduction)
    _check_classes("nll_loss", input, target, ignore_index)
    return ops.nll_loss(input, target, weight, ignore_index, reduction)


@asks
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``-(t * log(x) + (1 - t) * log(1 - x))``, the logarithms bounded below by -100.

    Args:
        input: Probabilities, any shape.
        target: Probabilities, of the same shape.
        weight: A factor for each loss, broadcast.
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ValueError: The shapes differ, or ``reduction`` is unknown.
        RuntimeError: An element of ``input`` or ``target`` is not a probability, or ``weight`` does
            not broadcast to their shape.
    """
    reduction = resolved(size_average, reduce, reduction)
    if input.shape == getattr(target, "shape", None):
        _check_probabilities("input", input, "; binary_cross_entropy_with_logits() takes logits")
        _check_probabilities("target", target, "")
    return ops.binary_cross_entropy(input, target, weight, reduction)


@trimmed
def _check_probabilities(argument: str, tensor: Tensor, advice: str) -> None:
    elements = concrete_values(tensor)
    if elements is not None and not ((elements >= 0) & (elements <= 1)).all():
        raise RuntimeError(
            f"binary_cross_entropy(): the elements of {argument} must be from 0 to 1, got "
            f"{elements.min()} to {elements.max()}{advice}"
        )


@asks
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """`binary_cross_entropy` of the sigmoid of ``input``, without overflow.

    Args:
        input: Logits, any shape.
        target: Probabilities, of the same shape.
        weight: A factor for each loss, broadcast.
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        pos_weight: A factor for the positive part, broadcast.

    Raises:
        ValueError: The shapes differ, or ``reduction`` is unknown.
        RuntimeError: ``weight`` or ``pos_weight`` does not broadcast to the shape of ``input``.
    """
    reduction = resolved(size_average, reduce, reduction)
    return ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction)


@asks
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """``t * (log(t) - x)``, the divergence of ``exp(x)`` from ``t``.

    Args:
        input: Log-probabilities.
        target: Probabilities, or with ``log_target`` their logarithms.
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"batchmean"`` divides the sum by the size of the first dimension, as the
            mathematical definition has it; ``"mean"``, ``"sum"`` or ``"none"``.
        log_target: See ``target``.
    """
    if size_average is not None or reduce is not None:
        reduction = resolved(size_average, reduce, reduction)
    elif reduction == "mean":
        warn(
            "kl_div() with reduction='mean' divides by the number of elements, not of samples; "
            "reduction='batchmean' gives the divergence",
        )
    return ops.kl_div(input, target, reduction, log_target)


@asks
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood of counts, without the constant ``log(t!)``.

    Args:
        input: The logarithm of the rate, or without ``log_input`` the rate.
        target: Counts.
        log_input: Whether the loss is ``exp(x) - t * x`` rather than ``x - t * log(x + eps)``.
        full: Add Stirling's approximation of ``log(t!)`` where ``t > 1``.
        size_average: Deprecated; see ``reduction``.
        eps: Added to a rate of 0.
        reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ValueError: ``reduction`` is unknown.
    """
    reduction = resolved(size_average, reduce, reduction)
    return ops.poisson_nll_loss(input, target, log_input, full, eps, reduction)


@asks
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """``(log(var) + (x - t) ** 2 / var) / 2``, the negative log-likelihood of a normal target.

    Args:
        input: Means.
        target: Samples.
        var: Variances: shaped like ``input``, without its last dimension, or with one dimension of
            size 1; or a number.
        full: Add the constant ``log(2 * pi) / 2``.
        eps: The least variance.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ValueError: ``var`` is negative or of another shape, or ``reduction`` is unknown.
        RuntimeError: ``var`` holds integers.
    """
    if isinstance(var, Tensor) and not var.is_floating_point():
        raise RuntimeError(f"gaussian_nll_loss(): var must be floating point, got {var.dtype}")
    lowest = _lowest(var) if isinstance(var, Tensor) else var
    if isinstance(var, Tensor) and var.shape != input.shape:
        if var.shape == input.shape[:-1]:
            var = var.unsqueeze(-1)
        elif not _differs_by_one(input.shape, var.shape):
            raise ValueError(
                f"gaussian_nll_loss(): var of shape {list(var.shape)} does not fit an input of "
                f"shape {list(input.shape)}"
            )
    if lowest < 0:
        raise ValueError(f"gaussian_nll_loss(): var must not be negative, got {lowest}")
    return ops.gaussian_nll_loss(input, target, var, full, eps, reduction)


def _differs_by_one(shape: Sequence[int], other: Sequence[int]) -> bool:
    """Whether ``other`` equals ``shape`` with one dimension set to 1."""
    if len(shape) != len(other):
        return False
    return sum(theirs for mine, theirs in zip(shape, other, strict=True) if mine != theirs) == 1


@trimmed
def _check_classes(name: str, input: Tensor, target: Tensor, ignore_index: int) -> None:
    try:
        shape, _ = input.shape, target.shape
    except AttributeError:
        require_tensors(name, input=input, target=target)
        raise
    # Report a different batch size before other errors.
    if shape and (len(shape) == 1 or target.shape[:1] == shape[:1]):
        check_below(name, "target", target, shape[1 if len(shape) > 1 else 0], ignore_index)


def _lowest(tensor: Tensor) -> float:
    """The least element if it is known, else 0."""
    elements = concrete_values(tensor)
    return 0.0 if elements is None else float(elements.min(initial=0.0))
