"""The base of convolutions over any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.nn import init
from flambeau.nn.common_types import DeviceLike, DTypeLike, Kwargs
from flambeau.nn.module import Module
from flambeau.nn.modules.utils import _reverse_repeat_tuple
from flambeau.nn.parameter import Parameter
from flambeau.ops.factories.creation import empty

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """The base of all convolutions; sizes are tuples with one entry per spatial dimension.

    Raises:
        ValueError: ``groups`` is not positive or does not divide the channels, or the padding is
            invalid.
    """

    __constants__: list[str] = [
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
        device: DeviceLike = None,
        dtype: DTypeLike = None,
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
        self.weight: Parameter = Parameter(empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias: Parameter = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Redraw weight and bias."""
        init._reset_affine(self.weight, self.bias)

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

    def __setstate__(self, state: Kwargs) -> None:
        super().__setstate__(state)
        # Pickles from before padding modes existed.
        self.__dict__.setdefault("padding_mode", "zeros")


def _check_channels(in_channels: int, out_channels: int, groups: int) -> None:
    if groups <= 0:
        raise ValueError(f"groups must be positive, got {groups}")
    for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
        if channels % groups:
            raise ValueError(f"{name}={channels} must be divisible by groups={groups}")


def _check_padding(padding: str | Sequence[int], padding_mode: str, stride: Sequence[int]) -> None:
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
        if len(kernel_size) != len(dilation):
            raise ValueError(
                f"kernel_size must be one number or {len(dilation)}, got {tuple(kernel_size)}"
            )
        sides = []
        for size, step in zip(reversed(kernel_size), reversed(dilation), strict=True):
            both = step * (size - 1)
            sides += [both // 2, both - both // 2]
        return sides
    return _reverse_repeat_tuple(padding, 2)


class _ConvTransposeNd(_ConvNd):
    """The base of transposed convolutions; see `_ConvNd`.

    Raises:
        ValueError: Also for another ``padding_mode`` than ``"zeros"``.
    """

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
        device: DeviceLike = None,
        dtype: DTypeLike = None,
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
        """The padding at the end of each dimension that results in ``output_size``.

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
