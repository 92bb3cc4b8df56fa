"""Normalization over features or groups of channels, with hand-written tangents.

On a CPU the time is that of passes over the arrays, especially of writes. JAX's own derivatives sum
seven intermediate arrays. Here the summands are computed on the fly, or in blocks that stay in the
cache: the statistics take two passes over the input, the sums of the gradient one pass over the
input and the cotangent, and only the results are written.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from flambeau.core.devices.compiler import cores
from flambeau.ops.common import loops
from flambeau.ops.common.derivatives import with_derivatives
from flambeau.ops.cpu_forms.fused_sum import fused_row_sums
from flambeau.ops.cpu_forms.linear_maps import LinearMap

# The number of elements of rows that are summed at a time, and the number above which several cores
# use blocks, since the loop over blocks uses one core.
_BLOCK = 1 << 15
_LEAST_FOR_SEVERAL_CORES = 1 << 20


def inverse_deviation(variance: Any, eps: Any) -> Any:
    """``1 / sqrt(variance + eps)``."""
    return _reciprocal_root(variance + jnp.asarray(eps, variance.dtype))


@with_derivatives(
    # Factor by factor: the inverse third power of a deviation above 1e12 would be 0.
    lambda tangent, result, square: -0.5 * (tangent * result * result * result)
)
def _reciprocal_root(square: Any) -> Any:
    return lax.rsqrt(square)


def _affine(normalized: Any, weight: Any, bias: Any) -> Any:
    if weight is not None:
        normalized = normalized * weight
    return normalized if bias is None else normalized + bias


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def standardized_rows(rows: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Each row with mean 0 and variance 1, scaled and shifted.

    Args:
        rows: ``(N, D)``.
        weight: ``(D,)`` or ``None``.
        bias: ``(D,)`` or ``None``.
        eps: Added to the variance.
    """
    mean, scale = _row_statistics(rows, eps)
    return _affine((rows - mean) * scale, weight, bias)


def _row_statistics(rows: Any, eps: float) -> tuple[Any, Any]:
    """The mean and the inverse deviation of each row: ``(N, 1)`` both."""
    mean = jnp.mean(rows, 1, keepdims=True)
    (squares,) = fused_row_sums(jnp.square(rows - mean))
    return mean, inverse_deviation(squares[:, None] / rows.shape[1], eps)


@standardized_rows.defjvp
def _standardized_rows_jvp(eps: float, primals: Any, tangents: Any) -> Any:
    rows, weight, bias = primals
    d_rows, d_weight, d_bias = tangents
    mean, scale = _row_statistics(rows, eps)
    normalized = (rows - mean) * scale
    by_deviation = -scale * jnp.mean(normalized * d_rows, 1, keepdims=True)
    by_mean = -scale * jnp.mean(d_rows, 1, keepdims=True)
    shift = by_deviation, by_mean, d_weight, d_bias
    (shifted,) = _row_shift((rows, mean, scale, weight), shift)
    moved = _affine(scale * d_rows, weight, None) + shifted
    return _affine(normalized, weight, bias), moved


def _shifted_rows(fixed: Any, linear: Any) -> Any:
    """The tangent of normalized rows, from the tangents of deviation, mean, weight and bias."""
    rows, mean, scale, weight = fixed
    by_deviation, by_mean, d_weight, d_bias = linear
    slope, offset = _affine(by_deviation, weight, d_weight), _affine(by_mean, weight, d_bias)
    return ((rows - mean) * scale * slope + offset,)


