"""Convolutions and transposed convolutions over one, two or three spatial dimensions."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from jax import lax

from flambeau.core.kernels.kinds import SIZES, Array
from flambeau.core.kernels.single_precision import spread
from flambeau.core.operators.op import op
from flambeau.ops.cpu_forms.convolutions import convolve, convolve_transposed
from flambeau.ops.matrices.linalg import one_dtype

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d",
]  # fmt: skip

Sizes: TypeAlias = Annotated[int | tuple[int, ...] | list[int], SIZES]


def per_dimension(name: str, argument: str, value: Any, spatial: int) -> tuple[int, ...]:
    """One number per spatial dimension, from one number for all or a sequence.

    Raises:
        RuntimeError: The sequence has another length.
    """
    if isinstance(value, int):
        return (value,) * spatial
    value = tuple(int(each) for each in value)
    if len(value) == 1:
        return value * spatial
    if len(value) != spatial:
        raise RuntimeError(
            f"{name}(): {argument} must be one number or {spatial}, got {list(value)}"
        )
    return value


def _check(name: str, input: Any, weight: Any, bias: Any, spatial: int) -> None:
    one_dtype(name, input, weight, bias)
    if input.ndim not in (spatial + 1, spatial + 2):
        raise RuntimeError(
            f"{name}(): the input must be {spatial + 1}-d (unbatched) or {spatial + 2}-d "
            f"(batched), got shape {list(input.shape)}"
        )
    if weight.ndim != spatial + 2:
        raise RuntimeError(
            f"{name}(): the weight must be {spatial + 2}-d, got shape {list(weight.shape)}"
        )


def _check_channels(name: str, input: Any, weight: Any, bias: Any, groups: int, spatial: int,
                    transposed: bool) -> None:  # fmt: skip
    channels = input.shape[-spatial - 1]
    if groups <= 0:
        raise RuntimeError(f"{name}(): groups must be positive, got {groups}")
    expected = weight.shape[0] if transposed else weight.shape[1] * groups
    if channels != expected:
        raise RuntimeError(
            f"{name}(): with groups={groups} a weight of shape {list(weight.shape)} takes an "
            f"input of {expected} channels, but the input of shape {list(input.shape)} has "
            f"{channels}"
        )
    if not transposed and weight.shape[0] < groups:
        raise RuntimeError(
            f"{name}(): the weight must have at least as many output channels as groups={groups}, "
            f"got shape {list(weight.shape)}"
        )
    if weight.shape[0] % groups:
        raise RuntimeError(
            f"{name}(): groups={groups} does not divide the {weight.shape[0]} channels of a "
            f"weight of shape {list(weight.shape)}"
        )
    outputs = weight.shape[1] * groups if transposed else weight.shape[0]
    if bias is not None and bias.shape != (outputs,):
        raise RuntimeError(
            f"{name}(): the bias must have shape [{outputs}] for a weight of shape "
            f"{list(weight.shape)}, got {list(bias.shape)}"
        )


def _check_steps(name: str, stride: tuple[int, ...], dilation: tuple[int, ...]) -> None:
    if min(stride) <= 0:
        raise RuntimeError(f"{name}(): stride must be positive, got {list(stride)}")
    if min(dilation) <= 0:
        raise RuntimeError(f"{name}(): dilation must be positive, got {list(dilation)}")


def _explicit_padding(
    name: str, padding: Any, kernel: tuple[int, ...], stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> list[tuple[int, int]]:  # fmt: skip
    """The padding before and after each spatial dimension."""
    if isinstance(padding, str):
        if padding == "valid":
            return [(0, 0)] * len(kernel)
        if padding != "same":
            raise RuntimeError(f"{name}(): padding must be 'same' or 'valid', got {padding!r}")
        if any(each != 1 for each in stride):
            raise RuntimeError(
                f"{name}(): padding='same' needs stride 1, got {list(stride)}; give numbers"
            )
        totals = [step * (size - 1) for step, size in zip(dilation, kernel, strict=True)]
        return [(total // 2, total - total // 2) for total in totals]
    numbers = per_dimension(name, "padding", padding, len(kernel))
    if min(numbers) < 0:
        raise RuntimeError(f"{name}(): padding must not be negative, got {list(numbers)}")
    return [(number, number) for number in numbers]


def _check_extent(
    name: str, sizes: tuple[int, ...], kernel: tuple[int, ...], padding: list[tuple[int, int]],
    dilation: tuple[int, ...],
) -> None:  # fmt: skip
    padded = [size + before + after for size, (before, after) in zip(sizes, padding, strict=True)]
    extent = [step * (size - 1) + 1 for step, size in zip(dilation, kernel, strict=True)]
    if any(a < b for a, b in zip(padded, extent, strict=True)):
        raise RuntimeError(
            f"{name}(): a kernel of extent {extent} does not fit into the padded input of size "
            f"{padded}"
        )


def _convolve(name: str, spatial: int, input: Any, weight: Any, bias: Any, stride: Any,
              padding: Any, dilation: Any, groups: int) -> Any:  # fmt: skip
    _check(name, input, weight, bias, spatial)
    _check_channels(name, input, weight, bias, groups, spatial, transposed=False)
    stride = per_dimension(name, "stride", stride, spatial)
    dilation = per_dimension(name, "dilation", dilation, spatial)
    _check_steps(name, stride, dilation)
    kernel = weight.shape[2:]
    padding = _explicit_padding(name, padding, kernel, stride, dilation)
    _check_extent(name, input.shape[-spatial:], kernel, padding, dilation)
    unbatched = input.ndim == spatial + 1
    if unbatched:
        input = input[None]
    output = convolve(input, weight, stride, padding, dilation, groups)
    return _finished(output, bias, unbatched)


def _finished(output: Any, bias: Any, unbatched: bool) -> Any:
    if bias is not None:
        output = output + spread(bias.reshape((-1,) + (1,) * (output.ndim - 2)), output.shape)
    return output[0] if unbatched else output


@op(node="ConvolutionBackward0")
def conv1d(input: Array, weight: Array, bias: Array | None = None, stride: Sizes = 1,
           padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1) -> Array:  # fmt: skip
    """A 1-d cross-correlation of ``input`` with each filter of ``weight``.

    Args:
        input: ``(N, C, L)`` or ``(C, L)``.
        weight: ``(O, C / groups, K)``.
        bias: ``(O,)``.
        stride: Step from one output to the next.
        padding: Zeros on both sides, or ``"valid"`` (none) or ``"same"`` (as many outputs as
            inputs; the odd zero goes after).
        dilation: Step between the taps of a filter.
        groups: The number of independent groups of channels.

    Returns:
        ``(N, O, L')`` or ``(O, L')``.

    Raises:
        RuntimeError: Shapes or dtypes do not match, or a number is out of range.
    """
    return _convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@op(node="ConvolutionBackward0")
def conv2d(input: Array, weight: Array, bias: Array | None = None, stride: Sizes = 1,
           padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1) -> Array:  # fmt: skip
    """A 2-d cross-correlation of ``input`` with each filter of ``weight``.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        weight: ``(O, C / groups, KH, KW)``.
        bias: ``(O,)``.
        stride: Step from one output to the next; one number or one per dimension.
        padding: Zeros on both sides, or ``"valid"`` (none) or ``"same"`` (as many outputs as
            inputs; the odd zero goes after).
        dilation: Step between the taps of a filter.
        groups: The number of independent groups of channels.

    Returns:
        ``(N, O, H', W')`` or ``(O, H', W')``.

    Raises:
        RuntimeError: Shapes or dtypes do not match, or a number is out of range.

    >>> import flambeau
    >>> images, filters = flambeau.ones(1, 3, 8, 8), flambeau.ones(4, 3, 3, 3)
    >>> flambeau.conv2d(images, filters, padding=1).shape
    flambeau.Size([1, 4, 8, 8])
    """
    return _convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@op(node="ConvolutionBackward0")
def conv3d(input: Array, weight: Array, bias: Array | None = None, stride: Sizes = 1,
           padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1) -> Array:  # fmt: skip
    """A 3-d cross-correlation of ``(N, C, D, H, W)``; see `conv2d`."""
    return _convolve("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def _transpose_convolve(
    name: str,
    spatial: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Any:
    _check(name, input, weight, bias, spatial)
    _check_channels(name, input, weight, bias, groups, spatial, transposed=True)
    stride = per_dimension(name, "stride", stride, spatial)
    dilation = per_dimension(name, "dilation", dilation, spatial)
    _check_steps(name, stride, dilation)
    padding = per_dimension(name, "padding", padding, spatial)
    extra = per_dimension(name, "output_padding", output_padding, spatial)
    if min(padding) < 0 or min(extra) < 0:
        raise RuntimeError(
            f"{name}(): padding and output_padding must not be negative, got {list(padding)} and "
            f"{list(extra)}"
        )
    if any(e >= s and e >= d for e, s, d in zip(extra, stride, dilation, strict=True)):
        raise RuntimeError(
            f"{name}(): output_padding must be smaller than stride or dilation, got "
            f"{list(extra)} with stride {list(stride)} and dilation {list(dilation)}"
        )
    unbatched = input.ndim == spatial + 1
    if unbatched:
        input = input[None]
    kernel = weight.shape[2:]
    sizes = [
        (size - 1) * s - 2 * p + d * (k - 1) + e + 1
        for size, s, p, d, k, e in zip(
            input.shape[2:], stride, padding, dilation, kernel, extra, strict=True
        )
    ]
    if min(sizes) <= 0:
        raise RuntimeError(
            f"{name}(): the output for an input of shape {list(input.shape)} would have size "
            f"{sizes}; it must be positive"
        )
    borders = [(p, p - e) for p, e in zip(padding, extra, strict=True)]
    output = convolve_transposed(input, weight, stride, borders, dilation, groups)
    return _finished(output, bias, unbatched)


@op(node="ConvolutionBackward0")
def conv_transpose1d(input: Array, weight: Array, bias: Array | None = None, stride: Sizes = 1,
                     padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1,
                     dilation: Sizes = 1) -> Array:  # fmt: skip
    """The transpose of a 1-d convolution; see `conv_transpose2d`, with ``(N, C, L)``."""
    return _transpose_convolve("conv_transpose1d", 1, input, weight, bias, stride, padding,
                               output_padding, groups, dilation)  # fmt: skip


@op(node="ConvolutionBackward0")
def conv_transpose2d(input: Array, weight: Array, bias: Array | None = None, stride: Sizes = 1,
                     padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1,
                     dilation: Sizes = 1) -> Array:  # fmt: skip
    """The transpose (as a linear map) of a 2-d convolution: the gradient of `conv2d`.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        weight: ``(C, O / groups, KH, KW)``.
        bias: ``(O,)``.
        stride: Step from one input to the next, seen in the output.
        padding: How much the output is cropped on both sides.
        output_padding: How much the output is enlarged at the end.
        groups: The number of independent groups of channels.
        dilation: Step between the taps of a filter.

    Returns:
        ``(N, O, H', W')`` or ``(O, H', W')`` with
        ``H' = (H - 1) * stride - 2 * padding + dilation * (KH - 1) + output_padding + 1``.

    Raises:
        RuntimeError: Shapes or dtypes do not match, or a number is out of range.
    """
    return _transpose_convolve("conv_transpose2d", 2, input, weight, bias, stride, padding,
                               output_padding, groups, dilation)  # fmt: skip


@op(node="ConvolutionBackward0")
def conv_transpose3d(input: Array, weight: Array, bias: Array | None = None, stride: Sizes = 1,
                     padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1,
                     dilation: Sizes = 1) -> Array:  # fmt: skip
    """The transpose of a 3-d convolution; see `conv_transpose2d`, with ``(N, C, D, H, W)``."""
    return _transpose_convolve("conv_transpose3d", 3, input, weight, bias, stride, padding,
                               output_padding, groups, dilation)  # fmt: skip


@op(node="ConvTbcBackward0")
def conv_tbc(input: Array, weight: Array, bias: Array, pad: int = 0) -> Array:
    """A 1-d cross-correlation with time first.

    Args:
        input: ``(T, B, C)``.
        weight: ``(K, C, O)``.
        bias: ``(O,)``.
        pad: Zeros on both sides.

    Returns:
        ``(T', B, O)``.

    Raises:
        RuntimeError: Shapes or dtypes do not match.
    """
    one_dtype("conv_tbc", input, weight, bias)
    if input.ndim != 3 or weight.ndim != 3 or bias.shape != weight.shape[2:]:
        raise RuntimeError(
            "conv_tbc() takes an input of shape (T, B, C), a weight of shape (K, C, O) and a bias "
            f"of shape (O,), got {list(input.shape)}, {list(weight.shape)}, {list(bias.shape)}"
        )
    if input.shape[2] != weight.shape[1]:
        raise RuntimeError(
            f"conv_tbc(): the weight takes {weight.shape[1]} channels, the input has "
            f"{input.shape[2]}"
        )
    output = lax.conv_general_dilated(
        input, weight, (1,), [(pad, pad)], dimension_numbers=("HNC", "HIO", "HNC")
    )
    return output + spread(bias, output.shape)
