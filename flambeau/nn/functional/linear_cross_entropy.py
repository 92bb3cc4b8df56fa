"""A linear map to class scores and their cross entropy, in one."""

from __future__ import annotations

import math
import warnings
from typing import Any

from flambeau.core import dtype as dtypes
from flambeau.core.tensor import Tensor
from flambeau.nn.functional.loss import cross_entropy
from flambeau.nn.functional.products import linear
from flambeau.ops.chunked_loss import chunked_linear_cross_entropy

__all__ = ["linear_cross_entropy"]


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
    """``cross_entropy(linear(input, linear_weight, linear_bias), target)``.

    Args:
        input: ``(N, in_features)`` or ``(in_features,)``.
        linear_weight: ``(C, in_features)``, or ``(C, *out_features, in_features)`` for several
            targets per sample, which takes a batch.
        target: Class indices, ``(N, *out_features)``, or probabilities,
            ``(N, C, *out_features)``; without ``N`` if the input has none.
        linear_bias: ``(C, *out_features)``.
        weight: ``(C,)``, a factor for each class.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        ignore_index: A class that counts for nothing, by default -100.
        label_smoothing: The share, from 0 to 1, of the uniform distribution in the target.
        options: A `flambeau.nn.LinearCrossEntropyOptions`: compute the scores for a part of the
            batch at a time. Only for one target per sample, given as a class of int64, without
            smoothing; otherwise it is ignored, with a warning.

    Raises:
        RuntimeError: The shapes do not match, or ``ignore_index`` is given with probabilities.
    """
    scores = _shape_of_scores(input, linear_weight, linear_bias)
    if target.shape == scores and ignore_index is not None:
        raise RuntimeError(
            "linear_cross_entropy(): ignore_index is a class, but the target of shape "
            f"{list(target.shape)} holds probabilities"
        )
    ignored = -100 if ignore_index is None else ignore_index
    if options is not None:
        if linear_weight.dim() == 2 and target.dtype is dtypes.int64 and not label_smoothing:
            return _in_chunks(
                input, linear_weight, target, linear_bias, weight, reduction, ignored, options
            )
        warnings.warn(
            "linear_cross_entropy(): options are ignored; they need one target per sample, given "
            f"as a class of int64, and label_smoothing=0, got a linear_weight of shape "
            f"{list(linear_weight.shape)}, a target of {target.dtype} and "
            f"label_smoothing={label_smoothing}",
            stacklevel=2,
        )
    classes = math.prod(linear_weight.shape[:-1])
    bias = None if linear_bias is None else linear_bias.reshape(classes)
    logits = linear(input, linear_weight.reshape(classes, input.shape[-1]), bias).reshape(scores)
    return cross_entropy(
        logits,
        target,
        weight,
        ignore_index=ignored,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def _shape_of_scores(
    input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None
) -> tuple[int, ...]:
    if input.dim() not in (1, 2):
        raise RuntimeError(
            "linear_cross_entropy() takes an input of shape (N, in_features) or (in_features,), "
            f"got {list(input.shape)}"
        )
    if linear_weight.dim() < 2 or linear_weight.shape[-1] != input.shape[-1]:
        raise RuntimeError(
            "linear_cross_entropy(): linear_weight must have shape (C, *out_features, "
            f"in_features), got {list(linear_weight.shape)} for an input of shape "
            f"{list(input.shape)}"
        )
    classes = linear_weight.shape[:-1]
    if linear_bias is not None and linear_bias.shape != classes:
        raise RuntimeError(
            f"linear_cross_entropy(): linear_bias must have shape {list(classes)}, "
            f"got {list(linear_bias.shape)}"
        )
    if len(classes) > 1 and input.dim() == 1:
        raise RuntimeError(
            f"linear_cross_entropy(): a linear_weight of shape {list(linear_weight.shape)} needs "
            f"a batch, got an input of shape {list(input.shape)}"
        )
    return (*input.shape[:-1], *classes)


def _in_chunks(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    options: Any,
) -> Any:
    batched = input.dim() == 2
    rows = input if batched else input.unsqueeze(0)
    targets = target if batched else target.unsqueeze(0)
    if targets.shape != rows.shape[:1]:
        raise RuntimeError(
            f"linear_cross_entropy(): an input of shape {list(input.shape)} needs a target of "
            f"shape {list(input.shape[:-1])}, got {list(target.shape)}"
        )
    count, features = rows.shape
    losses = chunked_linear_cross_entropy(
        rows,
        linear_weight,
        targets,
        linear_bias,
        weight,
        ignore_index,
        reduction,
        options._chunk_for(count, features, linear_weight.shape[0], input),
        options._accumulator_for(input.dtype),
    )
    return losses if batched or reduction != "none" else losses.squeeze(0)
