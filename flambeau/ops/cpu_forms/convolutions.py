"""Convolutions in the forms that are fast under XLA.

On an accelerator a convolution is one XLA operator. On a CPU XLA's kernels support ungrouped
convolutions over one or two dimensions and their gradients. Grouped, three-dimensional and
transposed ones would be up to 70 times slower than necessary; they are expressed by these kernels,
by matrix products, or by sums that become one loop.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from flambeau.core.devices.compiler import cpu_forms, is_portable
from flambeau.ops.common import loops
from flambeau.ops.cpu_forms import volumes
from flambeau.ops.cpu_forms.depthwise import Geometry, depthwise
from flambeau.ops.cpu_forms.plain_convolution import plain_convolution
from flambeau.ops.cpu_forms.shared_product import shared_product
from flambeau.ops.native import convolution as native
from flambeau.ops.neural.spatial.correlation import LAYOUTS, cross_correlation
from flambeau.ops.neural.spatial.taps import (
    UNROLLED_TAPS,
    Borders,
    Numbers,
    are_patches,
    counts_of,
    padded,
    windows,
)

__all__: list[str] = []

# Convolve up to this many groups one by one, and more groups as one matrix product.
_SEPARATE_GROUPS = 8
# Copy windows of up to this many elements, of all channels together: in XLA's kernel such short
# products take twice as long. Copy longer windows only if there are enough outputs.
_SMALL_WINDOW, _LARGER_WINDOW = 36, 144
# All windows together may be at most this many times as large as the input or the output.
_MOST_COPIES = 10


def convolve(
    input: Any, weight: Any, stride: Numbers, borders: Borders, dilation: Numbers, groups: int
) -> Any:
    """The cross-correlation of ``(N, C, *spatial)`` with ``(O, C / groups, *kernel)``.

    Args:
        input: The images.
        weight: The filters.
        stride: The step from output to output along each spatial dimension.
        borders: Zeros before and after each spatial dimension; negative numbers crop.
        dilation: The step between the taps of a filter.
        groups: The number of groups of channels.
    """
    if is_portable():
        return cross_correlation(input, weight, stride, borders, dilation, groups)
    kernel = weight.shape[2:]
    counts = counts_of(input, kernel, stride, borders, dilation)
    is_small = _are_small(input, weight, counts)
    if not is_small and native.takes(input, weight, groups):
        return native.convolve(input, weight, stride, borders, dilation, groups)
    if not cpu_forms():
        return cross_correlation(input, weight, stride, borders, dilation, groups)
    copied = (
        is_small
        or are_patches(kernel, stride, dilation)
        or math.prod(kernel) == 1
        or _pays_to_copy_windows(weight, stride)
    )
    alone = groups > 1 or (len(weight) == 1 and not copied)
    if alone and groups == input.shape[1]:
        return _channel_by_channel(input, weight, stride, borders, dilation)
    if groups > _SEPARATE_GROUPS:
        if copied or math.prod(kernel) <= UNROLLED_TAPS:
            return _as_product(input, weight, stride, borders, dilation, groups)
        return _group_after_group(input, weight, stride, borders, dilation, groups)
    if groups > 1:
        parts = zip(jnp.split(input, groups, 1), jnp.split(weight, groups, 0), strict=True)
        return jnp.concatenate(
            [convolve(own, filters, stride, borders, dilation, 1) for own, filters in parts], 1
        )
    if copied:
        return _as_product(input, weight, stride, borders, dilation, 1)
    if len(kernel) == 3:
        return _slice_by_slice(input, weight, stride, borders, dilation)
    return plain_convolution(input, weight, stride, borders, dilation)


def _pays_to_copy_windows(weight: Any, stride: Numbers) -> bool:
    """Whether a matrix product with copied windows is faster than XLA's kernel."""
    outputs, inputs, *_ = weight.shape
    window = math.prod(weight.shape[1:])
    if window > _MOST_COPIES * (inputs + outputs):
        return False
    if max(stride) > 1:
        return window <= _SMALL_WINDOW
    return window <= max(_SMALL_WINDOW, min(_LARGER_WINDOW, outputs * 3 // 2))


def _are_small(input: Any, weight: Any, counts: Numbers) -> bool:
    """Whether the filters are as large as the images, and there are few windows.

    XLA then exchanges images and filters, and has no fast kernel: it may take a hundred times as
    long.
    """
    (outputs, inputs, *kernel), spatial = weight.shape, input.shape[2:]
    taps, positions = math.prod(kernel), math.prod(counts)
    copies = inputs * taps * positions
    arrays = inputs * math.prod(spatial) + outputs * positions
    return min(positions, math.prod(spatial)) <= taps and copies <= _MOST_COPIES * arrays


def _channel_by_channel(
    input: Any, weight: Any, stride: Numbers, borders: Borders, dilation: Numbers
) -> Any:
    """Each channel with its own filters."""
    kernel = weight.shape[2:]
    counts = counts_of(input, kernel, stride, borders, dilation)
    dtype = input.dtype
    if dtype.itemsize == 2:
        # To avoid rounding after each tap.
        input, weight = input.astype(jnp.float32), weight.astype(jnp.float32)
    input = padded(input, borders)
    multiple = weight.shape[0] // input.shape[1]
    if multiple > 1:
        input = jnp.repeat(input, multiple, 1)
    filters = weight[:, 0]
    geometry = Geometry(input.shape, filters.shape, counts, stride, dilation)
    return depthwise(input, filters, geometry).astype(dtype)


def _as_product(
    input: Any, weight: Any, stride: Numbers, borders: Borders, dilation: Numbers, groups: int
) -> Any:
    """One matrix product for each group and sample: filters times the windows' elements."""
    kernel = weight.shape[2:]
    counts = counts_of(input, kernel, stride, borders, dilation)
    found = windows(padded(input, borders), kernel, counts, stride, dilation)
    if groups == 1:
        filters = weight.reshape(weight.shape[0], math.prod(weight.shape[1:]))
        found = found.reshape(input.shape[0], filters.shape[1], math.prod(counts))
    else:
        filters = weight.reshape(groups, weight.shape[0] // groups, math.prod(weight.shape[1:]))
        found = found.reshape(input.shape[0], groups, filters.shape[2], math.prod(counts))
    product = shared_product(filters, found)
    return product.reshape(input.shape[0], weight.shape[0], *counts)


def _group_after_group(
    input: Any, weight: Any, stride: Numbers, borders: Borders, dilation: Numbers, groups: int
) -> Any:
    """The groups in a loop, which is compiled once for all of them."""
    batch, channels, *spatial = input.shape
    parts = input.reshape(batch, groups, channels // groups, *spatial).swapaxes(0, 1)
    filters = weight.reshape(groups, len(weight) // groups, *weight.shape[1:])

    def of_one(pair: tuple[Any, Any]) -> Any:
        return convolve(pair[0], pair[1], stride, borders, dilation, 1)

    found = loops.map(of_one, (parts, filters)).swapaxes(0, 1)
    return found.reshape(batch, len(weight), *found.shape[3:])


def _slice_by_slice(
    input: Any, weight: Any, stride: Numbers, borders: Borders, dilation: Numbers
) -> Any:
    """A 3-d convolution as a 2-d one."""
    geometry = volumes.Geometry(input.shape, weight.shape, stride, tuple(borders), dilation)
    outputs, inputs, depth = weight.shape[:3]
    if stride[0] == 1 and outputs <= inputs and depth <= UNROLLED_TAPS:
        return volumes.in_one_step(input, weight, geometry)
    return volumes.slices_as_channels(input, weight, geometry)


def convolve_transposed(
    input: Any, weight: Any, stride: Numbers, borders: Borders, dilation: Numbers, groups: int
) -> Any:
    """The transpose of a convolution, of ``(N, C, *spatial)`` by ``(C, O / groups, *kernel)``.

    Args:
        input: The input of the transposed convolution.
        weight: The filters.
        stride: The step from input to input, seen in the output.
        borders: How much the output is cropped before and after, from ``(size - 1) * stride +
            dilation * (kernel - 1) + 1``; negative numbers enlarge it.
        dilation: The step between the taps of a filter.
        groups: The number of groups of channels.
    """
    kernel = weight.shape[2:]
    if native.takes(input, weight, groups):
        return native.convolve_transposed(input, weight, stride, borders, dilation, groups)
    if cpu_forms() and max(stride) > 1 and max(dilation) == 1:
        return _phase_by_phase(input, weight, stride, borders, groups)
    around = [
        (d * (k - 1) - before, d * (k - 1) - after)
        for k, d, (before, after) in zip(kernel, dilation, borders, strict=True)
    ]
    filters = _mirrored(weight, groups)
    once = (1,) * len(kernel)
    if cpu_forms():
        # XLA's operator for gaps is slow, and aborts at some second derivatives.
        spread = padded(input, [(0, 0)] * len(stride), stride)
        return convolve(spread, filters, once, around, dilation, groups)
    return lax.conv_general_dilated(
        input,
        filters,
        once,
        around,
        lhs_dilation=stride,
        rhs_dilation=dilation,
        dimension_numbers=LAYOUTS[len(kernel)],
        feature_group_count=groups,
    )


def _mirrored(weight: Any, groups: int) -> Any:
    """The filters of a transposed convolution as filters of a convolution."""
    inputs, outputs = weight.shape[:2]
    kernel = weight.shape[2:]
    weight = lax.rev(weight, tuple(range(2, weight.ndim)))
    grouped = weight.reshape((groups, inputs // groups, outputs, *kernel)).swapaxes(1, 2)
    return grouped.reshape((groups * outputs, inputs // groups, *kernel))


def _phase_by_phase(input: Any, weight: Any, stride: Numbers, borders: Borders, groups: int) -> Any:
    """The outputs at each phase of the stride as channels of one convolution.

    Outputs at ``stride * i + phase`` use only the taps ``phase, phase + stride, ...`` of the
    filters.
    """
    kernel, spatial = weight.shape[2:], len(stride)
    per_phase = tuple(-(-k // s) for k, s in zip(kernel, stride, strict=True))
    room = [(0, m * s - k) for m, s, k in zip(per_phase, stride, kernel, strict=True)]
    split = padded(weight, room).reshape(
        *weight.shape[:2], *itertools.chain(*zip(per_phase, stride, strict=True))
    )
    phases = tuple(range(3, 2 + 2 * spatial, 2))
    split = split.transpose(0, 1, *phases, *(each - 1 for each in phases))
    filters = split.reshape(weight.shape[0], -1, *per_phase)
    around = [(m - 1, m - 1) for m in per_phase]
    found = convolve(
        input, _mirrored(filters, groups), (1,) * spatial, around, (1,) * spatial, groups
    )
    sizes = found.shape[2:]
    outputs = found.shape[1] // math.prod(stride)
    found = found.reshape(input.shape[0], outputs, *stride, *sizes)
    pairs = ((2 + spatial + i, 2 + i) for i in range(spatial))
    found = found.transpose(0, 1, *itertools.chain(*pairs))
    found = found.reshape(*found.shape[:2], *(n * s for n, s in zip(sizes, stride, strict=True)))
    # The filters were padded at the end by `room`, and so was the output.
    cropped = [
        (-before, -after - extra) for (before, after), (_, extra) in zip(borders, room, strict=True)
    ]
    return padded(found, cropped)
