"""Channels in another order (https://arxiv.org/abs/1707.01083)."""

from __future__ import annotations

from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.module import Module

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """The channels of all groups interleaved: ``(g, C/g)`` transposed to ``(C/g, g)``.

    Shapes: ``(N, C, *)`` to the same.

    Args:
        groups: The number of groups ``g``, which divides ``C``.
    """

    __constants__: list[str] = ["groups"]
    _repr_attributes = ("groups",)

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)
