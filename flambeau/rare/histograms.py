"""Histograms with bin edges, over numbers or points with several coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from flambeau import return_types
from flambeau.core.kernels.kinds import Array, Arrays
from flambeau.core.operators.op import function, op
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import needs_floating
from flambeau.ops.common.values import concrete_values
from flambeau.ops.shapes.shape import stack

__all__ = ["histogram", "histogramdd"]


@op(name="histogramdd", differentiable=False)
def _counts(points: Array, edges: Arrays, weight: Array | None, density: bool) -> Array:
    """The number of ``points`` ``(n, dimensions)`` in each box between the edges."""
    shape = tuple(len(each) - 1 for each in edges)
    inside = jnp.ones(len(points), bool)
    places = []
    for column, each in zip(points.T, edges, strict=True):
        place = jnp.searchsorted(each, column, side="right") - 1
        # The last bin includes its upper edge.
        places.append(jnp.where(column == each[-1], len(each) - 2, place))
        inside &= (column >= each[0]) & (column <= each[-1])
    weights = jnp.ones(len(points), points.dtype) if weight is None else weight.ravel()
    counts = jnp.zeros(shape, points.dtype)
    counts = counts.at[tuple(places)].add(jnp.where(inside, weights, 0), mode="drop")
    if not density:
        return counts
    counts = counts / counts.sum()
    for dim, each in enumerate(edges):
        widths = jnp.diff(each).reshape([-1 if n == dim else 1 for n in range(len(edges))])
        counts = counts / widths
    return counts


@op(name="histogram_edges", differentiable=False)
def _edges(low: Array, high: Array, bins: int) -> Array:
    # An empty range is widened by one half on both sides.
    flat = low == high
    low, high = jnp.where(flat, low - 0.5, low), jnp.where(flat, high + 0.5, high)
    return jnp.linspace(low, high, bins + 1, dtype=low.dtype)


def _histogram(
    name: str, points: Tensor, bins: Sequence[Any], ranges: Any, weight: Any, density: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    needs_floating(name, points._read())
    dimensions = points.size(-1)
    if len(bins) != dimensions:
        raise RuntimeError(
            f"{name}(): bins for {len(bins)} coordinates, but the points have {dimensions}"
        )
    if ranges is not None and len(ranges) != 2 * dimensions:
        raise RuntimeError(
            f"{name}(): range needs {2 * dimensions} numbers, a least and a greatest for each "
            f"coordinate, got {len(ranges)}"
        )
    if weight is not None and tuple(weight.shape) != tuple(points.shape[:-1]):
        raise RuntimeError(
            f"{name}(): weight of shape {list(weight.shape)} for points of shape "
            f"{list(points.shape[:-1])}"
        )
    for each in bins:
        if isinstance(each, Tensor) and each.dtype is not points.dtype:
            raise RuntimeError(
                f"{name}(): edges of {each.dtype} for points of {points.dtype}; convert one"
            )
    points = points.detach().reshape(-1, dimensions)
    edges = [
        each if isinstance(each, Tensor)
        else _equal_bins(name, points[:, n], each, ranges and ranges[2 * n : 2 * n + 2])
        for n, each in enumerate(bins)
    ]  # fmt: skip
    return _counts(points, edges, weight, density), tuple(edges)


def _equal_bins(name: str, column: Tensor, bins: int, ends: Any) -> Tensor:
    """The edges of ``bins`` ranges of equal width, between two ends or the extremes of the data."""
    if bins < 1:
        raise RuntimeError(f"{name}(): the number of bins must be positive, got {bins}")
    if ends:
        low, high = (column.new_tensor(each) for each in ends)
    elif column.numel():
        low, high = column.min(), column.max()
    else:
        low, high = column.new_zeros(()), column.new_ones(())
    known = concrete_values(stack((low, high)))
    if known is not None:
        if not math.isfinite(float(known.sum())):
            raise RuntimeError(f"{name}(): the range from {known[0]} to {known[1]} is not finite")
        if known[0] > known[1]:
            raise RuntimeError(f"{name}(): the range from {known[0]} to {known[1]} is empty")
    return _edges(low, high, bins)


@function(method=True)
def histogram(
    input: Tensor,
    bins: Any = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """The number of elements between neighbouring edges.

    Args:
        input: A floating point tensor of any shape.
        bins: The number of ranges of equal width; or the edges, ascending, shape ``(bins + 1,)``.
        range: The start of the first range and the end of the last one; by default the least and
            the greatest element. Elements outside are not counted.
        weight: The weight of each element, of the shape of ``input``; by default 1.
        density: Normalize, so that the integral over all ranges is 1.

    Returns:
        ``hist`` of shape ``(bins,)`` and ``bin_edges`` of shape ``(bins + 1,)``.

    Raises:
        NotImplementedError: ``input`` is not floating point.
        RuntimeError: There is no bin; the range is empty or not finite; the weights do not fit.
    """
    points = input.reshape(-1, 1)
    weight = weight if weight is None or weight.shape != input.shape else weight.reshape(-1)
    hist, edges = _histogram("histogram", points, [bins], range, weight, density)
    return return_types.histogram(hist, edges[0])


@function
def histogramdd(
    input: Tensor,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """The number of points in each box of a grid.

    Args:
        input: Points of shape ``(..., n)`` in n dimensions.
        bins: The number of ranges of equal width along each dimension; or one number for all; or
            the edges for each.
        range: The least and greatest coordinate of each dimension, in sequence.
        weight: The weight of each point, shape ``(...)``.
        density: Normalize, so that the integral over the grid is 1.

    Returns:
        ``hist``, with a dimension for each coordinate, and a tuple ``bin_edges``.

    Raises:
        RuntimeError: As for `histogram`.
    """
    bins = (bins,) * input.size(-1) if isinstance(bins, int) else tuple(bins)
    return return_types.histogramdd(*_histogram("histogramdd", input, bins, range, weight, density))
