"""Layers that zero a random part of their input in training, and do nothing in evaluation.

Dropout: https://arxiv.org/abs/1207.0580. Whole channels: https://arxiv.org/abs/1411.4280.
Alpha dropout: https://arxiv.org/abs/1706.02515.
"""

from __future__ import annotations

from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.module import Module

__all__ = [
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
]


class _DropoutNd(Module):
    """The base of all dropout layers.

    Args:
        p: The probability of dropping.
        inplace: Whether to overwrite the input.

    Raises:
        ValueError: ``p`` is not between 0 and 1.
    """

    __constants__: list[str] = ["p", "inplace"]
    _repr_attributes = ("p", "inplace")

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"the dropout probability p must be between 0 and 1, got {p}")
        self.p = p
        self.inplace = inplace


class Dropout(_DropoutNd):
    """Zeroes each element with probability ``p``, and scales the others by ``1 / (1 - p)``.

    Shapes: any to the same.

    Args:
        p: The probability of dropping.
        inplace: Whether to overwrite the input.

    Raises:
        ValueError: ``p`` is not between 0 and 1.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """`Dropout` of whole channels.

    Shapes: ``(N, C, L)`` or ``(C, L)`` to the same.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """`Dropout` of whole channels.

    Shapes: ``(N, C, H, W)`` to the same; three dimensions are interpreted as ``(N, C, L)``, as by
    `Dropout1d`.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """`Dropout` of whole channels.

    Shapes: ``(N, C, D, H, W)`` or ``(C, D, H, W)`` to the same.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout to the value that `SELU` saturates at; it keeps mean 0 and variance 1.

    Shapes: any to the same.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels.

    Shapes: ``(N, C, *)`` to the same.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
