"""A linear map and the cross-entropy of its outputs, in chunks to save memory."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array
from flambeau.core.kernels.single_precision import spread
from flambeau.core.operators.op import op
from flambeau.ops.common import loops
from flambeau.ops.matrices.linalg import one_dtype
from flambeau.ops.neural.losses.loss import (
    cross_entropy_of,
    likelihood_losses,
    reduced,
    scores_of,
    weighted_mean,
)

__all__: list[str] = []


@op(node="NllLossBackward0")
def linear_cross_entropy(
    input: Array,
    linear_weight: Array,
    target: Array,
    linear_bias: Array | None,
    weight: Array | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    chunk: int | None,
) -> Array:
    """The operator of `nn.functional.linear_cross_entropy`; see there.

    Args:
        chunk: The number of samples to compute at a time; for class indices of a
            single output each. ``None`` for all at once.
    """
    one_dtype("linear_cross_entropy", input, linear_weight, linear_bias)
    shape = (*input.shape[:-1], *linear_weight.shape[:-1])
    rows = linear_weight.reshape(-1, linear_weight.shape[-1])
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    if chunk is None:
        logits = _logits(input, rows, bias).reshape(shape)
        return cross_entropy_of(logits, target, weight, ignore_index, reduction, label_smoothing)
    single = input.ndim == 1
    samples, classes = (input[None], target[None]) if single else (input, target)
    losses, shares = _in_chunks(
        samples, classes, rows, bias, weight, ignore_index, label_smoothing, chunk
    )
    if reduction == "mean":
        return weighted_mean(losses, shares).astype(input.dtype)
    return reduced(losses[0] if single else losses, reduction).astype(input.dtype)


def _logits(input: Any, weight: Any, bias: Any) -> Any:
    product = jnp.matmul(input, weight.T)
    return product if bias is None else product + spread(bias, product.shape)


def _in_chunks(
    input: Any, target: Any, rows: Any, bias: Any, weight: Any, ignore_index: int,
    label_smoothing: float, chunk: int,
) -> tuple[Any, Any]:  # fmt: skip
    """The loss and the weight of each sample, with the logits of one chunk at a time."""
    count = input.shape[0]
    chunks = math.ceil(count / chunk)
    behind = chunks * chunk - count
    inputs = jnp.pad(input, ((0, behind), (0, 0))).reshape(chunks, chunk, -1)
    targets = jnp.pad(target, (0, behind), constant_values=ignore_index).reshape(chunks, chunk)

    @jax.checkpoint
    def losses_of(part: Any) -> Any:
        samples, classes = part
        scores = scores_of(_logits(samples, rows, bias), 1)
        return likelihood_losses(scores, classes, weight, ignore_index, label_smoothing, 1)

    losses, shares = loops.map(losses_of, (inputs, targets))
    return losses.reshape(-1)[:count], shares.reshape(-1)[:count]
