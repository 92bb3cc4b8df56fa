"""Rearrangements of images: windows as columns, channels as pixels, and back."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import op
from flambeau.core.support import errors
from flambeau.ops.neural.spatial.convolution import Sizes, per_dimension
from flambeau.ops.neural.spatial.windows import Windows

__all__ = ["channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]


def _columns(input: Any, windows: Windows) -> Any:
    """``(..., C, H, W)`` as ``(..., C * taps, windows)``."""
    found = windows.all(input, jnp.zeros((), input.dtype))
    *lead, channels, taps = found.shape[:-2]
    return found.reshape((*lead, channels * taps, math.prod(windows.outputs)))


@op(node="Im2ColBackward0", linear=True)
def unfold(
    input: Array, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Array:
    """Each window of an image as a column.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: Size of a window; one number or one per dimension, like the following.
        dilation: Step between the elements of a window.
        padding: Zeros on both sides.
        stride: Step from window to window.

    Returns:
        ``(N, C * KH * KW, L)`` or ``(C * KH * KW, L)`` for ``L`` windows.

    Raises:
        RuntimeError: The shape does not match, or a number is out of range.
    """
    windows = _windows("unfold", input, kernel_size, dilation, padding, stride)
    return _columns(input, windows)


def _windows(name: str, input: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    _check_pairs(name, kernel_size=kernel, dilation=dilation, padding=padding, stride=stride)
    return Windows(name, input, 2, kernel, stride, padding, dilation, False, bounded=False)


def _check_pairs(name: str, **sizes: Any) -> None:
    """Check that sizes are one number or two, and not one in a tuple."""
    for argument, value in sizes.items():
        if value is None:
            raise errors.TypeError(f"{name}(): {argument} must be one number or two, got None")
        if isinstance(value, tuple) and len(value) != 2:
            raise RuntimeError(f"{name}(): {argument} must be one number or two, got {list(value)}")


@op(node="Col2ImBackward0", linear=True)
def fold(
    input: Array,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Array:
    """The sum of the columns at the windows they belong to: the transpose of `unfold`.

    Args:
        input: ``(N, C * KH * KW, L)`` or ``(C * KH * KW, L)``.
        output_size: ``(H, W)`` of the image.
        kernel_size: See `unfold`, like the following.
        dilation: Step between the elements of a window.
        padding: Zeros on both sides, which are cropped again.
        stride: Step from window to window.

    Returns:
        ``(N, C, H, W)`` or ``(C, H, W)``.

    Raises:
        RuntimeError: The numbers of rows or columns do not fit.
    """
    _check_pairs("fold", output_size=output_size, kernel_size=kernel_size)
    sizes = per_dimension("fold", "output_size", output_size, 2)
    taps = math.prod(per_dimension("fold", "kernel_size", kernel_size, 2))
    if input.ndim not in (2, 3) or input.shape[-2] % taps:
        raise RuntimeError(
            f"fold() takes an input of shape (N, C * {taps}, L) or (C * {taps}, L) for windows of "
            f"{taps} elements, got {list(input.shape)}"
        )
    image = jax.ShapeDtypeStruct((*input.shape[:-2], input.shape[-2] // taps, *sizes), input.dtype)
    windows = _windows("fold", image, kernel_size, dilation, padding, stride)
    if math.prod(windows.outputs) != input.shape[-1]:
        raise RuntimeError(
            f"fold(): an image of size {list(sizes)} has {math.prod(windows.outputs)} windows, "
            f"{list(windows.outputs)} of them, but the input of shape {list(input.shape)} has "
            f"{input.shape[-1]} columns"
        )
    (folded,) = jax.linear_transpose(lambda image: _columns(image, windows), image)(input)
    return folded


def _check_factor(name: str, factor: int, input: Any) -> None:
    if input.ndim < 3:
        raise RuntimeError(
            f"{name}() takes a tensor of shape (*, C, H, W), got {list(input.shape)}"
        )
    if factor <= 0:
        raise RuntimeError(f"{name}(): the factor must be positive, got {factor}")


@op(linear=True)
def pixel_shuffle(input: Array, upscale_factor: int) -> Array:
    """Channels as pixels: ``(*, C * r * r, H, W)`` becomes ``(*, C, H * r, W * r)``.

    Shi et al., https://arxiv.org/abs/1609.05158

    Raises:
        RuntimeError: The channels are not a multiple of ``upscale_factor ** 2``.
    """
    _check_factor("pixel_shuffle", upscale_factor, input)
    *lead, channels, height, width = input.shape
    r = upscale_factor
    if channels % (r * r):
        raise RuntimeError(
            f"pixel_shuffle(): {channels} channels are not a multiple of "
            f"upscale_factor ** 2 = {r * r}"
        )
    split = input.reshape((*lead, channels // (r * r), r, r, height, width))
    n = len(lead)
    order = (*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return split.transpose(order).reshape((*lead, channels // (r * r), height * r, width * r))


@op(linear=True)
def pixel_unshuffle(input: Array, downscale_factor: int) -> Array:
    """Pixels as channels: ``(*, C, H * r, W * r)`` becomes ``(*, C * r * r, H, W)``.

    Raises:
        RuntimeError: The height or the width is not a multiple of ``downscale_factor``.
    """
    _check_factor("pixel_unshuffle", downscale_factor, input)
    *lead, channels, height, width = input.shape
    r = downscale_factor
    if height % r or width % r:
        raise RuntimeError(
            f"pixel_unshuffle(): height {height} and width {width} must be multiples of "
            f"downscale_factor = {r}"
        )
    split = input.reshape((*lead, channels, height // r, r, width // r, r))
    n = len(lead)
    order = (*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return split.transpose(order).reshape((*lead, channels * r * r, height // r, width // r))


@op(linear=True)
def channel_shuffle(input: Array, groups: int) -> Array:
    """``(N, C, ...)`` with the channels of ``groups`` groups interleaved.

    Raises:
        RuntimeError: There are fewer than 3 dimensions, or ``groups`` does not divide the channels.
    """
    if input.ndim < 3:
        raise RuntimeError(
            f"channel_shuffle() takes an input of shape (N, C, ...), got {list(input.shape)}"
        )
    batch, channels, *rest = input.shape
    if groups <= 0 or channels % groups:
        raise RuntimeError(
            f"channel_shuffle(): groups={groups} does not divide the {channels} channels of an "
            f"input of shape {list(input.shape)}"
        )
    split = input.reshape((batch, groups, channels // groups, *rest))
    return split.swapaxes(1, 2).reshape(input.shape)
