"""Pooling to an output of a given size; see `flambeau.nn.modules.pooling`."""

from __future__ import annotations

from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.common_types import OutputSizes, Pooled
from flambeau.nn.module import Module

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d",
]  # fmt: skip


class _AdaptiveMaxPoolNd(Module):
    """The base of adaptive maximum pooling; see `AdaptiveMaxPool2d` for the arguments."""

    __constants__: list[str] = ["output_size", "return_indices"]
    _repr_attributes = ("output_size",)

    def __init__(self, output_size: OutputSizes, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The maxima of ``output_size`` windows; see `AdaptiveMaxPool2d`.

    Shapes: ``(N, C, L)`` or ``(C, L)`` to ``(N, C, output_size)`` or ``(C, output_size)``.
    """

    def forward(self, input: Tensor) -> Pooled:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The maxima of windows, one for each element of the output.

    Shapes: ``(N, C, H, W)`` or ``(C, H, W)`` to ``(N, C, *output_size)`` or ``(C, *output_size)``.

    Args:
        output_size: Size of the output; ``None`` keeps the input's size.
        return_indices: Also return the positions of the maxima, for `MaxUnpool2d`.
    """

    def forward(self, input: Tensor) -> Pooled:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The maxima of ``output_size`` windows; see `AdaptiveMaxPool2d`.

    Shapes: ``(N, C, D, H, W)`` or ``(C, D, H, W)`` to the same dimensions.
    """

    def forward(self, input: Tensor) -> Pooled:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _AdaptiveAvgPoolNd(Module):
    """The base of adaptive average pooling; see `AdaptiveAvgPool2d` for the arguments."""

    __constants__: list[str] = ["output_size"]
    _repr_attributes = ("output_size",)

    def __init__(self, output_size: OutputSizes) -> None:
        super().__init__()
        self.output_size = output_size


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The means of ``output_size`` windows; see `AdaptiveAvgPool2d`.

    Shapes: ``(N, C, L)`` or ``(C, L)`` to ``(N, C, output_size)`` or ``(C, output_size)``.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The means of windows, one for each element of the output.

    Shapes: ``(N, C, H, W)`` or ``(C, H, W)`` to ``(N, C, *output_size)`` or ``(C, *output_size)``.

    Args:
        output_size: Size of the output; ``None`` keeps the input's size.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The means of ``output_size`` windows; see `AdaptiveAvgPool2d`.

    Shapes: ``(N, C, D, H, W)`` or ``(C, D, H, W)`` to the same dimensions.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)
