"""Connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau.core.operators.overrides import asks
from flambeau.core.support.dtype import int64
from flambeau.core.support.modes import modes
from flambeau.core.values.convert import make, to_numpy
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.values import outside
from flambeau.ops.elementwise.selection import where
from flambeau.ops.factories.ranges import arange
from flambeau.ops.neural.losses import ctc as ops

__all__ = ["ctc_loss"]

Lengths = Tensor | Sequence[int] | int


@asks
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """The negative log-likelihood of target sequences, summed over their alignments.

    Args:
        log_probs: ``(T, N, C)`` or ``(T, C)``, the outputs of a log-softmax.
        targets: ``(N, S)``, or ``(sum(target_lengths),)``, concatenated.
        input_lengths: ``(N,)``, at most T.
        target_lengths: ``(N,)``, at most S.
        blank: The class that means no label.
        reduction: ``"mean"`` divides by the target lengths first; ``"sum"`` or ``"none"``.
        zero_infinity: Set the loss to 0 for targets that are too long for their input.

    Raises:
        RuntimeError: Shapes or lengths do not match, or ``blank`` or a label is not a class. In
            compiled functions, wrong lengths and labels make the loss NaN instead.
        ValueError: ``reduction`` is unknown.
    """
    unbatched = log_probs.dim() == 2
    if unbatched:
        log_probs = log_probs.unsqueeze(1)
    if log_probs.dim() != 3:
        raise RuntimeError(
            f"ctc_loss() takes log_probs of shape (T, N, C) or (T, C), got {list(log_probs.shape)}"
        )
    steps, batch, _ = log_probs.shape
    concatenated = targets.dim() == 1
    room = targets.numel() if concatenated else targets.size(-1)
    _check_lengths("input_lengths", input_lengths, batch, steps)
    longest = _check_lengths("target_lengths", target_lengths, batch, room)
    if longest is None or not concatenated:
        longest = room
    elif targets.numel() != (total := int(to_numpy(target_lengths).sum())):
        raise RuntimeError(
            f"ctc_loss(): targets one after the other must have sum(target_lengths) = {total} "
            f"elements, got {targets.numel()}"
        )
    _check_labels(targets, target_lengths, log_probs.shape[2])
    losses = ops.ctc_loss(
        log_probs,
        targets,
        _as_tensor(input_lengths, log_probs),
        _as_tensor(target_lengths, log_probs),
        longest,
        blank,
        reduction,
        zero_infinity,
    )
    return losses.squeeze(0) if unbatched and reduction == "none" else losses


def _check_lengths(name: str, lengths: Lengths, batch: int, limit: int) -> int | None:
    """The greatest length, if it is known."""
    if _unknown(lengths):
        return None
    found = to_numpy(lengths).reshape(-1)
    if found.dtype.kind not in "iu" and len(found):
        raise RuntimeError(f"ctc_loss(): {name} must be integers, got {found.dtype}")
    if len(found) != batch:
        raise RuntimeError(
            f"ctc_loss(): {name} must have one number for each of {batch} samples, got {len(found)}"
        )
    if len(found) and not 0 <= found.min() <= found.max() <= limit:
        raise RuntimeError(f"ctc_loss(): {name} must be from 0 to {limit}, got {found.tolist()}")
    return int(found.max(initial=0))


def _check_labels(targets: Tensor, target_lengths: Lengths, classes: int) -> None:
    """Raise RuntimeError if a label is not a class, if labels and lengths are known."""
    if targets.is_meta or (isinstance(target_lengths, Tensor) and target_lengths.is_meta):
        return
    if targets.dim() == 2:
        ends = _as_tensor(target_lengths, targets).to(targets.device).unsqueeze(1)
        targets = where(arange(targets.shape[1], device=targets.device) < ends, targets, 0)
    labels = outside(targets, 0, classes)
    if labels is not None:
        raise RuntimeError(
            f"ctc_loss(): targets must be classes from 0 to {classes - 1}, got {labels.min()} to "
            f"{labels.max()}"
        )


def _unknown(lengths: Lengths) -> bool:
    return isinstance(lengths, Tensor) and (modes.trace is not None or lengths.is_meta)


def _as_tensor(lengths: Lengths, like: Tensor) -> Tensor:
    if isinstance(lengths, Tensor):
        return lengths.reshape(-1)
    return make(to_numpy(lengths, int64).reshape(-1), like.device)
