"""The base of all losses: reductions, and a weight per class."""

from __future__ import annotations

from flambeau.core.values.tensor import Tensor
from flambeau.nn.functional._reductions import resolved
from flambeau.nn.module import Module


class _Loss(Module):
    """The base of all losses.

    Args:
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    reduction: str

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.reduction = resolved(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """The base of losses with a weight, which is a buffer.

    Args:
        weight: A factor for each class or element.
        size_average, reduce: Deprecated; see ``reduction``.
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
