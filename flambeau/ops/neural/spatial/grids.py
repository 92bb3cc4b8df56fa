"""Images sampled at the points of a grid, and the grids of affine maps."""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import op
from flambeau.ops.common.checks import needs_floating, same_dtype

__all__ = ["affine_grid_generator"]


@op(linear=True)
def affine_grid_generator(
    theta: Array, size: tuple[int, ...], align_corners: bool = False
) -> Array:
    """The positions to which an affine map takes the pixels of an image.

    Args:
        theta: ``(N, 2, 3)`` or ``(N, 3, 4)``.
        size: ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        align_corners: Interpret -1 and 1 as the centers of the outermost pixels, not as their
            edges.

    Returns:
        ``(N, H, W, 2)`` or ``(N, D, H, W, 3)``, x first.
    """
    spatial = len(size) - 2
    axes = [_coordinates(count, align_corners, theta.dtype) for count in size[2:]]
    mesh = jnp.meshgrid(*axes, indexing="ij")
    points = jnp.stack([*reversed(mesh), jnp.ones_like(mesh[0])], -1)
    mapped = jnp.einsum("pk,nik->npi", points.reshape(-1, spatial + 1), theta)
    return mapped.reshape((size[0], *size[2:], spatial))


def _coordinates(count: int, align_corners: bool, dtype: Any) -> Any:
    if count <= 1:
        return jnp.zeros(count, dtype)
    positions = jnp.linspace(-1, 1, count, dtype=dtype)
    return positions if align_corners else positions * ((count - 1) / count)


@op(node="GridSampler2DBackward0")
def grid_sample(
    input: Array, grid: Array, mode: str, padding_mode: str, align_corners: bool
) -> Array:
    """The operator of `nn.functional.grid_sample`; see there."""
    _check_grid(input, grid, mode)
    sizes = input.shape[2:]
    spatial = len(sizes)
    points = [
        _unnormalized(grid[..., spatial - 1 - i], size, align_corners)
        for i, size in enumerate(sizes)
    ]
    if mode == "bicubic":
        return _sample_cubic(input, points, padding_mode, align_corners)
    points = [
        _bounded(point, size, padding_mode, align_corners)
        for point, size in zip(points, sizes, strict=True)
    ]
    if mode == "nearest":
        return _looked_up(input, [jnp.round(each) for each in points])
    total = 0
    lower = [jnp.floor(each) for each in points]
    for corner in itertools.product((0, 1), repeat=spatial):
        places = [low + offset for low, offset in zip(lower, corner, strict=True)]
        weight = math.prod(
            point - low if offset else 1 - (point - low)
            for point, low, offset in zip(points, lower, corner, strict=True)
        )
        total = total + _looked_up(input, places) * jnp.expand_dims(weight, 1)
    return jnp.asarray(total)


def _check_grid(input: Any, grid: Any, mode: str) -> None:
    needs_floating("grid_sample", input)
    same_dtype("grid_sample", input, grid)
    shapes = f"got input of shape {list(input.shape)} and grid of shape {list(grid.shape)}"
    if input.ndim not in (4, 5) or grid.ndim != input.ndim:
        raise RuntimeError(f"grid_sample() takes two 4-d or two 5-d tensors, {shapes}")
    if grid.shape[0] != input.shape[0]:
        raise RuntimeError(f"grid_sample(): the batch sizes differ, {shapes}")
    if grid.shape[-1] != input.ndim - 2:
        raise RuntimeError(
            f"grid_sample(): the grid's last dimension must have size {input.ndim - 2}, {shapes}"
        )
    if 0 in input.shape[2:]:
        raise RuntimeError(f"grid_sample(): the image must not be empty, {shapes}")
    if mode == "bicubic" and input.ndim == 5:
        raise RuntimeError(f"grid_sample(): mode='bicubic' takes 4-d tensors, {shapes}")


def _unnormalized(coordinate: Any, size: int, align_corners: bool) -> Any:
    """A coordinate in [-1, 1] converted to pixels."""
    if align_corners:
        return (coordinate + 1) / 2 * (size - 1)
    return ((coordinate + 1) * size - 1) / 2


def _bounded(point: Any, size: int, padding_mode: str, align_corners: bool) -> Any:
    if padding_mode == "zeros":
        return point
    if padding_mode == "reflection":
        point = _reflected(point, size, align_corners)
    # Without a gradient on and beyond the border, where jnp.clip would halve it; NaN maps to the
    # first.
    top = jnp.asarray(size - 1, point.dtype)
    return jnp.where(point >= top, top, jnp.where(point > 0, point, 0)).astype(point.dtype)


def _reflected(point: Any, size: int, align_corners: bool) -> Any:
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if span == 0:
        return jnp.zeros_like(point)
    distance = jnp.where(point < low, low - point, point - low)
    turns = jnp.floor(distance / span)
    rest = distance - turns * span
    return jnp.where(turns % 2 == 0, rest + low, span - rest + low)


def _looked_up(input: Any, places: list[Any]) -> Any:
    """``(N, C, *points)``: the elements at integer positions, zeros outside."""
    sizes = input.shape[2:]
    inside = jnp.ones((), bool)
    flat = jnp.zeros((), jnp.int64)
    for place, size in zip(places, sizes, strict=True):
        inside = inside & (place >= 0) & (place <= size - 1)
        index = jnp.clip(jnp.nan_to_num(place), 0, size - 1).astype(jnp.int64)
        flat = flat * size + index
    batch, channels = input.shape[:2]
    spread = input.reshape(batch, channels, math.prod(sizes))
    found = jnp.take_along_axis(spread, flat.reshape(batch, 1, math.prod(flat.shape[1:])), 2)
    found = found.reshape((batch, channels, *flat.shape[1:]))
    return jnp.where(inside[:, None], found, jnp.zeros_like(found))


def _sample_cubic(input: Any, points: list[Any], padding_mode: str, align_corners: bool) -> Any:
    sizes = input.shape[2:]
    lower = [jnp.floor(each) for each in points]
    shares = [_cubic_shares(point - low) for point, low in zip(points, lower, strict=True)]
    total = 0
    for row, column in itertools.product(range(4), repeat=2):
        places = [
            _bounded(low + offset - 1, size, padding_mode, align_corners)
            for low, offset, size in zip(lower, (row, column), sizes, strict=True)
        ]
        weight = shares[0][row] * shares[1][column]
        total = total + _looked_up(input, places) * weight[:, None]
    return jnp.asarray(total)


def _cubic_shares(fraction: Any) -> list[Any]:
    """Keys' cubic convolution, slope -0.75, for the four neighbours of a point."""
    a = -0.75

    def near(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(fraction + 1), near(fraction), near(1 - fraction), far(2 - fraction)]
