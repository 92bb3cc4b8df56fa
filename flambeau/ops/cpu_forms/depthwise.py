"""Convolutions in which each channel has a filter of its own, for a CPU.

Each place in the filter is a product of the whole input, shifted, with one number per channel.
The sum of those is one loop; so is the gradient of the input, which is a convolution with the
mirrored filters; and the gradient of the filters is one loop for each place.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from flambeau.ops.cpu_forms.fused_sum import fused_sum
from flambeau.ops.cpu_forms.trilinear import trilinear
from flambeau.ops.neural.taps import taps

Numbers = tuple[int, ...]

# The gradient of filters with more taps than this is a loop.
_COMPILED_TAPS = 25


class Geometry(NamedTuple):
    """The static arguments of a convolution.

    Attributes:
        left: The input's shape, ``(N, C, *spatial)``; it is padded already.
        right: The shape of the filters, ``(C, *kernel)``.
        counts: How many outputs there are along each spatial dimension.
        stride: The step from output to output.
        dilation: The step between the taps of a filter.
    """

    left: Numbers
    right: Numbers
    counts: Numbers
    stride: Numbers
    dilation: Numbers

    def taps(self, input: Any) -> list[Any]:
        """The input that each place of the filters is multiplied with."""
        return taps(input, self.right[1:], self.counts, self.stride, self.dilation)


def _by_channel(filters: Any) -> Any:
    """``(C, *kernel)`` as one factor ``(C, 1, ...)`` for each place."""
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
        # Behind the last window there may be elements that no output sees.
        unseen = size - (count - 1) * stride - 1 - reach
        around.append((reach, reach + unseen, stride - 1))
    spread = lax.pad(cotangent, np.zeros((), cotangent.dtype), around)
    mirrored = lax.rev(filters, tuple(range(1, filters.ndim)))
    back = geometry._replace(left=spread.shape, counts=geometry.left[2:], stride=(1,) * spatial)
    return _output(spread, mirrored, back)


def _filter_gradient(cotangent: Any, input: Any, geometry: Geometry) -> Any:
    # Along a dimension that is not the last, so that neighbours are summed side by side.
    axis = cotangent.ndim - 2 if cotangent.ndim > 3 else 0
    input = lax.optimization_barrier(input)

    def sums_of(input: Any, part: Geometry) -> Any:
        return jnp.stack([fused_sum(shifted * cotangent, axis) for shifted in part.taps(input)])

    sums = _along_the_longest(sums_of, input, geometry)
    channels = 2 if axis > 0 else 1
    others = tuple(each for each in range(1, sums.ndim) if each != channels)
    return jnp.sum(sums, others).T.reshape(geometry.right)


def _along_the_longest(sums_of: Any, input: Any, geometry: Geometry) -> Any:
    """The sums for all taps; with many taps, in a loop along the longest side of the filter.

    XLA compiles each tap for a tenth of a second, and may compute the cotangent again for each.
    """
    kernel = geometry.right[1:]
    if math.prod(kernel) <= _COMPILED_TAPS:
        return sums_of(input, geometry)
    size = max(kernel)
    side = kernel.index(size)
    reach = (geometry.counts[side] - 1) * geometry.stride[side] + 1
    line = geometry._replace(
        right=(geometry.right[0], *(1 if each == side else k for each, k in enumerate(kernel)))
    )

    def of_line(start: Any) -> Any:
        return sums_of(lax.dynamic_slice_in_dim(input, start, reach, side + 2), line)

    starts = geometry.dilation[side] * np.arange(size, dtype=np.int32)
    found = lax.map(of_line, jnp.asarray(starts))
    # As the taps count: the longest side in its place among the others.
    shape = (size, *line.right[1:], *found.shape[2:])
    return jnp.moveaxis(found.reshape(shape), 0, side).reshape(-1, *found.shape[2:])


depthwise: Any = trilinear("depthwise", _output, _output, _input_gradient, _filter_gradient)
