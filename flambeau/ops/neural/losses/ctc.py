"""Connectionist temporal classification: the likelihood of an unaligned sequence.

Graves et al., Connectionist Temporal Classification: Labelling Unsegmented Sequence Data with
Recurrent Neural Networks, 2006. The forward variables are computed with `lax.scan`, in logarithms.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import op
from flambeau.core.support import errors
from flambeau.ops.common import loops
from flambeau.ops.common.checks import needs_floating
from flambeau.ops.indices.placement import inside, nan_unless

__all__: list[str] = []


@op(node="CtcLossBackward0", keep_residuals=True)
def ctc_loss(
    log_probs: Array,
    targets: Array,
    input_lengths: Array,
    target_lengths: Array,
    longest: int,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Array:
    """The operator of `nn.functional.ctc_loss`, for targets of at most length ``longest``."""
    needs_floating("ctc_loss", log_probs)
    _, batch, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss(): blank={blank} is not one of the {classes} classes")
    fits = (target_lengths >= 0) & (input_lengths >= 0) & (input_lengths <= log_probs.shape[0])
    if targets.ndim == 1:
        fits &= jnp.sum(target_lengths) == targets.size
        targets = _padded(targets, target_lengths, longest)
    if targets.ndim != 2 or targets.shape[0] != batch:
        raise RuntimeError(
            f"ctc_loss(): targets of shape {list(targets.shape)} do not fit log_probs of shape "
            f"{list(log_probs.shape)}"
        )
    targets = targets[:, :longest]
    labels = _with_blanks(targets, blank)
    losses = -_log_likelihood(log_probs, labels, input_lengths, 2 * target_lengths + 1, blank)
    is_label = (targets >= 0) & (targets < classes) | _is_behind(targets, target_lengths)
    fits &= (target_lengths <= targets.shape[1]) & jnp.all(is_label, 1)
    losses = nan_unless(fits, losses)
    impossible = jnp.isinf(losses)
    if zero_infinity:
        losses = jnp.where(impossible, jnp.zeros_like(losses), losses)
    losses = losses + _softmax_share(log_probs, input_lengths, impossible)
    if reduction == "mean":
        return jnp.mean(losses / jnp.maximum(target_lengths, 1).astype(losses.dtype))
    if reduction == "sum":
        return jnp.sum(losses)
    if reduction != "none":
        raise errors.ValueError(f"reduction must be 'none', 'mean' or 'sum', got {reduction!r}")
    return losses


def _padded(targets: Any, lengths: Any, longest: int) -> Any:
    """Concatenated targets as ``(N, longest)``."""
    if not targets.size:
        return targets.reshape(lengths.size, 0)
    starts = jnp.cumsum(lengths) - lengths
    places = starts[:, None] + jnp.arange(longest)
    return jnp.take(targets, jnp.minimum(places, targets.size - 1), mode="clip")


def _is_behind(targets: Any, lengths: Any) -> Any:
    """Whether a position of padded targets is after the end of its target."""
    return jnp.arange(targets.shape[1]) >= lengths[:, None]


def _with_blanks(targets: Any, blank: int) -> Any:
    """``(N, 2 * S + 1)``: a blank before, between and after the labels."""
    batch, count = targets.shape
    blanks = jnp.full((batch, count + 1), blank, targets.dtype)
    pairs = jnp.stack([blanks[:, :-1], targets], 2).reshape(batch, 2 * count)
    return jnp.concatenate([pairs, blanks[:, -1:]], 1)


def _log_likelihood(
    log_probs: Any, labels: Any, input_lengths: Any, label_counts: Any, blank: int
) -> Any:
    """The log-probability of all alignments of ``labels``, by the forward recursion."""
    steps, batch, _ = log_probs.shape
    width = labels.shape[1]
    index = jnp.broadcast_to(inside(labels, log_probs.shape[2]), (steps, batch, width))
    emitted = jnp.take_along_axis(log_probs, index, 2)
    # A blank may be skipped, unless it separates equal labels; a label may never be.
    before = jnp.pad(labels, ((0, 0), (2, 0)), constant_values=blank)[:, :width]
    skips = labels != before
    position = jnp.arange(width)
    impossible = jnp.asarray(-jnp.inf, log_probs.dtype)
    alive = position < jnp.minimum(label_counts, 2)[:, None]
    start = jnp.where(alive, emitted[0], impossible)

    def advance(alpha: Any, step: Any) -> tuple[Any, None]:
        time, emission = step
        moved = _shifted(alpha, 1)
        skipped = jnp.where(skips, _shifted(alpha, 2), impossible)
        following = _log_sum(alpha, moved, skipped) + emission
        following = jnp.where(position < label_counts[:, None], following, impossible)
        return jnp.where((time < input_lengths)[:, None], following, alpha), None

    alpha, _ = loops.scan(advance, start, (jnp.arange(1, steps), emitted[1:]))
    last = jnp.take_along_axis(alpha, (label_counts - 1)[:, None], 1)[:, 0]
    previous = jnp.take_along_axis(alpha, jnp.maximum(label_counts - 2, 0)[:, None], 1)[:, 0]
    previous = jnp.where(label_counts > 1, previous, impossible)
    found = _log_sum(last, previous)
    # Without input only the empty target is possible.
    empty = jnp.where(label_counts == 1, jnp.zeros_like(found), impossible)
    return jnp.where(input_lengths > 0, found, empty)


def _shifted(alpha: Any, by: int) -> Any:
    padded = jnp.pad(alpha, ((0, 0), (by, 0)), constant_values=-jnp.inf)
    return padded[:, : alpha.shape[1]]


def _log_sum(*terms: Any) -> Any:
    """The logarithm of a sum of exponentials, without NaN gradients if all are zero."""
    stacked = jnp.stack(terms)
    greatest = lax.stop_gradient(jnp.max(stacked, 0))
    impossible = jnp.isneginf(greatest)
    shifted = stacked - jnp.where(impossible, 0, greatest)
    total = jnp.sum(jnp.exp(shifted), 0)
    safe = jnp.where(impossible, jnp.ones_like(total), total)
    return jnp.where(impossible, greatest, jnp.log(safe) + greatest)


def _softmax_share(log_probs: Any, input_lengths: Any, impossible: Any) -> Any:
    """Zeros, whose gradient is that of the softmax's normalization.

    PyTorch's gradient is with respect to the logits before the log-softmax, where the sum over the
    classes vanishes; through a log-softmax both are equal.
    """
    valid = jnp.arange(log_probs.shape[0])[:, None] < input_lengths
    counted = valid & ~impossible
    total = jnp.sum(jnp.where(counted, jnp.sum(jnp.exp(log_probs), 2), 0), 0)
    return total - jax.lax.stop_gradient(total)
