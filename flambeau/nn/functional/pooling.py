"""Pooling."""

from __future__ import annotations

import math

from flambeau.core.operators.overrides import asks
from flambeau.core.values.tensor import Tensor
from flambeau.nn.common_types import OutputSizes, Pooled, Sizes
from flambeau.ops.neural.spatial import pooling as ops
from flambeau.ops.neural.spatial.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
)
from flambeau.ops.neural.spatial.unpooling import lp_pool

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d", "max_pool1d_with_indices",
    "max_pool2d", "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices",
]  # fmt: skip


@asks
def max_pool1d_with_indices(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The maximum of each window and its position along the input."""
    return ops.max_pool_with_indices(input, 1, kernel_size, stride, padding, dilation, ceil_mode)


@asks
def max_pool2d_with_indices(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The maximum of each window and its position in the flattened plane of the input."""
    return ops.max_pool_with_indices(input, 2, kernel_size, stride, padding, dilation, ceil_mode)


@asks
def max_pool3d_with_indices(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The maximum of each window and its position in the flattened volume of the input."""
    return ops.max_pool_with_indices(input, 3, kernel_size, stride, padding, dilation, ceil_mode)


@asks
def max_pool1d(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Pooled:  # fmt: skip
    """The maximum of each window of ``(N, C, L)`` or ``(C, L)``; see `max_pool2d`."""
    if return_indices:
        return max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return ops.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


@asks
def max_pool2d(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Pooled:  # fmt: skip
    """The maximum of each window; among equal elements the gradient goes to the first.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: Size of a window; one number or one per dimension, like the following.
        stride: Step from window to window, by default ``kernel_size``.
        padding: Minus infinities on both sides, at most half of ``kernel_size``.
        dilation: Step between the elements of a window.
        ceil_mode: Keep a last window that extends beyond the edge.
        return_indices: Return a pair, with the positions of the maxima as int64.

    Raises:
        RuntimeError: The shape does not match, or a number is out of range.
    """
    if return_indices:
        return max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return ops.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


@asks
def max_pool3d(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Pooled:  # fmt: skip
    """The maximum of each window of ``(N, C, D, H, W)`` or ``(C, D, H, W)``; see `max_pool2d`."""
    if return_indices:
        return max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return ops.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode)


@asks
def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Maxima of ``output_size`` windows and their positions along the input."""
    return ops.adaptive_max_pool(input, 1, output_size)


@asks
def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Maxima of ``output_size`` windows and their positions in the flattened plane."""
    return ops.adaptive_max_pool(input, 2, output_size)


@asks
def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Maxima of ``output_size`` windows and their positions in the flattened volume."""
    return ops.adaptive_max_pool(input, 3, output_size)


@asks
def adaptive_max_pool1d(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False
) -> Pooled:
    """Maxima of ``output_size`` windows of ``(N, C, L)`` or ``(C, L)``."""
    found = adaptive_max_pool1d_with_indices(input, output_size)
    return found if return_indices else found[0]


@asks
def adaptive_max_pool2d(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False
) -> Pooled:
    """Maxima of ``output_size`` windows that cover the input evenly.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        output_size: One number, or one per dimension; ``None`` keeps the input's size.
        return_indices: Return a pair, with the positions of the maxima as int64.
    """
    found = adaptive_max_pool2d_with_indices(input, output_size)
    return found if return_indices else found[0]


@asks
def adaptive_max_pool3d(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False
) -> Pooled:
    """Maxima of ``output_size`` windows of ``(N, C, D, H, W)`` or ``(C, D, H, W)``."""
    found = adaptive_max_pool3d_with_indices(input, output_size)
    return found if return_indices else found[0]


def _lp_pool(
    spatial: int, input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None,
    ceil_mode: bool,
) -> Tensor:  # fmt: skip
    if isinstance(norm_type, int | float) and math.isinf(norm_type):
        pool = (max_pool1d, max_pool2d, max_pool3d)[spatial - 1]
        sign = 1 if norm_type > 0 else -1
        return sign * pool(sign * input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    if norm_type == 0:
        raise ZeroDivisionError(
            f"lp_pool{spatial}d(): norm_type must not be 0, a root would be infinite"
        )
    return lp_pool(input, spatial, norm_type, kernel_size, stride, ceil_mode)


@asks
def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: int, stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """The ``norm_type``-norm of each window of ``(N, C, L)`` or ``(C, L)``; see `lp_pool2d`."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


@asks
def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """``sum(x ** p) ** (1 / p)`` over each window; negative sums are replaced by 0.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        norm_type: The power p; infinity for the greatest magnitude, minus infinity for the least.
        kernel_size: Size of a window; one number or one per dimension, like the following.
        stride: Step from window to window, by default ``kernel_size``.
        ceil_mode: Keep a last window that extends beyond the edge.

    Raises:
        ZeroDivisionError: ``norm_type`` is 0.
    """
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


@asks
def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """The ``norm_type``-norm of each window of ``(N, C, D, H, W)``; see `lp_pool2d`."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)
