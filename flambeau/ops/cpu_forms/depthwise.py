"""Depthwise convolutions for a CPU: each channel has its own filter.

Each tap is a product of the whole shifted input with one number per channel. The sum of these
products is one loop. So is the gradient of the input, a convolution with the mirrored filters. The
gradient of the filters is one loop for each tap in a row.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from flambeau.ops.common import loops
from flambeau.ops.cpu_forms.fused_sum import fused_sum
from flambeau.ops.cpu_forms.trilinear import trilinear
from flambeau.ops.neural.spatial.taps import taps

Numbers = tuple[int, ...]


class Geometry(NamedTuple):
    """The static arguments of a convolution.

    Attributes:
        left: The input's shape, ``(N, C, *spatial)``; it is padded already.
        right: The shape of the filters, ``(C, *kernel)``.
        counts: The number of outputs along each spatial dimension.
        stride: The step from output to output.
        dilation: The step between the taps of a filter.
    """

    left: Numbers
    right: Numbers
    counts: Numbers
    stride: Numbers
    dilation: Numbers

    def taps(self, input: Any) -> list[Any]:
        """For each tap, the part of the input that it is multiplied with."""
        return taps(input, self.right[1:], self.counts, self.stride, self.dilation)


def _by_channel(filters: Any) -> Any:
    """``(C, *kernel)`` as one factor ``(C, 1, ...)`` for each tap."""
    spatial = filters.ndim - 1
    flat = filters.reshape(filters.shape[0], -1, *(1,) * spatial)
    return [flat[:, place] for place in range(flat.shape[1])]


def _output(input: Any, filters: Any, geometry: Geometry) -> Any:
    found = zip(geometry.taps(input), _by_channel(filters), strict=True)
    return functools.reduce(jnp.add, [shifted * factor for shifted, factor in found])


def _input_gradient(cotangent: Any, filters: Any, geometry: Geometry) -> Any:
    spatial = len(geometry.counts)
    around = [(0, 0, 0)] * 2
    for size, count, kernel, stride, dilation in zip(
        geometry.left[2:], geometry.counts, geometry.right[1:], geometry.stride, geometry.dilation,
        strict=True,
    ):  # fmt: skip
        reach = dilation * (kernel - 1)
        # After the last window there may be elements that no output uses.
        unseen = size - (count - 1) * stride - 1 - reach
        around.append((reach, reach + unseen, stride - 1))
    spread = lax.pad(cotangent, np.zeros((), cotangent.dtype), around)
    mirrored = lax.rev(filters, tuple(range(1, filters.ndim)))
    back = geometry._replace(left=spread.shape, counts=geometry.left[2:], stride=(1,) * spatial)
    return _output(spread, mirrored, back)


def _filter_gradient(cotangent: Any, input: Any, geometry: Geometry) -> Any:
    kernel = geometry.right[1:]
    # A loop along the longest side: without one, XLA compiles each tap for a tenth of a second, and
    # recomputes the cotangent, with the whole forward that it depends on, for each.
    size = max(kernel)
    side = kernel.index(size)
    reach = (geometry.counts[side] - 1) * geometry.stride[side] + 1
    line = geometry._replace(
        right=(geometry.right[0], *(1 if each == side else k for each, k in enumerate(kernel)))
    )

    def of_line(start: Any) -> Any:
        part = lax.dynamic_slice_in_dim(input, start, reach, side + 2)
        return jnp.stack([_sum_of_channels(each * cotangent) for each in line.taps(part)])

    starts = geometry.dilation[side] * np.arange(size, dtype=np.int32)
    # In the order of the taps: the longest side moved back to its place.
    found = loops.map(of_line, jnp.asarray(starts)).reshape(size, *line.right[1:], -1)
    return jnp.moveaxis(found, (0, -1), (side + 1, 0)).reshape(geometry.right)


def _sum_of_channels(products: Any) -> Any:
    """The sum of ``(N, C, *spatial)`` over all but the channels."""
    # First along a dimension other than the last, so that neighbours are summed side by side.
    axis = products.ndim - 2 if products.ndim > 3 else 0
    sums = fused_sum(products, axis)
    channels = 1 if axis > 0 else 0
    return jnp.sum(sums, tuple(each for each in range(sums.ndim) if each != channels))


depthwise: Any = trilinear("depthwise", _output, _output, _input_gradient, _filter_gradient)
