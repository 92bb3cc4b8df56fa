"""Ungrouped convolutions over one or two dimensions, for a CPU.

XLA has two kernels for them, and uses YNNPACK's for two dimensions whenever it can. On one core
YNNPACK's is up to twice as fast as XLA's own for few outputs, and up to four times as slow for
large windows, as in the gradient of the filters, or without padding; and it never uses more than
one core. So the output and the two gradients are each written in a form that selects the faster
kernel, channels last: XLA transposes other layouts itself, but not within loops.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from flambeau.core.devices.compiler import cores
from flambeau.ops.cpu_forms.trilinear import trilinear
from flambeau.ops.neural.spatial.taps import Borders, Numbers, counts_of, padded, windows_along

__all__: list[str] = []

_LAYOUTS = {1: ("NCH", "OIH", "NCH"), 2: ("NCHW", "OIHW", "NCHW")}
_CHANNELS_LAST = {1: ("NHC", "HIO", "NHC"), 2: ("NHWC", "HWIO", "NHWC")}

# The dtypes that YNNPACK's kernel supports; bfloat16 is computed as float32.
_CHOOSABLE = ("float32", "bfloat16")
# On one core XLA's own kernel is faster with more outputs than this, unless there are few inputs.
_FEW_OUTPUTS = 64
_FEW_INPUTS = 16
# On several cores the gradient of filters is computed in two halves for up to this many inputs.
_FEW_IMAGES = 128
# Up to 1/8 of the work may be wasted to select the faster kernel.
_PARTS = 8
# Omitting a row pays off with at least this many.
_LEAST_ROWS = 16


class Window(NamedTuple):
    """The geometry of filters over images.

    Attributes:
        stride: The step from window to window.
        borders: Zeros before and after each dimension; negative numbers crop.
        spread: The step between the elements of the images, with zeros in between.
        dilation: The step between the taps of a filter.
    """

    stride: Numbers
    borders: tuple[tuple[int, int], ...]
    spread: Numbers
    dilation: Numbers


class Geometry(NamedTuple):
    """The static arguments of a convolution.

    Attributes:
        left: The input's shape, ``(N, C, *spatial)``.
        right: The shape of the filters, ``(O, C, *kernel)``.
        stride: The step from output to output.
        borders: Zeros before and after each dimension; negative numbers crop.
        dilation: The step between the taps of a filter.
    """

    left: Numbers
    right: Numbers
    stride: Numbers
    borders: tuple[tuple[int, int], ...]
    dilation: Numbers

    @property
    def once(self) -> Numbers:
        return (1,) * len(self.stride)


def _channels_last(images: Any, filters: Any, window: Window) -> Any:
    """The correlation of ``(N, C, *spatial)`` with ``(O, C, *kernel)``, as ``(N, O, *counts)``."""
    spatial = tuple(range(2, images.ndim))
    found = lax.conv_general_dilated(
        images.transpose(0, *spatial, 1),
        filters.transpose(*spatial, 1, 0),
        window.stride,
        window.borders,
        lhs_dilation=window.spread,
        rhs_dilation=window.dilation,
        dimension_numbers=_CHANNELS_LAST[len(spatial)],
    )
    return jnp.moveaxis(found, -1, 1)


def _correlated(images: Any, filters: Any, window: Window) -> Any:
    """The same in the form that selects the faster kernel, for small filters."""
    if math.prod(filters.shape[2:]) > math.prod(images.shape[2:]):
        images, window = _bordered(images, window)
    if not _choosable(images) or max(window.spread) > 1:
        return _channels_last(images, filters, window)
    outputs, inputs = filters.shape[:2]
    if cores() > 1 or (outputs > _FEW_OUTPUTS and inputs > _FEW_INPUTS):
        return _by_xla(images, filters, window)
    return _by_ynnpack(images, filters, window)


def _bordered(images: Any, window: Window) -> tuple[Any, Window]:
    """The images with their zeros added, and the remaining window.

    XLA exchanges images and filters if the filters are larger, and then has no fast kernel at all.
    Explicit padding prevents that.
    """
    once = (1,) * len(window.spread)
    left = window._replace(borders=((0, 0),) * len(once), spread=once)
    return padded(images, list(window.borders), window.spread), left


def _choosable(images: Any) -> bool:
    return images.ndim == 4 and images.dtype in _CHOOSABLE


def _by_xla(images: Any, filters: Any, window: Window) -> Any:
    """With a gap after each row of the images, which the windows skip.

    The result and the work are the same, but YNNPACK does not support images with gaps.
    """
    (before, behind), *others = window.borders
    gapped = Window(
        (2 * window.stride[0], *window.stride[1:]),
        ((2 * before, 2 * behind), *others),
        (2 * window.spread[0], *window.spread[1:]),
        (2 * window.dilation[0], *window.dilation[1:]),
    )
    return _channels_last(images, filters, gapped)


def _by_ynnpack(images: Any, filters: Any, window: Window) -> Any:
    """With a border if it has none: one extra column, which is cropped from the result."""
    if any(map(any, window.borders)):
        return _channels_last(images, filters, window)
    kernel = filters.shape[2:]
    count = _count(images, kernel, window)
    bordered = window._replace(borders=(*window.borders[:-1], (0, 1)))
    beyond = _count(images, kernel, bordered) - count
    if beyond * _PARTS > count:
        return _by_xla(images, filters, window)
    return _channels_last(images, filters, bordered)[..., :count]


def _count(images: Any, kernel: Numbers, window: Window) -> int:
    borders: Borders = list(window.borders)
    return counts_of(images, kernel, window.stride, borders, window.dilation)[-1]


def _plain(input: Any, filters: Any, geometry: Geometry) -> Any:
    return lax.conv_general_dilated(
        input, filters, geometry.stride, geometry.borders, rhs_dilation=geometry.dilation,
        dimension_numbers=_LAYOUTS[len(geometry.stride)],
    )  # fmt: skip


def _output(input: Any, filters: Any, geometry: Geometry) -> Any:
    window = Window(geometry.stride, geometry.borders, geometry.once, geometry.dilation)
    return _correlated(input, filters, window)


def _input_gradient(cotangent: Any, filters: Any, geometry: Geometry) -> Any:
    """The cotangent, spread by the stride, under the mirrored filters."""
    spatial = range(2, cotangent.ndim)
    borders = []
    for axis, stride, (before, _), dilation in zip(
        spatial, geometry.stride, geometry.borders, geometry.dilation, strict=True
    ):
        reach = dilation * (geometry.right[axis] - 1)
        last = (cotangent.shape[axis] - 1) * stride
        borders.append((reach - before, geometry.left[axis] - 1 - last + before))
    mirrored = lax.rev(filters, tuple(spatial)).swapaxes(0, 1)
    window = Window(geometry.once, tuple(borders), geometry.stride, geometry.dilation)
    return _correlated(cotangent, mirrored, window)


def _filter_gradient(cotangent: Any, input: Any, geometry: Geometry) -> Any:
    """The cotangent as filters over the input, with samples as channels."""
    borders = []
    for axis, stride, (before, _), dilation in zip(
        range(2, input.ndim), geometry.stride, geometry.borders, geometry.dilation, strict=True
    ):
        reach = dilation * (geometry.right[axis] - 1)
        last = (cotangent.shape[axis] - 1) * stride
        borders.append((before, reach + last + 1 - input.shape[axis] - before))
    images, filters = input.swapaxes(0, 1), cotangent.swapaxes(0, 1)
    window = Window(geometry.dilation, tuple(borders), geometry.once, geometry.stride)
    # In parallel, since XLA's kernel uses one core for few outputs.
    halved = cores() > 1 == max(geometry.stride) and 1 < len(images) <= _FEW_IMAGES
    parts = jnp.array_split(images, 2) if halved else [images]
    found = jnp.concatenate([_under_large_filters(each, filters, window) for each in parts])
    return found.swapaxes(0, 1)


def _under_large_filters(images: Any, filters: Any, window: Window) -> Any:
    """The correlation by XLA's own kernel, with filters almost as large as the images."""
    height, *width = filters.shape[2:]
    if _choosable(images) and window.dilation == window.stride == (1, 1) and height >= _LEAST_ROWS:
        wide = padded(images, [(0, 0), window.borders[1]])
        rows, columns = wide.shape[2:]
        if height == rows and height * width[0] <= (rows - 1) * columns:
            return _without_the_last_row(wide, filters, window.borders[0])
    images, window = _bordered(images, window)
    return (_by_xla if _choosable(images) else _channels_last)(images, filters, window)


