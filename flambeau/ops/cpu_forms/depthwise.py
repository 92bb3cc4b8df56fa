"""Depthwise convolutions for a CPU: each channel has its own filter.

Each tap is a product of the whole shifted input with one number per channel. The sum of these
products is one loop. So is the gradient of the input, a convolution with the mirrored filters. The
gradient of the filters is one loop for each tap in a row.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from flambeau.ops.common import loops
from flambeau.ops.cpu_forms.fused_sum import fused_sum
from flambeau.ops.cpu_forms.trilinear import trilinear
from flambeau.ops.neural.spatial.taps import UNROLLED_TAPS, taps

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

    def lines(self) -> Lines:
        """The taps as lines across the longest side of the filters."""
        kernel = self.right[1:]
        size = max(kernel)
        side = kernel.index(size)
        right = (1 if each == side else length for each, length in enumerate(kernel))
        return Lines(
            side,
            self.dilation[side] * np.arange(size, dtype=np.int32),
            (self.counts[side] - 1) * self.stride[side] + 1,
            self._replace(right=(self.right[0], *right)),
        )


def _by_channel(filters: Any) -> Any:
    """``(C, *kernel)`` as one factor ``(C, 1, ...)`` for each tap."""
    spatial = filters.ndim - 1
    flat = filters.reshape(filters.shape[0], -1, *(1,) * spatial)
    return [flat[:, place] for place in range(flat.shape[1])]


class Lines(NamedTuple):
    """The taps of filters as lines across their longest side.

    Attributes:
        side: The longest side.
        starts: The place in the input where each line begins.
        reach: The length of the input that a line takes.
        geometry: That of one line.
    """

    side: int
    starts: np.ndarray
    reach: int
    geometry: Geometry

    def part(self, input: Any, start: Any) -> Any:
        """The part of the input that the line beginning at ``start`` takes."""
        return lax.dynamic_slice_in_dim(input, start, self.reach, self.side + 2)


def _output(input: Any, filters: Any, geometry: Geometry) -> Any:
    if math.prod(geometry.right[1:]) > UNROLLED_TAPS:
        return _line_after_line(input, filters, geometry)
    found = zip(geometry.taps(input), _by_channel(filters), strict=True)
    return functools.reduce(jnp.add, [shifted * factor for shifted, factor in found])


def _line_after_line(input: Any, filters: Any, geometry: Geometry) -> Any:
    """`_output` for filters of many taps, which would take long to compile as one sum."""
    lines = geometry.lines()
    by_line = jnp.moveaxis(filters, lines.side + 1, 0)

    def add(total: Any, line: Any) -> Any:
        start, own = line
        own = jnp.expand_dims(own, lines.side + 1)
        return total + _output(lines.part(input, start), own, lines.geometry), None

    zeros = jnp.zeros((*geometry.left[:2], *geometry.counts), input.dtype)
    return loops.scan(add, zeros, (jnp.asarray(lines.starts), by_line))[0]


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
    # A loop along the longest side: without one, XLA compiles each tap for a tenth of a second, and
    # recomputes the cotangent, with the whole forward that it depends on, for each.
    lines = geometry.lines()
    line = lines.geometry

    def of_line(start: Any) -> Any:
        part = lines.part(input, start)
        if math.prod(line.right[1:]) > UNROLLED_TAPS:
            return jnp.moveaxis(_filter_gradient(cotangent, part, line), 0, -1)
        found = [_sum_of_channels(each * cotangent) for each in line.taps(part)]
        return jnp.stack(found).reshape(*line.right[1:], -1)

    # In the order of the taps: the longest side moved back to its place.
    found = loops.map(of_line, jnp.asarray(lines.starts))
    return jnp.moveaxis(found, (0, -1), (lines.side + 1, 0)).reshape(geometry.right)


def _sum_of_channels(products: Any) -> Any:
    """The sum of ``(N, C, *spatial)`` over all but the channels."""
    # First along a dimension other than the last, so that neighbours are summed side by side.
    axis = products.ndim - 2 if products.ndim > 3 else 0
    sums = fused_sum(products, axis)
    channels = 1 if axis > 0 else 0
    return jnp.sum(sums, tuple(each for each in range(sums.ndim) if each != channels))


depthwise: Any = trilinear("depthwise", _output, _output, _input_gradient, _filter_gradient)