def _sums_of_rows(fixed: Any, cotangents: Any) -> Any:
    """The transpose of `_shifted_rows`."""
    (rows, mean, scale, weight), (cotangent,) = fixed, cotangents
    if weight is None:
        normalized = (rows - mean) * scale
        by_deviation, by_mean = fused_row_sums(cotangent * normalized, cotangent)
        return by_deviation[:, None], by_mean[:, None], None, jnp.sum(cotangent, 0)
    compute = functools.partial(_sums_of_block, weight)
    if cores() > 1 and rows.size < _LEAST_FOR_SEVERAL_CORES:
        by_row, in_total = compute(rows, mean, scale, cotangent)
    else:
        length = max(1, _BLOCK // max(rows.shape[1], 1))
        by_row, in_total = _by_blocks(compute, length, rows, mean, scale, cotangent)
    return *by_row, *in_total


def _sums_of_block(weight: Any, rows: Any, mean: Any, scale: Any, cotangent: Any) -> Any:
    """The sums within each row, and the sums over the rows.

    They are matrix-vector products, which are faster than sums in a loop over blocks.
    """
    product = cotangent * ((rows - mean) * scale)
    ones = lax.full((rows.shape[0],), 1, rows.dtype)
    by_row = (_dot(product, weight)[:, None], _dot(cotangent, weight)[:, None])
    return by_row, (_dot(ones, product), _dot(ones, cotangent))


_dot = functools.partial(lax.dot, precision=lax.Precision.HIGHEST)


def _by_blocks(compute: Any, length: int, *arrays: Any) -> Any:
    """``compute(*arrays)`` on a block of rows at a time.

    Args:
        compute: A function of arrays that returns values for each row, and values to sum over the
            rows.
        length: The number of rows in a block.
        arrays: With the same number of rows.
    """
    blocks, rest = divmod(arrays[0].shape[0], length)
    # Rows that are sharded over devices would have to be gathered, block by block.
    if blocks < 2 or jax.device_count() > 1:
        return compute(*arrays)

    def step(total: Any, start: Any) -> Any:
        block = (lax.dynamic_slice_in_dim(each, start, length) for each in arrays)
        by_row, summed = compute(*block)
        return jax.tree.map(jnp.add, total, summed), by_row

    first, total = compute(*(each[:rest] for each in arrays))
    total, others = loops.scan(step, total, rest + length * np.arange(blocks))
    by_row = (
        jnp.concatenate([a, b.reshape(-1, *b.shape[2:])])
        for a, b in zip(first, others, strict=True)
    )
    return tuple(by_row), total


_row_shift = LinearMap(_shifted_rows, _sums_of_rows)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3, 4))
def standardized_groups(channels: Any, weight: Any, bias: Any, groups: int, eps: float) -> Any:
    """Each group of channels of each sample with mean 0 and variance 1, scaled and shifted.

    Args:
        channels: ``(N, C, L)``.
        weight: ``(C,)`` or ``None``.
        bias: ``(C,)`` or ``None``.
        groups: The number of groups of channels.
        eps: Added to the variance.
    """
    mean, scale = _group_statistics(channels, groups, eps)
    return _affine(channels - mean, _scaled(scale, weight), _column(bias))


def _group_statistics(channels: Any, groups: int, eps: float) -> tuple[Any, Any]:
    """The mean and the inverse deviation of each channel's group: ``(N, C, 1)`` both."""
    batch, count, length = channels.shape
    rows = channels.reshape(batch * groups, count // groups * length)
    found = _row_statistics(rows, eps)
    mean, scale = (
        jnp.broadcast_to(each.reshape(batch, groups, 1), (batch, groups, count // groups))
        for each in found
    )
    return mean.reshape(batch, count, 1), scale.reshape(batch, count, 1)


def _means(channels: Any, groups: int) -> Any:
    """For each channel of ``(N, C, L)`` the mean of its group, ``(N, C, 1)``."""
    batch, count, _ = channels.shape
    means = jnp.mean(channels, 2).reshape(batch, groups, count // groups).mean(2, keepdims=True)
    spread = jnp.broadcast_to(means, (batch, groups, count // groups))
    return spread.reshape(batch, count, 1)


def _column(vector: Any) -> Any:
    return None if vector is None else vector[:, None]


def _scaled(scale: Any, weight: Any) -> Any:
    return scale if weight is None else scale * weight[:, None]


@standardized_groups.defjvp
def _standardized_groups_jvp(groups: int, eps: float, primals: Any, tangents: Any) -> Any:
    channels, weight, bias = primals
    d_channels, d_weight, d_bias = tangents
    mean, scale = _group_statistics(channels, groups, eps)
    centered = channels - mean
    slope = _scaled(-jnp.square(scale) * _means(centered * d_channels, groups), weight)
    if d_weight is not None:
        slope = slope + d_weight[:, None]
    offset = _scaled(-scale * _means(d_channels, groups), weight)
    if d_bias is not None:
        offset = offset + d_bias[:, None]
    steepness = _scaled(scale, weight)
    (shifted,) = _channel_shift((channels, mean), (slope * scale, offset))
    moved = d_channels * steepness + shifted
    return _affine(centered, steepness, _column(bias)), moved


def _shifted_channels(fixed: Any, linear: Any) -> Any:
    """The tangent of channels, from a slope and an offset for each."""
    channels, mean = fixed
    slope, offset = linear
    return ((channels - mean) * slope + offset,)


def _sums_of_channels(fixed: Any, cotangents: Any) -> Any:
    """The transpose of `_shifted_channels`."""
    (channels, mean), (cotangent,) = fixed, cotangents
    slope, offset = fused_row_sums(cotangent * (channels - mean), cotangent)
    return slope[..., None], offset[..., None]


_channel_shift = LinearMap(_shifted_channels, _sums_of_channels)