def _without_the_last_row(images: Any, filters: Any, border: tuple[int, int]) -> Any:
    """Images as high as the filters, without their last row, and this row separately.

    YNNPACK does not support filters that are higher than the images. Gaps would have the same
    effect, but with gaps XLA's kernel reads numbers one by one.
    """
    once = (1, 1)
    before, behind = border
    last = images.shape[2] - 1
    most = _channels_last(
        images[:, :, :last], filters, Window(once, ((before, behind + 1), (0, 0)), once, once)
    )
    # The last row meets the last row of the filters at output `before`, earlier rows later.
    reached = most.shape[2] - before
    if reached <= 0:
        return most
    rows = filters[:, :, last + 1 - reached :]
    width = filters.shape[3]
    places = windows_along(images[:, :, last], 2, most.shape[3], width, 1, 1)
    rest = lax.rev(jnp.einsum("cntw,knrw->ckrt", places, rows), (2,))
    return most + jnp.pad(rest, ((0, 0), (0, 0), (before, 0), (0, 0)))


_convolution = trilinear(
    "plain_convolution", _plain, _output, _input_gradient, _filter_gradient, samples=True
)


def plain_convolution(
    input: Any, filters: Any, stride: Numbers, borders: Borders, dilation: Numbers
) -> Any:
    """The cross-correlation of ``(N, C, *spatial)`` with ``(O, C, *kernel)``.

    Args:
        input: The images, of one or two dimensions.
        filters: The filters.
        stride: The step from output to output along each spatial dimension.
        borders: Zeros before and after each spatial dimension; negative numbers crop.
        dilation: The step between the taps of a filter.
    """
    geometry = Geometry(input.shape, filters.shape, stride, tuple(borders), dilation)
    return _convolution(input, filters, geometry)
