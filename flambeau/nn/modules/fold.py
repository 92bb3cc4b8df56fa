"""Sliding blocks of an image: extracted, and summed back."""

from __future__ import annotations

from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.common_types import Sizes
from flambeau.nn.module import Module

__all__ = ["Fold", "Unfold"]


class Fold(Module):
    """Sums blocks into an image, adding where they overlap: the transpose of `Unfold`.

    Shapes: ``(N, C * product of kernel_size, L)`` or without ``N`` to ``(N, C, *output_size)`` or
    without ``N``, where ``L`` is the number of blocks that the image has.

    Args:
        output_size: Height and width of the image; a number means both, as in the following.
        kernel_size: Size of a block.
        dilation: Step between the elements of a block.
        padding: Zeros on both sides of the image, which are cropped from the result.
        stride: Step from block to block.
    """

    __constants__: list[str] = ["output_size", "kernel_size", "dilation", "padding", "stride"]
    _repr_attributes = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(
        self,
        output_size: Sizes,
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )


class Unfold(Module):
    """The sliding blocks of an image, each as a column.

    Shapes: ``(N, C, H, W)`` or ``(C, H, W)`` to ``(N, C * product of kernel_size, L)`` or without
    ``N``, where ``L`` is the number of blocks.

    Args:
        kernel_size: Size of a block; a number means both height and width, as in the following.
        dilation: Step between the elements of a block.
        padding: Zeros on both sides of the image.
        stride: Step from block to block.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Unfold((2, 3))(flambeau.zeros(2, 5, 3, 4)).shape
    flambeau.Size([2, 30, 4])
    """

    __constants__: list[str] = ["kernel_size", "dilation", "padding", "stride"]
    _repr_attributes = ("kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)
