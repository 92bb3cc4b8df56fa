"""Losses: one number, or one per sample, for how far an input is from its target.

With ``reduction="mean"`` or ``"sum"`` a loss is a scalar; with ``"none"`` it has one element per
element or sample. The older flags ``size_average`` and ``reduce`` are deprecated.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.functional._reductions import resolved
from flambeau.nn.module import Module

__all__ = ["CrossEntropyLoss", "L1Loss", "MSELoss", "NLLLoss"]


class _Loss(Module):
    """What all losses share.

    Args:
        size_average: Deprecated; see ``reduction``.
        reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    __constants__ = ["reduction"]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.reduction = resolved(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """What the losses with a weight per class share; it is a buffer.

    Args:
        weight: ``(C,)``, a factor for each class.
        size_average: Deprecated; see ``reduction``.
        reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """``abs(x - y)``.

    Shapes: any, twice the same.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """``abs(input - target)``, reduced."""
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """``(x - y) ** 2``.

    Shapes: any, twice the same.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """``(input - target) ** 2``, reduced."""
        return F.mse_loss(input, target, reduction=self.reduction)


class NLLLoss(_WeightedLoss):
    """Minus the log-probability of the target class.

    Shapes: ``(N, C)``, ``(C,)`` or ``(N, C, *)``, and targets without ``C``.

    Args:
        weight: ``(C,)``, a factor for each class; the mean is then weighted too.
        size_average: Deprecated.
        ignore_index: A target that counts for nothing.
        reduce: Deprecated.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    __constants__ = ["ignore_index", "reduction"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Minus the elements of ``input``, log-probabilities, that ``target`` names."""
        return F.nll_loss(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class CrossEntropyLoss(_WeightedLoss):
    """Minus the log-probability of the target class under the softmax of the input.

    Shapes: ``(N, C)``, ``(C,)`` or ``(N, C, *)``, and targets without ``C``; or probabilities as
    targets, with ``C``.

    Args:
        weight: ``(C,)``, a factor for each class; the mean is then weighted too.
        size_average: Deprecated.
        ignore_index: A target that counts for nothing.
        reduce: Deprecated.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        label_smoothing: The share, from 0 to 1, of the uniform distribution in the target.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.CrossEntropyLoss()(flambeau.zeros(2, 5), flambeau.tensor([1, 3]))
    tensor(1.6094)
    """

    __constants__ = ["ignore_index", "reduction", "label_smoothing"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Minus the log-probabilities of the targets under the softmax of ``input``."""
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )
