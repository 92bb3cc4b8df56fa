"""Convolutions and transposed convolutions, over one to three spatial dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.common_types import DeviceLike, DTypeLike, Sizes
from flambeau.nn.module import Module
from flambeau.nn.modules.conv_base import _ConvNd, _ConvTransposeNd
from flambeau.nn.modules.lazy import LazyModuleMixin
from flambeau.nn.modules.utils import PerDimension, _pair, _single, _triple
from flambeau.nn.parameter import UninitializedParameter

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]


class _Conv(_ConvNd):
    """A convolution; the subclass sets the number of dimensions."""

    _sizes: PerDimension[int]
    _convolve: Callable[..., Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: str | Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        sizes = self._sizes
        super().__init__(
            in_channels,
            out_channels,
            sizes(kernel_size),
            sizes(stride),
            padding if isinstance(padding, str) else sizes(padding),
            sizes(dilation),
            False,
            sizes(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """`forward` with another weight and bias; subclasses use it."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        return self._convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """A convolution over one dimension, such as time; see `Conv2d`.

    Shapes: ``(N, in_channels, L)`` or ``(in_channels, L)`` to ``(N, out_channels, L_out)`` or
    ``(out_channels, L_out)``.
    """

    _sizes = staticmethod(_single)
    _convolve = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """A convolution over two dimensions, such as an image.

    ``y[n, o] = bias[o] + sum over c of weight[o, c] ⋆ x[n, c]``, where ⋆ is cross-correlation: the
    kernel is not flipped.

    Shapes: ``(N, in_channels, H, W)`` or ``(in_channels, H, W)`` to ``(N, out_channels, H_out,
    W_out)`` or ``(out_channels, H_out, W_out)``, with
    ``H_out = (H + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Size of the kernel; a number, or one per dimension, like the following.
        stride: Step from one output to the next.
        padding: The padding on both sides; ``"valid"`` means none, and ``"same"`` keeps the size of
            the input.
        dilation: Step between the elements of the kernel.
        groups: The number of groups of channels that are convolved separately. With
            ``groups=in_channels`` each channel has its own kernels.
        bias: Whether to add a learned ``bias``; otherwise it is ``None``.
        padding_mode: The values of the padding: ``"zeros"``, ``"reflect"``, ``"replicate"`` or
            ``"circular"``.
        device: The device of the parameters.
        dtype: The dtype of the parameters.

    Attributes:
        weight: ``(out_channels, in_channels // groups, *kernel_size)``, at first uniform in
            ``±1/sqrt(in_channels // groups * product of kernel_size)``.
        bias: ``(out_channels,)``, likewise.

    Raises:
        ValueError: ``groups`` is not positive or does not divide the channels, or the padding is
            invalid.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Conv2d(3, 8, 3, stride=2, padding=1)(flambeau.zeros(2, 3, 8, 8)).shape
    flambeau.Size([2, 8, 4, 4])
    """

    _sizes = staticmethod(_pair)
    _convolve = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """A convolution over three dimensions, such as a volume; see `Conv2d`.

    Shapes: ``(N, in_channels, D, H, W)`` or ``(in_channels, D, H, W)`` to ``(N, out_channels,
    D_out, H_out, W_out)`` or without ``N``.
    """

    _sizes = staticmethod(_triple)
    _convolve = staticmethod(F.conv3d)


class _ConvTranspose(_ConvTransposeNd):
    """A transposed convolution; the subclass sets the number of dimensions."""

    _sizes: PerDimension[int]
    _convolve: Callable[..., Tensor]
    padding: tuple[int, ...]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        sizes = self._sizes
        super().__init__(
            in_channels,
            out_channels,
            sizes(kernel_size),
            sizes(stride),
            sizes(padding),
            sizes(dilation),
            True,
            sizes(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """The transposed convolution of ``input`` with ``weight``, plus ``bias``.

        Args:
            input: See the class.
            output_size: The spatial sizes, which are ambiguous with a stride.

        Raises:
            ValueError: ``output_size`` cannot be reached, or has the wrong number of entries.
        """
        output_padding = self.output_padding
        if output_size is not None:
            output_padding = self._output_padding(
                input,
                output_size,
                self.stride,
                self.padding,
                self.kernel_size,
                len(self.kernel_size),
                self.dilation,
            )
        return self._convolve(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )


#: PyTorch's older name of the class, which packages import.
_ConvTransposeMixin = _ConvTransposeNd


class ConvTranspose1d(_ConvTranspose):
    """The transpose of `Conv1d` as a linear map; see `ConvTranspose2d`.

    Shapes: ``(N, in_channels, L)`` or ``(in_channels, L)`` to ``(N, out_channels, L_out)`` or
    ``(out_channels, L_out)``.
    """

    _sizes = staticmethod(_single)
    _convolve = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """The transpose of `Conv2d` as a linear map: the gradient of `Conv2d` by its input.

    Shapes: ``(N, in_channels, H, W)`` or ``(in_channels, H, W)`` to ``(N, out_channels, H_out,
    W_out)`` or ``(out_channels, H_out, W_out)``, with
    ``H_out = (H - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1``.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Size of the kernel; a number, or one per dimension, like the following.
        stride: Step from one input to the next, in outputs.
        padding: How much of the full output to crop on both sides.
        output_padding: The elements to add at the end of the output, less than the stride.
        groups: The number of groups of channels that are convolved separately.
        bias: Whether to add a learned ``bias``; otherwise it is ``None``.
        dilation: Step between the elements of the kernel.
        padding_mode: Only ``"zeros"``.
        device: The device of the parameters.
        dtype: The dtype of the parameters.

    Attributes:
        weight: ``(in_channels, out_channels // groups, *kernel_size)``, at first uniform in
            ``±1/sqrt(out_channels // groups * product of kernel_size)``.
        bias: ``(out_channels,)``, likewise.

    Raises:
        ValueError: ``groups`` is not positive or does not divide the channels, or ``padding_mode``
            is another one.

    >>> import flambeau
    >>> from flambeau import nn
    >>> layer = nn.ConvTranspose2d(8, 3, 3, stride=2, padding=1)
    >>> layer(flambeau.zeros(2, 8, 4, 4), output_size=(8, 8)).shape
    flambeau.Size([2, 3, 8, 8])
    """

    _sizes = staticmethod(_pair)
    _convolve = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """The transpose of `Conv3d` as a linear map; see `ConvTranspose2d`.

    Shapes: ``(N, in_channels, D, H, W)`` or ``(in_channels, D, H, W)`` to ``(N, out_channels,
    D_out, H_out, W_out)`` or without ``N``.
    """

    _sizes = staticmethod(_triple)
    _convolve = staticmethod(F.conv_transpose3d)


class _LazyConvXdMixin(LazyModuleMixin, _ConvNd):
    """A convolution that takes ``in_channels`` from its first input."""

    weight: Any
    bias: Any

    def _make_lazy(
        self, out_channels: int, bias: bool, device: DeviceLike, dtype: DTypeLike
    ) -> None:
        """Replace the constructor's empty parameters by uninitialized ones."""
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Redraw weight and bias, if they have a shape."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Give the parameters the shapes that fit ``input``.

        Raises:
            RuntimeError: ``input`` has the wrong number of dimensions.
            ValueError: ``groups`` does not divide its channels.
        """
        if self.in_channels == 0:
            self.in_channels: int = self._get_in_channels(input)
        if self.has_uninitialized_params():
            channels = self.in_channels
            if channels % self.groups:
                raise ValueError(
                    f"the input's {channels} channels must be divisible by groups={self.groups}"
                )
            outer, inner = self.out_channels, channels
            if self.transposed:
                outer, inner = inner, outer
            self.weight.materialize((outer, inner // self.groups, *self.kernel_size))
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()

    def _get_in_channels(self, input: Tensor) -> int:
        batched = len(self.kernel_size) + 2
        if input.dim() not in (batched - 1, batched):
            raise RuntimeError(
                f"{type(self).__name__} takes an input of {batched} dimensions, or {batched - 1} "
                f"without a batch, got shape {list(input.shape)}"
            )
        return input.shape[input.dim() - batched + 1]


class _LazyConv(_LazyConvXdMixin, _Conv):
    """A convolution that takes ``in_channels`` from its first input."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: str | Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        self._make_lazy(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvXdMixin, _ConvTranspose):
    """A transposed convolution that takes ``in_channels`` from its first input."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation,
            padding_mode, device, dtype,
        )  # fmt: skip
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """A `Conv1d` that takes ``in_channels`` from its first input; see there."""

    cls_to_become: type[Module] | None = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A `Conv2d` that takes ``in_channels`` from its first input; see there."""

    cls_to_become: type[Module] | None = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A `Conv3d` that takes ``in_channels`` from its first input; see there."""

    cls_to_become: type[Module] | None = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A `ConvTranspose1d` that takes ``in_channels`` from its first input; see there."""

    cls_to_become: type[Module] | None = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A `ConvTranspose2d` that takes ``in_channels`` from its first input; see there."""

    cls_to_become: type[Module] | None = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A `ConvTranspose3d` that takes ``in_channels`` from its first input; see there."""

    cls_to_become: type[Module] | None = ConvTranspose3d
