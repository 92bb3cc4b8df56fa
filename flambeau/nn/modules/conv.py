"""Convolutions and transposed convolutions, over one to three spatial dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.module import Module
from flambeau.nn.modules.utils import _pair, _reverse_repeat_tuple, _single, _triple
from flambeau.nn.parameter import Parameter
from flambeau.ops import empty

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all convolutions share; sizes are tuples with one entry per spatial dimension.

    Raises:
        ValueError: ``groups`` is not positive or does not divide the channels, or the padding is
            none that can be done.
    """

    __constants__ = [
        "stride", "padding", "dilation", "groups", "padding_mode", "output_padding",
        "in_channels", "out_channels", "kernel_size",
    ]  # fmt: skip

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_channels(in_channels, out_channels, groups)
        _check_padding(padding, padding_mode, stride)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = _sides(padding, kernel_size, dilation)
        if transposed:
            shape = (in_channels, out_channels // groups, *kernel_size)
        else:
            shape = (out_channels, in_channels // groups, *kernel_size)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        parts = [
            f"{self.in_channels}, {self.out_channels}",
            f"kernel_size={self.kernel_size}",
            f"stride={self.stride}",
        ]
        if self.padding != (0,) * len(self.padding):
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * len(self.dilation):
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * len(self.output_padding):
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        # Pickles from before there were other modes.
        self.__dict__.setdefault("padding_mode", "zeros")


def _check_channels(in_channels: int, out_channels: int, groups: int) -> None:
    if groups <= 0:
        raise ValueError(f"groups must be positive, got {groups}")
    for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
        if channels % groups:
            raise ValueError(f"{name}={channels} must be divisible by groups={groups}")


def _check_padding(padding: Any, padding_mode: str, stride: Sequence[int]) -> None:
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"padding must be sizes, 'same' or 'valid', got {padding!r}")
        if padding == "same" and any(step != 1 for step in stride):
            raise ValueError(f"padding='same' needs stride 1, got stride={tuple(stride)}")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(f"padding_mode must be one of {_PADDING_MODES}, got {padding_mode!r}")


def _sides(padding: Any, kernel_size: Sequence[int], dilation: Sequence[int]) -> Sequence[int]:
    """The padding before and after, as `functional.pad` takes it: last dimension first."""
    if padding == "valid":
        return [0, 0] * len(kernel_size)
    if padding == "same":
        sides = []
        for size, step in zip(reversed(kernel_size), reversed(dilation), strict=True):
            both = step * (size - 1)
            sides += [both // 2, both - both // 2]
        return sides
    return _reverse_repeat_tuple(padding, 2)


class _Conv(_ConvNd):
    """A convolution, in as many dimensions as the subclass says."""

    _sizes: Callable[[Any], tuple[int, ...]]
    _convolve: Callable[..., Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: str | int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
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
        """The convolution of ``input`` with ``weight``, plus ``bias``."""
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
        kernel_size: Size of the kernel; a number, or one per dimension, as the following.
        stride: Step from one output to the next.
        padding: What to add on both sides; ``"valid"`` is none, and ``"same"`` as much as keeps
            the size of the input.
        dilation: Step between the elements of the kernel.
        groups: Into how many parts the channels are divided that do not see each other. With
            ``groups=in_channels`` each channel has kernels of its own.
        bias: Whether to add a learned ``bias``; otherwise it is ``None``.
        padding_mode: What to pad with: ``"zeros"``, ``"reflect"``, ``"replicate"`` or
            ``"circular"``.
        device: Where to put the parameters.
        dtype: Of the parameters.

    Attributes:
        weight: ``(out_channels, in_channels // groups, *kernel_size)``, at first uniform in
            ``±1/sqrt(in_channels // groups * product of kernel_size)``.
        bias: ``(out_channels,)``, likewise.

    Raises:
        ValueError: ``groups`` is not positive or does not divide the channels, or the padding is
            none that can be done.

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


class _ConvTransposeNd(_ConvNd):
    """What the transposed convolutions share."""

    _sizes: Callable[[Any], tuple[int, ...]]
    _convolve: Callable[..., Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f"{type(self).__name__} has only padding_mode='zeros', got {padding_mode!r}"
            )
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(
        self,
        input: Tensor,
        output_size: Sequence[int] | None,
        stride: Sequence[int],
        padding: Sequence[int],
        kernel_size: Sequence[int],
        num_spatial_dims: int,
        dilation: Sequence[int] | None = None,
    ) -> Sequence[int]:
        """What to add at the end of each dimension to get ``output_size``.

        Raises:
            ValueError: ``output_size`` cannot be reached, or has the wrong number of entries.
        """
        if output_size is None:
            return self.output_padding
        leading = input.dim() - num_spatial_dims
        wanted = tuple(output_size)
        if len(wanted) == leading + num_spatial_dims:
            wanted = wanted[leading:]
        if len(wanted) != num_spatial_dims:
            raise ValueError(
                f"{type(self).__name__} takes an output_size of {num_spatial_dims} or "
                f"{leading + num_spatial_dims} entries for an input of {input.dim()} dimensions, "
                f"got {list(output_size)}"
            )
        steps = dilation or (1,) * num_spatial_dims
        smallest = [
            (input.size(leading + d) - 1) * stride[d]
            - 2 * padding[d]
            + steps[d] * (kernel_size[d] - 1)
            + 1
            for d in range(num_spatial_dims)
        ]
        added = [size - least for size, least in zip(wanted, smallest, strict=True)]
        if any(not 0 <= more < step for more, step in zip(added, stride, strict=True)):
            largest = [least + step - 1 for least, step in zip(smallest, stride, strict=True)]
            raise ValueError(
                f"output_size={list(wanted)} cannot be reached from an input of shape "
                f"{list(input.shape)}; sizes from {smallest} to {largest} can"
            )
        return added


class _ConvTranspose(_ConvTransposeNd):
    """A transposed convolution, in as many dimensions as the subclass says."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
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
            output_size: The spatial sizes wanted, where a stride leaves several possible.

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


class ConvTranspose1d(_ConvTranspose):
    """The transpose of `Conv1d` as a linear map; see `ConvTranspose2d`.

    Shapes: ``(N, in_channels, L)`` or ``(in_channels, L)`` to ``(N, out_channels, L_out)`` or
    ``(out_channels, L_out)``.
    """

    _sizes = staticmethod(_single)
    _convolve = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """The transpose of `Conv2d` as a linear map: what its gradient does to the output.

    Shapes: ``(N, in_channels, H, W)`` or ``(in_channels, H, W)`` to ``(N, out_channels, H_out,
    W_out)`` or ``(out_channels, H_out, W_out)``, with
    ``H_out = (H - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1``.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Size of the kernel; a number, or one per dimension, as the following.
        stride: Step from one input to the next, in outputs.
        padding: How much of the full output to leave out on both sides.
        output_padding: What to add to the output at the end, less than the stride.
        groups: Into how many parts the channels are divided that do not see each other.
        bias: Whether to add a learned ``bias``; otherwise it is ``None``.
        dilation: Step between the elements of the kernel.
        padding_mode: Only ``"zeros"``.
        device: Where to put the parameters.
        dtype: Of the parameters.

    Attributes:
        weight: ``(in_channels, out_channels // groups, *kernel_size)``, at first uniform in
            ``±1/sqrt(out_channels // groups * product of kernel_size)``.
        bias: ``(out_channels,)``, likewise.

    Raises:
        ValueError: ``groups`` is not positive or does not divide the channels, or
            ``padding_mode`` is another.

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
