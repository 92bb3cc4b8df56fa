"""Convolutions over three dimensions as convolutions over two, for a CPU.

The first dimension, the depth, can be eliminated in two ways. Either the input slices that a filter
covers become channels, or the slices of the filter become outputs, which are shifted and summed
afterwards. The second is faster for the output and for the gradient of the filters, the first for
the gradient of the input.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from flambeau.ops.cpu_forms.plain_convolution import plain_convolution
from flambeau.ops.cpu_forms.trilinear import trilinear
from flambeau.ops.neural.spatial.taps import Borders, Numbers, counts_of, padded, windows_along


class Geometry(NamedTuple):
    """The static arguments of a convolution.

    Attributes:
        left: The input's shape, ``(N, C, D, H, W)``.
        right: The shape of the filters, ``(O, C, KD, KH, KW)``.
        stride: The step from output to output.
        borders: Zeros before and after each dimension; negative numbers crop.
        dilation: The step between the taps of a filter.
    """

    left: Numbers
    right: Numbers
    stride: Numbers
    borders: tuple[tuple[int, int], ...]
    dilation: Numbers

    def planes(self, slices: Any, filters: Any) -> Any:
        """The convolution of ``(N, C, H, W)`` with ``(O, C, KH, KW)``."""
        borders: Borders = list(self.borders[1:])
        return plain_convolution(slices, filters, self.stride[1:], borders, self.dilation[1:])

    def depth(self, input: Any) -> int:
        """The depth of the output."""
        borders: Borders = list(self.borders)
        return counts_of(input, self.right[2:], self.stride, borders, self.dilation)[0]


def slices_as_channels(input: Any, filters: Any, geometry: Geometry) -> Any:
    """The convolution, with ``C * KD`` channels for each slice of the output."""
    batch, channels = input.shape[:2]
    outputs, _, depth, *kernel = filters.shape
    count = geometry.depth(input)
    input = padded(input, [geometry.borders[0], (0, 0), (0, 0)])
    rows = windows_along(input, 2, depth, count, geometry.stride[0], geometry.dilation[0])
    slices = jnp.moveaxis(rows, 3, 1).reshape(batch * count, channels * depth, *input.shape[3:])
    found = geometry.planes(slices, filters.reshape(outputs, channels * depth, *kernel))
    return jnp.moveaxis(found.reshape(batch, count, *found.shape[1:]), 1, 2)


def _slices_as_outputs(input: Any, filters: Any, geometry: Geometry) -> Any:
    """The convolution, with ``O * KD`` outputs for each slice of the input, at stride 1."""
    batch, channels, size = input.shape[:3]
    outputs, _, depth, *kernel = filters.shape
    count = geometry.depth(input)
    slices = jnp.moveaxis(input, 2, 1).reshape(batch * size, channels, *input.shape[3:])
    split = jnp.moveaxis(filters, 2, 0).reshape(depth * outputs, channels, *kernel)
    found = geometry.planes(slices, split)
    found = found.reshape(batch, size, depth, outputs, *found.shape[2:])
    zero = jnp.zeros((), found.dtype)
    rooms = [(0, 0, 0), (*geometry.borders[0], 0), *[(0, 0, 0)] * (found.ndim - 2)]
    found = lax.optimization_barrier(lax.pad(found, zero, rooms))
    starts = (place * geometry.dilation[0] for place in range(depth))
    moved = (found[:, at : at + count, place] for place, at in enumerate(starts))
    return jnp.moveaxis(functools.reduce(jnp.add, moved), 1, 2)


def _input_gradient(cotangent: Any, filters: Any, geometry: Geometry) -> Any:
    input = jax.ShapeDtypeStruct(geometry.left, cotangent.dtype)
    pull = jax.linear_transpose(lambda x: slices_as_channels(x, filters, geometry), input)
    return pull(cotangent)[0]


def _filter_gradient(cotangent: Any, input: Any, geometry: Geometry) -> Any:
    batch, channels, size = input.shape[:3]
    outputs, _, depth, *kernel = geometry.right
    before, count = geometry.borders[0][0], cotangent.shape[2]
    starts = [before - place * geometry.dilation[0] for place in range(depth)]
    sides = [(0, 0)] * len(kernel)
    # For each slice of the filters, its contribution from the slices of the input.
    moved = [padded(cotangent, [(-at, size + at - count), *sides]) for at in starts]
    spread = jnp.moveaxis(jnp.stack(moved, 1), 3, 1)
    spread = spread.reshape(batch * size, depth * outputs, *cotangent.shape[3:])
    slices = jnp.moveaxis(input, 2, 1).reshape(batch * size, channels, *input.shape[3:])
    split = jax.ShapeDtypeStruct((depth * outputs, channels, *kernel), cotangent.dtype)
    (found,) = jax.linear_transpose(lambda w: geometry.planes(slices, w), split)(spread)
    return jnp.moveaxis(found.reshape(depth, outputs, channels, *kernel), 0, 2)


in_one_step: Any = trilinear(
    "convolution_of_volumes",
    slices_as_channels,
    _slices_as_outputs,
    _input_gradient,
    _filter_gradient,
)
