"""Resizing images: nearest, linear, cubic and area interpolation.

Interpolation along one dimension is a matrix that does not depend on the image. NumPy computes it
when an operator is traced, in the precision of the image, as in PyTorch. The program is one matrix
product per dimension, or a sum over neighbours if the matrix would be large. The neighbours of an
open size (see `jax.export`) are computed in the program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import lax

from flambeau.core.kernels.kinds import SIZES, Array
from flambeau.core.operators.op import op
from flambeau.ops.common.derivatives import moved
from flambeau.ops.common.dims import is_open

__all__: list[str] = []

# For each spatial dimension the caller's factor, or None if only the size was given.
Scales: TypeAlias = tuple[Any, ...]

Dims: TypeAlias = Annotated[tuple[int, ...], SIZES]

# Larger matrices would be mostly zeros, and would take much memory.
_LARGEST_MATRIX = 1 << 22


class Neighbours(NamedTuple):
    """The inputs of each output along one dimension.

    Attributes:
        places: ``(outputs, width)``: positions in the input.
        weights: ``(outputs, width)``: the factors of the inputs.
    """

    places: Any
    weights: Any

    def summed(self, array: Any, axis: int) -> Any:
        """``array`` with dimension ``axis`` replaced by the outputs."""
        outputs, width = self.places.shape
        is_known = isinstance(self.places, np.ndarray)
        if not is_known or outputs * array.shape[axis] > _LARGEST_MATRIX:
            shape = *array.shape[:axis], outputs, width, *array.shape[axis + 1 :]
            taken = jnp.take(array, self.places.reshape(-1), axis, mode="clip").reshape(shape)
            after = (1,) * (array.ndim - axis - 1)
            return jnp.sum(taken * self.weights.reshape(outputs, width, *after), axis + 1)
        matrix = np.zeros((outputs, array.shape[axis]), self.weights.dtype)
        np.add.at(matrix, (np.arange(outputs)[:, None], self.places), self.weights)
        product = lax.dot_general(
            array, matrix, (((axis,), (1,)), ((), ())), precision=lax.Precision.HIGHEST
        )
        return jnp.moveaxis(product, -1, axis)


class _JaxNumber(NamedTuple):
    """Numbers of a dtype that a program computes from open sizes."""

    dtype: Any

    def __call__(self, value: Any) -> Any:
        return jnp.asarray(value).astype(self.dtype)


def _number(dtype: Any, *sizes: Any) -> Any:
    """The type of numbers that are computed from ``sizes``: NumPy's, or JAX's if one is open."""
    return _JaxNumber(dtype) if any(map(is_open, sizes)) else np.dtype(dtype).type


def _numpy_of(number: Any) -> Any:
    """`numpy`, or `jax.numpy` for JAX's numbers."""
    return jnp if isinstance(number, _JaxNumber) else np


def _positions(outputs: Any, number: Any) -> Any:
    return _numpy_of(number).arange(outputs).astype(number(0).dtype)


def _step(size: int, outputs: int, align_corners: bool, scale: Any, number: Any) -> Any:
    """The distance in the input between neighbouring outputs."""
    if align_corners:
        return number(size - 1) / number(outputs - 1) if outputs > 1 else number(0)
    if scale is not None and scale > 0:
        return number(1.0 / scale)
    return number(size) / number(outputs)


def nearest_positions(size: int, outputs: int, scale: Any, exact: bool) -> Any:
    """The input that each output copies."""
    number = _number(np.float32, size, outputs)
    numpy = _numpy_of(number)
    step = _step(size, outputs, False, scale, number)
    places = _positions(outputs, number) + number(0.5 if exact else 0)
    return numpy.minimum(numpy.floor(places * step).astype(np.int64), size - 1)


def _centers(size: int, outputs: int, align_corners: bool, scale: Any, number: Any) -> Any:
    """The position in the input of each output."""
    step = _step(size, outputs, align_corners, scale, number)
    places = _positions(outputs, number)
    if align_corners:
        return places * step
    # Rounded once, like a fused multiply-add. A second rounding to single precision is a hundredth
    # of the distance to the next input at 100,000 outputs.
    product = (places + number(0.5)).astype(np.float64) * step.astype(np.float64)
    return (product - 0.5).astype(step.dtype)


def between_two(
    size: int, outputs: int, align_corners: bool, scale: Any, number: Any
) -> Neighbours:
    """Each output interpolated between its two neighbours."""
    numpy = _numpy_of(number)
    centers = numpy.maximum(_centers(size, outputs, align_corners, scale, number), number(0))
    left = numpy.minimum(centers.astype(np.int64), size - 1)
    right = numpy.minimum(left + 1, size - 1)
    share = numpy.clip(centers - left, 0, 1).astype(centers.dtype)
    return Neighbours(numpy.stack([left, right], 1), numpy.stack([number(1) - share, share], 1))


def cubic_weight(distance: Any, a: float) -> Any:
    """Keys' cubic convolution kernel; ``a`` is its slope at distance 1.

    R. Keys, Cubic convolution interpolation for digital image processing, 1981.
    """
    x = abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    numpy = np if isinstance(x, np.ndarray) else jnp
    return numpy.where(x <= 1, near, numpy.where(x < 2, far, 0))


