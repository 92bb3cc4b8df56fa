"""The cross entropy of a linear map, a part of the batch at a time, so that no score is kept."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.dtype import dtype as DType
from flambeau.core.op import Array, op
from flambeau.ops.loss import reduced

__all__: list[str] = []


@op
def chunked_linear_cross_entropy(
    input: Array,
    linear_weight: Array,
    target: Array,
    linear_bias: Array | None,
    weight: Array | None,
    ignore_index: int,
    reduction: str,
    chunk: int,
    accumulate: DType,
) -> Array:
    """`functional.cross_entropy` of ``input @ linear_weight.T + linear_bias``.

    Scores exist for ``chunk`` samples at a time only, also while gradients are computed, for which
    they are computed again.

    Args:
        input: ``(N, in_features)``.
        linear_weight: ``(C, in_features)``.
        target: Class indices, ``(N,)``.
        linear_bias: ``(C,)``.
        weight: ``(C,)``, a factor for each class.
        ignore_index: A target that counts for nothing.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        chunk: How many samples are computed at a time.
        accumulate: The dtype of the scores and losses.
    """
    count = input.shape[0]
    chunks = -(-count // chunk)
    missing = chunks * chunk - count
    rows = jnp.pad(input, ((0, missing), (0, 0))).reshape(chunks, chunk, -1)
    targets = jnp.pad(target, (0, missing), constant_values=ignore_index).reshape(chunks, chunk)

    @jax.checkpoint
    def losses_of(part: tuple[Any, Any]) -> Any:
        some_rows, classes = part
        scores = jnp.matmul(some_rows, linear_weight.T, preferred_element_type=accumulate.numpy)
        if linear_bias is not None:
            scores = scores + linear_bias
        log_probabilities = jax.nn.log_softmax(scores, -1)
        index = jnp.where(classes == ignore_index, 0, classes)[:, None]
        picked = jnp.take_along_axis(log_probabilities, index, -1, mode="fill")
        return -picked.squeeze(-1)

    shares = (target != ignore_index).astype(accumulate.numpy)
    if weight is not None:
        index = jnp.where(target == ignore_index, 0, target)
        shares = shares * jnp.take(weight, index, mode="fill").astype(accumulate.numpy)
    losses = jax.lax.map(losses_of, (rows, targets)).reshape(-1)[:count]
    losses = jnp.where(shares == 0, 0, losses * shares)
    if reduction == "mean":
        return (jnp.sum(losses) / jnp.sum(shares)).astype(input.dtype)
    return reduced(losses, reduction).astype(input.dtype)
