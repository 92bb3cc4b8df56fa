"""Power pooling, pooling with random windows, and the inverse of max pooling."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import op
from flambeau.ops.common.checks import floating
from flambeau.ops.common.derivatives import magnitude
from flambeau.ops.indices.placement import inside
from flambeau.ops.neural.spatial.convolution import Sizes, per_dimension
from flambeau.ops.neural.spatial.pooling import average_pool

__all__: list[str] = []


@op(widen=True, node="PowBackward0")
def lp_pool(
    input: Array,
    spatial: int,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Array:
    """The ``norm_type``-norm of each window, without absolute values.

    ``sum(x ** p) ** (1 / p)``, with negative sums replaced by 0.

    Args:
        input: With ``spatial`` trailing dimensions after the channels.
        spatial: The number of dimensions to pool over.
        norm_type: The power p, not 0.
        kernel_size: Size of a window.
        stride: Step from window to window, by default ``kernel_size``.
        ceil_mode: Keep a last window that extends beyond the edge.
    """
    name = f"lp_pool{spatial}d"
    (input,) = floating(input)
    taps = math.prod(per_dimension(name, "kernel_size", kernel_size, spatial))
    powers = jnp.power(input, norm_type)
    mean = average_pool(name, spatial, powers, kernel_size, stride, 0, ceil_mode, True, None)
    size = magnitude(mean)
    positive = jnp.sign(mean) * jnp.where(size <= 0, jnp.zeros_like(size), size)
    return jnp.power(positive * taps, 1.0 / norm_type)


@op(node="MaxUnpool2DBackward0")
def max_unpool(input: Array, indices: Array, spatial: int, output_size: tuple[int, ...]) -> Array:
    """Zeros, with each element of ``input`` at the position in ``indices``.

    Args:
        input: ``(N, C, ...)`` or ``(C, ...)`` with ``spatial`` further dimensions.
        indices: Shaped like ``input``: positions in the flattened output.
        spatial: The number of dimensions to unpool.
        output_size: The sizes of these dimensions.

    Raises:
        RuntimeError: The shapes differ, or ``indices`` are no integers.
    """
    name = f"max_unpool{spatial}d"
    if indices.dtype != jnp.int64:
        raise RuntimeError(f"{name}(): indices must be int64, got {indices.dtype}")
    if input.ndim not in (spatial + 1, spatial + 2) or indices.shape != input.shape:
        raise RuntimeError(
            f"{name}() takes an input of {spatial + 1} or {spatial + 2} dimensions and indices of "
            f"the same shape, got {list(input.shape)} and {list(indices.shape)}"
        )
    lead = input.shape[:-spatial]
    planes = math.prod(lead)
    elements = math.prod(input.shape[-spatial:])
    size = math.prod(output_size)
    places = inside(indices.reshape(planes, elements), size)
    filled = _placed(size, input.reshape(planes, elements), places)
    return filled.reshape((*lead, *output_size))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _placed(size: int, values: Any, places: Any) -> Any:
    """Rows of ``size`` zeros, with the values of each row assigned to its positions."""
    rows = jnp.arange(values.shape[0])[:, None]
    return (
        jnp.zeros((values.shape[0], size), values.dtype).at[rows, places].set(values, mode="drop")
    )


@_placed.defjvp
def _placed_jvp(size: int, primals: Any, tangents: Any) -> Any:
    values, places = primals
    rows = jnp.arange(values.shape[0])[:, None]
    # As in PyTorch, all values that share a position get its gradient.
    zeros = jnp.zeros((values.shape[0], size), values.dtype)
    return _placed(size, values, places), zeros.at[rows, places].add(tangents[0], mode="drop")


@op(node="FractionalMaxPool2DBackward0")
def fractional_max_pool(
    input: Array, samples: Array, kernel_size: tuple[int, ...], output_size: tuple[int, ...]
) -> Array:
    """The maxima of random windows, and their positions in the flattened input.

    Graham, Fractional Max-Pooling, https://arxiv.org/abs/1412.6071

    Args:
        input: ``(N, C, ...)`` or ``(C, ...)``.
        samples: ``(N, C, spatial)``, or more samples, uniform in [0, 1). For images the last
            dimension comes first, for volumes the first.
        kernel_size: Size of a window, per dimension.
        output_size: The number of windows, per dimension.

    Raises:
        RuntimeError: The shapes or dtypes do not match.
    """
    spatial = len(kernel_size)
    name = f"fractional_max_pool{spatial}d"
    if input.ndim not in (spatial + 1, spatial + 2):
        raise RuntimeError(
            f"{name}(): the input must be {spatial + 1}-d or {spatial + 2}-d, "
            f"got shape {list(input.shape)}"
        )
    batched = input if input.ndim == spatial + 2 else input[None]
    lead, sizes = batched.shape[:2], batched.shape[2:]
    count = lead[0]
    if samples.ndim != 3 or samples.shape[0] < count or samples.shape[1:] != (lead[1], spatial):
        raise RuntimeError(
            f"{name}(): samples must have shape {[*lead, spatial]}, got {list(samples.shape)}"
        )
    if samples.dtype != input.dtype:
        raise RuntimeError(
            f"{name}(): samples must have the dtype of the input, {input.dtype}, got "
            f"{samples.dtype}"
        )
    if any(o + k - 1 > s for o, k, s in zip(output_size, kernel_size, sizes, strict=True)):
        raise RuntimeError(
            f"{name}(): {list(output_size)} windows of size {list(kernel_size)} do not fit into "
            f"an input of size {list(sizes)}"
        )
    samples = samples[:count] if spatial == 3 else samples[:count, :, ::-1]
    flat = jnp.zeros((*lead, *(1,) * (2 * spatial)), jnp.int64)
    for i in range(spatial):
        starts = _random_starts(samples[..., i], sizes[i], output_size[i], kernel_size[i])
        places = starts[..., None] + jnp.arange(kernel_size[i])
        shape = [*places.shape[:2], *(1,) * (2 * spatial)]
        shape[2 + i], shape[2 + spatial + i] = places.shape[2:]
        flat = flat * sizes[i] + places.reshape(shape)
    return _greatest_of(
        batched, flat, output_size, math.prod(kernel_size), input.ndim == spatial + 1
    )


def _random_starts(sample: Any, size: int, outputs: int, kernel: int) -> Any:
    """The starts of the windows: nearly equal steps, shifted at random, the last at the edge."""
    if outputs == 1:
        return jnp.full((*sample.shape, 1), size - kernel)
    step = (size - kernel) / (outputs - 1)
    shifted = jnp.arange(outputs) + sample[..., None]
    starts = jnp.floor(shifted * step) - jnp.floor(sample[..., None] * step)
    last = jnp.arange(outputs) == outputs - 1
    return jnp.where(last, size - kernel, starts).astype(jnp.int64)


def _greatest_of(
    batched: Any, flat: Any, output_size: tuple[int, ...], taps: int, unbatched: bool
) -> Any:
    lead = batched.shape[:2]
    windows = flat.reshape((*lead, math.prod(output_size), taps))
    elements = batched.reshape((*lead, math.prod(batched.shape[2:])))
    found = jnp.take_along_axis(elements[..., None, :], windows, -1)
    place = jnp.argmax(found, -1)[..., None]
    shape = (*lead, *output_size)
    best = jnp.take_along_axis(found, place, -1).reshape(shape)
    positions = jnp.take_along_axis(windows, place, -1).reshape(shape)
    return (best[0], positions[0]) if unbatched else (best, positions)
