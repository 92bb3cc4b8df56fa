"""Rearranging channels into pixels, and back (https://arxiv.org/abs/1609.05158)."""

from __future__ import annotations

from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.module import Module

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """Rearranges channels into a finer image.

    Shapes: ``(*, C * r**2, H, W)`` to ``(*, C, H * r, W * r)``.

    Args:
        upscale_factor: The factor ``r``.
    """

    __constants__: list[str] = ["upscale_factor"]
    _repr_attributes = ("upscale_factor",)

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Module):
    """Rearranges pixels into channels; the inverse of `PixelShuffle`.

    Shapes: ``(*, C, H * r, W * r)`` to ``(*, C * r**2, H, W)``.

    Args:
        downscale_factor: The factor ``r``.
    """

    __constants__: list[str] = ["downscale_factor"]
    _repr_attributes = ("downscale_factor",)

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)
