"""Pooling: each window of the input becomes one element.

Sizes named here may be one number for all spatial dimensions or one per dimension. A spatial size
``L`` becomes ``(L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``, rounded up
instead of down with ``ceil_mode``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.common_types import Args, Kwargs, Pooled, Sizes
from flambeau.nn.module import Module
from flambeau.nn.modules.adaptive_pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    _AdaptiveAvgPoolNd,  # noqa: F401 - users look for it here
    _AdaptiveMaxPoolNd,  # noqa: F401
)
from flambeau.nn.modules.utils import PerDimension, _pair, _single, _triple

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip


class _MaxPoolNd(Module):
    """The base of maximum pooling; see `MaxPool2d` for the arguments."""

    __constants__: list[str] = [
        "kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode",
    ]  # fmt: skip
    _repr_attributes = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride: Sizes = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def _arguments(self) -> Args:
        return (
            self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
            self.return_indices,
        )  # fmt: skip


class MaxPool1d(_MaxPoolNd):
    """The maximum of each window; see `MaxPool2d`.

    Shapes: ``(N, C, L)`` or ``(C, L)`` to ``(N, C, L_out)`` or ``(C, L_out)``.
    """

    def forward(self, input: Tensor) -> Pooled:
        return F.max_pool1d(input, *self._arguments())


class MaxPool2d(_MaxPoolNd):
    """The maximum of each window.

    Shapes: ``(N, C, H, W)`` or ``(C, H, W)`` to ``(N, C, H_out, W_out)`` or ``(C, H_out, W_out)``.

    Args:
        kernel_size: Size of a window.
        stride: Step from window to window, by default ``kernel_size``.
        padding: Minus infinities on both sides, at most half of ``kernel_size``.
        dilation: Step between the elements of a window.
        return_indices: Also return the positions of the maxima, for `MaxUnpool2d`.
        ceil_mode: Keep a last window that extends beyond the edge.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.MaxPool2d(2)(flambeau.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    tensor([[[4.]]])
    """

    def forward(self, input: Tensor) -> Pooled:
        return F.max_pool2d(input, *self._arguments())


class MaxPool3d(_MaxPoolNd):
    """The maximum of each window; see `MaxPool2d`.

    Shapes: ``(N, C, D, H, W)`` or ``(C, D, H, W)`` to the same dimensions.
    """

    def forward(self, input: Tensor) -> Pooled:
        return F.max_pool3d(input, *self._arguments())


class _MaxUnpoolNd(Module):
    """The base of unpooling; see `MaxUnpool2d` for the arguments."""

    _repr_attributes = ("kernel_size", "stride", "padding")

    _sizes: PerDimension[int]

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size: tuple[int, ...] = self._sizes(kernel_size)
        self.stride: tuple[int, ...] = self._sizes(kernel_size if stride is None else stride)
        self.padding: tuple[int, ...] = self._sizes(padding)


class MaxUnpool1d(_MaxUnpoolNd):
    """Maxima at the positions found by `MaxPool1d`; see `MaxUnpool2d`.

    Shapes: twice ``(N, C, L)`` or ``(C, L)`` to the same dimensions.
    """

    _sizes = staticmethod(_single)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        return F.max_unpool1d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool2d(_MaxUnpoolNd):
    """Maxima at the positions found by `MaxPool2d` with ``return_indices``, zeros elsewhere.

    Shapes: twice ``(N, C, H, W)`` or ``(C, H, W)`` to the same dimensions, where ``H`` becomes
    ``(H - 1) * stride - 2 * padding + kernel_size``, unless `forward` is given an ``output_size``.

    Args:
        kernel_size: Size of a window.
        stride: Step from window to window, by default ``kernel_size``.
        padding: The padding of the pooling on both sides.
    """

    _sizes = staticmethod(_pair)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        return F.max_unpool2d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool3d(_MaxUnpoolNd):
    """Maxima at the positions found by `MaxPool3d`; see `MaxUnpool2d`.

    Shapes: twice ``(N, C, D, H, W)`` or ``(C, D, H, W)`` to the same dimensions.
    """

    _sizes = staticmethod(_triple)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        return F.max_unpool3d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class _AvgPoolNd(Module):
    """The base of average pooling; see `AvgPool2d` for the arguments."""

    __constants__: list[str] = [
        "kernel_size",
        "stride",
        "padding",
        "ceil_mode",
        "count_include_pad",
    ]
    _repr_attributes = ("kernel_size", "stride", "padding")

    kernel_size: Sizes
    stride: Sizes
    padding: Sizes


class AvgPool1d(_AvgPoolNd):
    """The mean of each window; see `AvgPool2d`, except ``divisor_override``.

    Shapes: ``(N, C, L)`` or ``(C, L)`` to ``(N, C, L_out)`` or ``(C, L_out)``.
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size: Sizes = _single(kernel_size)
        self.stride: Sizes = _single(kernel_size if stride is None else stride)
        self.padding: Sizes = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad,
        )  # fmt: skip


