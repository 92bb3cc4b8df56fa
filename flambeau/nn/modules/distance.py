"""Distances and similarities of pairs of vectors."""

from __future__ import annotations

from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The norm of ``x1 - x2 + eps`` along the last dimension.

    Shapes: two of ``(N, D)`` or ``(D,)``, or shapes that broadcast, to the same without ``D``.

    Args:
        p: The order of the norm.
        eps: Added to the difference, to keep it from 0.
        keepdim: Keep the last dimension, with size 1.
    """

    __constants__: list[str] = ["norm", "eps", "keepdim"]

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle: ``x1 · x2 / max(|x1| * |x2|, eps)`` along a dimension.

    Shapes: two of ``(*, D, *)``, or shapes that broadcast, to the same without ``D``.

    Args:
        dim: The dimension of the vectors.
        eps: The least divisor.
    """

    __constants__: list[str] = ["dim", "eps"]

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
