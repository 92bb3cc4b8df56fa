"""Losses with a margin between matching and non-matching pairs.

See `flambeau.nn.modules.loss`.
"""

from __future__ import annotations

from collections.abc import Callable

from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.distance import PairwiseDistance
from flambeau.nn.modules.loss_base import _Loss, _WeightedLoss

__all__ = [
    "CosineEmbeddingLoss",
    "HingeEmbeddingLoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class HingeEmbeddingLoss(_Loss):
    """A distance ``x`` where the target is 1, ``max(0, margin - x)`` where it is -1.

    Shapes: any, twice the same.

    Args:
        margin: The minimum distance of pairs with target -1.
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    __constants__: list[str] = ["margin", "reduction"]

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-y * x))`` for targets ``y`` of 1 and -1.

    Shapes: any, twice the same.

    Args:
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    __constants__: list[str] = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """The mean over classes ``i`` other than ``y`` of ``max(0, margin - x[y] + x[i]) ** p``.

    Shapes: ``(N, C)`` or ``(C,)``, and targets without ``C``.

    Args:
        p: 1 or 2.
        margin: The minimum difference between the target's score and the others.
        weight: ``(C,)``, a factor for each class of the target.
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ValueError: ``p`` has another value, or ``weight`` is not a vector.
    """

    __constants__: list[str] = ["p", "margin", "reduction"]

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss has p of 1 or 2, got {p}")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"weight must be a vector, got shape {list(weight.shape)}")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
        )


class MultiLabelMarginLoss(_Loss):
    """The sum over targets ``y`` and other classes ``i`` of ``max(0, 1 - x[y] + x[i]) / C``.

    Shapes: ``(N, C)`` or ``(C,)``, twice; a target lists its classes, followed by -1.

    Args:
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    __constants__: list[str] = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of the cross entropy of the sigmoid of each score.

    ``-(y * log(sigmoid(x)) + (1 - y) * log(1 - sigmoid(x)))``.

    Shapes: ``(N, C)`` or ``(C,)``, twice; a target is 1 for its classes and 0 for others.

    Args:
        weight: ``(C,)``, a factor for each class.
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    __constants__: list[str] = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )


class _MarginLoss(_Loss):
    """The base of losses of pairs with a margin."""

    __constants__: list[str] = ["margin", "reduction"]

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class CosineEmbeddingLoss(_MarginLoss):
    """``1 - cos(x1, x2)`` where the target is 1, ``max(0, cos(x1, x2) - margin)`` where it is -1.

    Shapes: twice ``(N, D)`` or ``(D,)``, and targets ``(N,)`` or ``()``.

    Args:
        margin: The maximum cosine of pairs with target -1, from -1 to 1.
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MarginRankingLoss(_MarginLoss):
    """``max(0, -y * (x1 - x2) + margin)``: ranks ``x1`` above ``x2`` if ``y`` is 1, below if -1.

    Shapes: any, three times the same.

    Args:
        margin: The minimum difference.
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """``max(0, d(a, p) - d(a, n) + margin)``: an anchor closer to a positive than to a negative.

    See http://www.bmva.org/bmvc/2016/papers/paper119/index.html.

    Shapes: three times ``(N, D)`` or ``(D,)``.

    Args:
        margin: The minimum difference of the distances; positive.
        p: The order of the norm of the distance ``d``.
        eps: Added to differences, to keep them from 0.
        swap: Use the distance between negative and positive if it is less than that between
            negative and anchor.
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ValueError: ``margin`` is not positive.
    """

    __constants__: list[str] = ["margin", "p", "eps", "swap", "reduction"]

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        _check_margin(margin)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with a custom distance.

    Shapes: three times ``(N, *)``, as the distance accepts.

    Args:
        distance_function: Takes two tensors; by default a `PairwiseDistance`.
        margin: The minimum difference of the distances; positive.
        swap: Use the distance between negative and positive if it is less than that between
            negative and anchor.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ValueError: ``margin`` is not positive.
    """

    __constants__: list[str] = ["margin", "swap", "reduction"]

    distance_function: Callable[[Tensor, Tensor], Tensor]

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        _check_margin(margin)
        self.distance_function = distance_function or PairwiseDistance()
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


def _check_margin(margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"margin must be positive, got {margin}")