class _DivisorAvgPool(_AvgPoolNd):
    """Average pooling with an optional divisor."""

    __constants__: list[str] = [*_AvgPoolNd.__constants__, "divisor_override"]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride: Sizes = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def _arguments(self) -> Args:
        return (
            self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
            self.divisor_override,
        )  # fmt: skip

    def __setstate__(self, state: Kwargs) -> None:
        super().__setstate__(state)
        # Pickles from before these attributes existed.
        self.__dict__.setdefault("padding", 0)
        self.__dict__.setdefault("ceil_mode", False)
        self.__dict__.setdefault("count_include_pad", True)


class AvgPool2d(_DivisorAvgPool):
    """The mean of each window.

    Shapes: ``(N, C, H, W)`` or ``(C, H, W)`` to ``(N, C, H_out, W_out)`` or ``(C, H_out, W_out)``.

    Args:
        kernel_size: Size of a window.
        stride: Step from window to window, by default ``kernel_size``.
        padding: Zeros on both sides, at most half of ``kernel_size``.
        ceil_mode: Keep a last window that extends beyond the edge.
        count_include_pad: Whether the zeros count as elements.
        divisor_override: The divisor to use instead of the number of elements.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.AvgPool2d(2)(flambeau.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    tensor([[[2.5000]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(input, *self._arguments())


class AvgPool3d(_DivisorAvgPool):
    """The mean of each window; see `AvgPool2d`.

    Shapes: ``(N, C, D, H, W)`` or ``(C, D, H, W)`` to the same dimensions.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool3d(input, *self._arguments())


class _FractionalMaxPool(Module):
    """The base of fractional pooling; see `FractionalMaxPool2d` for the arguments."""

    __constants__: list[str] = ["kernel_size", "return_indices", "output_size", "output_ratio"]

    _sizes: PerDimension[Any]

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                f"{type(self).__name__} takes an output_size or an output_ratio, and not both; "
                f"got output_size={output_size}, output_ratio={output_ratio}"
            )
        sizes = self._sizes
        self.kernel_size: tuple[int, ...] = sizes(kernel_size)
        if any(size <= 0 for size in self.kernel_size):
            raise ValueError(f"kernel_size must be positive, got {kernel_size}")
        self.output_size: tuple[int, ...] | None = (
            None if output_size is None else sizes(output_size)
        )
        self.output_ratio: tuple[float, ...] | None = (
            None if output_ratio is None else sizes(output_ratio)
        )
        if self.output_ratio is not None and not all(0 < each < 1 for each in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1, got {output_ratio}")


class FractionalMaxPool2d(_FractionalMaxPool):
    """The maximum of windows of random steps, for an output of any size.

    See https://arxiv.org/abs/1412.6071.

    Shapes: ``(N, C, H, W)`` or ``(C, H, W)`` to the same dimensions.

    Args:
        kernel_size: Size of a window.
        output_size: Size of the output.
        output_ratio: Size of the output relative to the input's, between 0 and 1; instead of
            ``output_size``.
        return_indices: Also return the positions of the maxima, for `MaxUnpool2d`.

    Raises:
        ValueError: Both or none of ``output_size`` and ``output_ratio`` are given, or one is out
            of range.
    """

    _sizes = staticmethod(_pair)

    def forward(self, input: Tensor) -> Pooled:
        return F.fractional_max_pool2d(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


class FractionalMaxPool3d(_FractionalMaxPool):
    """The maximum of windows of random steps; see `FractionalMaxPool2d`.

    Shapes: ``(N, C, D, H, W)`` or ``(C, D, H, W)`` to the same dimensions.
    """

    _sizes = staticmethod(_triple)

    def forward(self, input: Tensor) -> Pooled:
        return F.fractional_max_pool3d(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


class _LPPoolNd(Module):
    """The base of norm pooling; see `LPPool2d` for the arguments."""

    __constants__: list[str] = ["norm_type", "kernel_size", "stride", "ceil_mode"]
    _repr_attributes = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def _arguments(self) -> Args:
        return float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode


class LPPool1d(_LPPoolNd):
    """The ``norm_type``-norm of each window; see `LPPool2d`.

    Shapes: ``(N, C, L)`` or ``(C, L)`` to the same dimensions.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, *self._arguments())


class LPPool2d(_LPPoolNd):
    """The ``p``-norm of each window: ``(sum of x ** p) ** (1 / p)``.

    Shapes: ``(N, C, H, W)`` or ``(C, H, W)`` to the same dimensions.

    Args:
        norm_type: The power ``p``.
        kernel_size: Size of a window.
        stride: Step from window to window, by default ``kernel_size``.
        ceil_mode: Keep a last window that extends beyond the edge.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, *self._arguments())


class LPPool3d(_LPPoolNd):
    """The ``norm_type``-norm of each window; see `LPPool2d`.

    Shapes: ``(N, C, D, H, W)`` or ``(C, D, H, W)`` to the same dimensions.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(input, *self._arguments())