def among_four(size: int, outputs: int, align_corners: bool, scale: Any, number: Any) -> Neighbours:
    """Each output interpolated from four neighbours, with the edges repeated."""
    numpy = _numpy_of(number)
    centers = _centers(size, outputs, align_corners, scale, number)[:, None]
    offsets = np.arange(-1, 3, dtype=centers.dtype)
    first = numpy.floor(centers)
    weights = cubic_weight((centers - first) - offsets, -0.75).astype(centers.dtype)
    return Neighbours(numpy.clip(first + offsets, 0, size - 1).astype(np.int64), weights)


def _triangle(distance: Any) -> Any:
    return np.maximum(1 - np.abs(distance), 0)


def _smooth_cubic(distance: Any) -> Any:
    return cubic_weight(distance, -0.5)


def _lanczos(distance: Any) -> Any:
    return np.where(np.abs(distance) < 3, np.sinc(distance) * np.sinc(distance / 3), 0)


# The kernels of `antialiased`, and their radii.
_KERNELS: dict[str, tuple[Callable[..., Any], int]] = {
    "linear": (_triangle, 1),
    "cubic": (_smooth_cubic, 2),
    "lanczos": (_lanczos, 3),
}


def antialiased(
    size: int, outputs: int, align_corners: bool, scale: Any, number: Any, mode: str
) -> Neighbours:
    """Kernels as wide as the distance between outputs, as in Pillow."""
    kernel, reach = _KERNELS[mode]
    step = _step(size, outputs, align_corners, scale, number)
    width = max(step, number(1))
    support = number(reach) * width
    centers = step * (np.arange(outputs, dtype=number) + number(0.5))
    first = np.maximum((centers - support + number(0.5)).astype(np.int64), 0)
    last = np.minimum((centers + support + number(0.5)).astype(np.int64), size)
    places = first[:, None] + np.arange((last - first).max())
    weights = kernel((places + number(0.5) - centers[:, None]) / width)
    weights = np.where(places < last[:, None], weights, 0)
    weights = (weights / weights.sum(1, keepdims=True)).astype(number)
    return Neighbours(np.minimum(places, size - 1), weights)


def _checked_sizes(input: Any, sizes: tuple[int, ...]) -> None:
    if any(each <= 0 for each in sizes) or 0 in input.shape[1:]:
        raise RuntimeError(
            f"interpolate(): sizes must be positive, got an input of shape {list(input.shape)} "
            f"and an output of size {list(sizes)}"
        )


@op(node="UpsampleNearest2DBackward0", linear=True)
def interpolate_nearest(
    input: Array, sizes: Dims, scales: tuple[float | None, ...], exact: bool = False
) -> Array:
    """``(N, C, ...)`` with each output a copy of the input nearest to it.

    Args:
        input: With one, two or three spatial dimensions.
        sizes: The new spatial sizes.
        scales: The factors of the sizes, if given.
        exact: Use the centers of the pixels, not their corners, to find the nearest.
    """
    _checked_sizes(input, sizes)
    for i, (outputs, scale) in enumerate(zip(sizes, scales, strict=True)):
        size = input.shape[2 + i]
        positions = nearest_positions(size, outputs, scale, exact)
        is_known = isinstance(positions, np.ndarray)
        if (
            is_known
            and outputs % size == 0
            and (positions == np.arange(outputs) // (outputs // size)).all()
        ):
            read = functools.partial(jnp.repeat, repeats=outputs // size, axis=2 + i)
        else:
            read = functools.partial(jnp.take, indices=positions, axis=2 + i)
        input = moved(read, input)
    return input


@op(node="UpsampleBilinear2DBackward0", linear=True)
def interpolate_smoothly(
    input: Array,
    sizes: Dims,
    scales: tuple[float | None, ...],
    mode: str,
    align_corners: bool = False,
    antialias: bool = False,
) -> Array:
    """``(N, C, ...)`` interpolated between neighbours along each spatial dimension.

    Args:
        input: With one, two or three spatial dimensions.
        sizes: The new spatial sizes.
        scales: The factors of the sizes, if given.
        mode: ``"linear"`` or ``"cubic"``; or with ``antialias`` ``"lanczos"``, a sine windowed by a
            wider one, over three neighbours on each side (Lanczos-3).
        align_corners: Align the first and last elements of input and output.
        antialias: When shrinking, average over all inputs that an output covers.
    """
    _checked_sizes(input, sizes)
    discrete = not jnp.issubdtype(input.dtype, jnp.floating)
    wide = jnp.float64 if input.dtype == jnp.float64 else jnp.float32
    found = input.astype(wide)
    for i, (outputs, scale) in enumerate(zip(sizes, scales, strict=True)):
        size = input.shape[2 + i]
        if size == outputs and not antialias:
            continue
        number = _number(wide, size, outputs)
        arguments = (size, outputs, align_corners, scale, number)
        if antialias:
            neighbours = antialiased(*arguments, mode)
        else:
            neighbours = (between_two if mode == "linear" else among_four)(*arguments)
        found = neighbours.summed(found, 2 + i)
    if discrete:
        limits = jnp.iinfo(input.dtype)
        found = jnp.clip(jnp.round(found), limits.min, limits.max)
    return found.astype(input.dtype)
