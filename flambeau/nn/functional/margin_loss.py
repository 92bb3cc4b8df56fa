"""Losses with a margin."""

from __future__ import annotations

from collections.abc import Callable

from flambeau.core.operators.misfits import require_tensors
from flambeau.core.operators.overrides import asks
from flambeau.core.support.dtype import bfloat16, float16
from flambeau.core.values.tensor import Tensor
from flambeau.nn.functional._reductions import resolved
from flambeau.ops.common.values import outside
from flambeau.ops.neural.losses import margin_loss as ops
from flambeau.ops.neural.losses.distance import pairwise_distance

__all__ = [
    "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "soft_margin_loss",
    "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip


@asks
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``x`` where the target is 1, ``max(0, margin - x)`` where it is -1.

    Args:
        input: Distances, any shape.
        target: 1 or -1.
        margin: The minimum distance of pairs with target -1.
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """
    reduction = resolved(size_average, reduce, reduction)
    target = _labels("hinge_embedding_loss", target)
    if target.dtype is not input.dtype and target.dtype in (float16, bfloat16):
        # The result has the dtype of `input`, also of a 0-d one.
        target = target.float()
    return ops.hinge_embedding_loss(input, target, margin, reduction)


def _labels(name: str, target: Tensor) -> Tensor:
    """A target that is only compared with, and so takes no gradient."""
    try:
        return target.detach() if target.requires_grad else target
    except AttributeError:
        require_tensors(name, target=target)
        raise


@asks
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``log(1 + exp(-t * x))`` for targets of 1 and -1.

    Raises:
        RuntimeError: ``target`` requires grad: the loss is for labels, which have no gradient.
    """
    if target.requires_grad:
        raise RuntimeError(
            "soft_margin_loss() has no gradient with respect to target, which requires grad: "
            "give target.detach()"
        )
    reduction = resolved(size_average, reduce, reduction)
    return ops.soft_margin_loss(input, target, reduction)


@asks
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, margin - t * (x1 - x2))``: the first should be greater where the target is 1.

    Raises:
        RuntimeError: The tensors differ in their number of dimensions.
    """
    reduction = resolved(size_average, reduce, reduction)
    return ops.margin_ranking_loss(input1, input2, target, margin, reduction)


@asks
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``1 - cos(x1, x2)`` where the target is 1, ``max(0, cos(x1, x2) - margin)`` where it is -1.

    Args:
        input1: ``(N, D)`` or ``(D,)``.
        input2: As ``input1``.
        target: ``(N,)`` or 0-d, 1 or -1.
        margin: From -1 to 1.
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        RuntimeError: The shapes do not match.
    """
    reduction = resolved(size_average, reduce, reduction)
    target = _labels("cosine_embedding_loss", target)
    return ops.cosine_embedding_loss(input1, input2, target, margin, reduction)


@asks
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of ``max(0, margin - x[t] + x[i]) ** p``, for ``i`` other than ``t``.

    Args:
        input: ``(N, C)`` or ``(C,)``.
        target: ``(N,)`` or 0-d, class indices.
        p: 1 or 2.
        margin: The margin between the target's score and the others.
        weight: ``(C,)``, a factor for each target class.
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ValueError: ``p`` is neither 1 nor 2.
        RuntimeError: The shapes do not match, or there is no such class.
    """
    reduction = resolved(size_average, reduce, reduction)
    if weight is not None and weight.dim() != 1:
        raise ValueError(
            f"multi_margin_loss(): weight must be a vector, got shape {list(weight.shape)}"
        )
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss(): p must be 1 or 2, got {p!r}")
    _check_classes("multi_margin_loss", input, target, lowest=0)
    return ops.multi_margin_loss(input, target, p, margin, weight, reduction)


@asks
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of ``max(0, 1 - (x[j] - x[i]))``, ``j`` a target and ``i`` none.

    Args:
        input: ``(N, C)`` or ``(C,)``.
        target: As ``input``: class indices; entries from the first -1 on are ignored.
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        RuntimeError: The shapes do not match, or there is no such class.
    """
    reduction = resolved(size_average, reduce, reduction)
    _check_classes("multilabel_margin_loss", input, target, lowest=-1)
    return ops.multilabel_margin_loss(input, target, reduction)


def _check_classes(name: str, input: Tensor, target: Tensor, lowest: int) -> None:
    classes = input.shape[-1] if input.shape else 1
    elements = outside(target, lowest, classes) if isinstance(target, Tensor) else None
    if elements is not None:
        raise RuntimeError(
            f"{name}(): targets must be from {lowest} to {classes - 1} for an input of shape "
            f"{list(input.shape)}, got {elements.min()} to {elements.max()}"
        )


@asks
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over the last dimension of the cross-entropies of independent labels.

    ``-(t * log(sigmoid(x)) + (1 - t) * log(sigmoid(-x))) * weight``.
    """
    reduction = resolved(size_average, reduce, reduction)
    return ops.multilabel_soft_margin_loss(input, target, weight, reduction)


@asks
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)``.

    Args:
        anchor: ``(N, D)`` or ``(D,)``.
        positive: The samples that should be close to the anchor, of the same shape.
        negative: The samples that should be far from it, of the same shape.
        margin: The minimum difference of the distances; positive.
        p: The order of the norm; see `pairwise_distance`.
        eps: Added to the differences.
        swap: Use the distance from negative to positive where it is less.
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ValueError: ``margin`` is not positive.
        RuntimeError: The tensors differ in their number of dimensions.
    """
    reduction = resolved(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"triplet_margin_loss(): margin must be positive, got {margin}")
    return ops.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction)


@asks
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with a custom distance.

    Args:
        anchor: ``(N, ...)``.
        positive: As ``anchor``.
        negative: As ``anchor``.
        distance_function: The distance of two such tensors; by default `pairwise_distance`.
        margin: The minimum difference of the distances; positive.
        swap: Use the distance from negative to positive where it is less.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ValueError: ``margin`` is not positive, or ``reduction`` is unknown.
        RuntimeError: The tensors differ in their number of dimensions.
    """
    if margin <= 0:
        raise ValueError(
            f"triplet_margin_with_distance_loss(): margin must be positive, got {margin}"
        )
    if not anchor.dim() == positive.dim() == negative.dim():
        shapes = [list(each.shape) for each in (anchor, positive, negative)]
        raise RuntimeError(
            "triplet_margin_with_distance_loss(): the tensors must have as many dimensions, "
            f"got shapes {shapes}"
        )
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    apart = distance(positive, negative) if swap else None
    return ops.triplet_of_distances(near, far, apart, margin, reduction)
