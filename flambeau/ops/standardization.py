"""Mean 0 and variance 1 over features or groups of channels, with tangents by hand.

XLA's reductions on a CPU are fast as long as an array that is there is summed as it is, and each
array that it has to make costs as much as several sums. JAX's own derivatives make seven. The
tangents here are linear in what a transposition sums only once: the weight's part and the
statistics' part of a slope are added before they meet the array, so that the gradient of the
weight and the cotangents of the statistics come from the same product.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from flambeau.ops.fused_sum import fused_sum

# So many neighbours are squared and summed side by side.
_LANES = 16


def _inverse_deviation(variance: Any, eps: float) -> Any:
    return lax.rsqrt(variance + jnp.asarray(eps, variance.dtype))


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
    centered, scale = _row_statistics(rows, eps)
    return _affine(centered * scale, weight, bias)


def _row_statistics(rows: Any, eps: float) -> tuple[Any, Any]:
    count, size = rows.shape
    centered = rows - jnp.mean(rows, 1, keepdims=True)
    squares = jnp.square(centered)
    if size > _LANES and size % _LANES == 0:
        squares = fused_sum(squares.reshape(count, size // _LANES, _LANES), 1)
    variance = jnp.sum(squares, 1, keepdims=True) / size
    return centered, _inverse_deviation(variance, eps)


@standardized_rows.defjvp
def _standardized_rows_jvp(eps: float, primals: Any, tangents: Any) -> Any:
    rows, weight, bias = primals
    d_rows, d_weight, d_bias = tangents
    centered, scale = _row_statistics(rows, eps)
    normalized = centered * scale
    by_deviation = -scale * jnp.mean(normalized * d_rows, 1, keepdims=True)
    by_mean = -scale * jnp.mean(d_rows, 1, keepdims=True)
    slope = _spread(by_deviation, weight, rows.shape[1])
    if d_weight is not None:
        slope = slope + d_weight
    offset = _spread(by_mean, weight, rows.shape[1])
    if d_bias is not None:
        offset = offset + d_bias
    moved = _affine(scale * d_rows, weight, None)
    return _affine(normalized, weight, bias), moved + normalized * slope + offset


def _spread(column: Any, weight: Any, size: int) -> Any:
    """``(N, 1)`` times the weight, as a product of matrices, which its transpose then is too."""
    if weight is None:
        return jnp.broadcast_to(column, (column.shape[0], size))
    return lax.dot(column, weight[None], precision=lax.Precision.HIGHEST)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3, 4))
def standardized_groups(channels: Any, weight: Any, bias: Any, groups: int, eps: float) -> Any:
    """Each group of channels of each sample with mean 0 and variance 1, scaled and shifted.

    Args:
        channels: ``(N, C, L)``.
        weight: ``(C,)`` or ``None``.
        bias: ``(C,)`` or ``None``.
        groups: How many groups the channels are split into.
        eps: Added to the variance.
    """
    centered, scale = _group_statistics(channels, groups, eps)
    return _affine(centered, _scaled(scale, weight), _column(bias))


def _group_statistics(channels: Any, groups: int, eps: float) -> tuple[Any, Any]:
    centered = channels - _means(channels, groups)
    return centered, _inverse_deviation(_means(jnp.square(centered), groups), eps)


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
    centered, scale = _group_statistics(channels, groups, eps)
    slope = _scaled(-jnp.square(scale) * _means(centered * d_channels, groups), weight)
    if d_weight is not None:
        slope = slope + d_weight[:, None]
    offset = _scaled(-scale * _means(d_channels, groups), weight)
    if d_bias is not None:
        offset = offset + d_bias[:, None]
    # Else XLA takes the sums apart again, and makes the products for each of them.
    slope, offset = lax.optimization_barrier((slope * scale, offset))
    steepness = _scaled(scale, weight)
    moved = d_channels * steepness + centered * slope + offset
    return _affine(centered, steepness, _column(bias)), moved
