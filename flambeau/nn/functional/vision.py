"""Images: padding, resizing and sampling."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from flambeau.core.operators.overrides import asks
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.nn.common_types import Sizes
from flambeau.ops.common.dims import is_open
from flambeau.ops.neural.spatial import pooling
from flambeau.ops.neural.spatial.folding import (
    channel_shuffle,
    fold,
    pixel_shuffle,
    pixel_unshuffle,
    unfold,
)
from flambeau.ops.neural.spatial.grids import affine_grid_generator
from flambeau.ops.neural.spatial.grids import grid_sample as _grid_sample
from flambeau.ops.neural.spatial.padding import constant_pad_nd, pad_by_rule
from flambeau.ops.neural.spatial.resampling import interpolate_nearest, interpolate_smoothly

__all__ = [
    "affine_grid", "channel_shuffle", "fold", "grid_sample", "interpolate",
    "native_channel_shuffle", "pad", "pixel_shuffle", "pixel_unshuffle", "unfold", "upsample",
    "upsample_bilinear", "upsample_nearest",
]  # fmt: skip

native_channel_shuffle = channel_shuffle


@asks
def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """``input`` extended beyond its edges; negative numbers crop.

    Args:
        input: Any shape for ``"constant"``; otherwise with one to three padded dimensions, and one
            or two before them.
        pad: The padding before and after the last dimension, then the second to last, and so on.
        mode: ``"constant"``; ``"reflect"`` mirrors without repeating the edge, ``"replicate"``
            repeats the edge, ``"circular"`` wraps around.
        value: The padding value of ``"constant"``, 0 by default.

    Raises:
        RuntimeError: ``pad`` has odd length, is too long, or exceeds the mode's limit; ``value`` is
            given with another mode.
        NotImplementedError: The mode is unknown, or not defined for this number of dimensions.

    >>> import flambeau
    >>> import flambeau.nn.functional as F
    >>> F.pad(flambeau.tensor([[1.0, 2.0, 3.0]]), (2, 1), "reflect")
    tensor([[3., 2., 1., 2., 3., 2.]])
    """
    pad = tuple(pad)
    if mode == "constant":
        return constant_pad_nd(input, pad, 0.0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f"pad(): mode={mode!r} takes no value, got {value}")
    return pad_by_rule(input, pad, mode)


# Other sizes

_RANKS = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5, "lanczos": 4}
_ANTIALIASED = ("bilinear", "bicubic", "lanczos")


@asks
def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """``input`` resized.

    Args:
        input: ``(N, C, L)``, ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        size: The new spatial size; one number or one per dimension.
        scale_factor: Or the factors of the size, which is rounded down.
        mode: ``"nearest"``, ``"nearest-exact"``, ``"area"``, or by the number of dimensions
            ``"linear"``, ``"bilinear"``, ``"bicubic"``, ``"trilinear"``; ``"lanczos"`` for images,
            with ``antialias`` only.
        align_corners: Align the first and last elements of input and output; for the linear and
            cubic modes.
        recompute_scale_factor: Interpolate with the ratio of the rounded sizes, not with
            ``scale_factor`` itself.
        antialias: When shrinking images with ``"bilinear"``, ``"bicubic"`` or ``"lanczos"``,
            average over all inputs that an output covers.

    Raises:
        ValueError: The options contradict each other.
        TypeError: ``size`` is not made of integers.
        NotImplementedError: The mode is not defined for this number of dimensions.
        RuntimeError: A size would be 0.

    >>> import flambeau
    >>> import flambeau.nn.functional as F
    >>> F.interpolate(flambeau.tensor([[[1.0, 3.0]]]), scale_factor=2, mode="linear")
    tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])
    """
    if mode in ("nearest", "nearest-exact", "area") and align_corners is not None:
        raise ValueError(
            f"interpolate(): align_corners is for the modes {', '.join(_RANKS)}, not for {mode!r}"
        )
    sizes, scales = _sizes(input, size, scale_factor, recompute_scale_factor)
    _check_mode(input, mode, antialias)
    if mode in ("nearest", "nearest-exact"):
        return interpolate_nearest(input, sizes, scales, mode == "nearest-exact")
    if mode == "area":
        pool = (
            pooling.adaptive_avg_pool1d,
            pooling.adaptive_avg_pool2d,
            pooling.adaptive_avg_pool3d,
        )[len(sizes) - 1]
        return pool(input, sizes)
    if mode == "lanczos" and (align_corners or not antialias):
        raise ValueError("interpolate(): mode='lanczos' needs antialias=True, align_corners=False")
    kind = {"bicubic": "cubic", "lanczos": "lanczos"}.get(mode, "linear")
    return interpolate_smoothly(input, sizes, scales, kind, bool(align_corners), antialias)


# Products of sizes with such fractions are exact, so the floor is that of the plain product.
_LARGEST_DENOMINATOR = 1 << 10


def _check_mode(input: Tensor, mode: str, antialias: bool) -> None:
    if antialias and not (mode in _ANTIALIASED and input.dim() == 4):
        raise ValueError(
            f"interpolate(): antialias is for images and the modes {', '.join(_ANTIALIASED)}, not "
            f"for mode={mode!r} and an input of shape {list(input.shape)}"
        )
    if mode not in (*_RANKS, "nearest", "nearest-exact", "area") or input.dim() not in (3, 4, 5):
        raise NotImplementedError(
            f"interpolate(): mode={mode!r} is not defined for an input of shape "
            f"{list(input.shape)}; modes are nearest, nearest-exact, area, {', '.join(_RANKS)}, "
            "inputs (N, C, ...) with one to three spatial dimensions"
        )
    if mode in _RANKS and input.dim() != _RANKS[mode]:
        raise NotImplementedError(
            f"interpolate(): mode={mode!r} takes a {_RANKS[mode]}-d input, got shape "
            f"{list(input.shape)}"
        )


def _sizes(
    input: Tensor,
    size: Sizes | None,
    scale_factor: float | Sequence[float] | None,
    recompute: bool | None,
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    spatial = input.dim() - 2
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate() takes either size or scale_factor")
    if size is not None:
        sizes = _one_each("size", size, spatial, input)
        try:
            sizes = tuple(map(operator.index, sizes))
        except TypeError:
            raise TypeError(f"interpolate(): size must be integers, got {size!r}") from None
        if recompute:
            raise ValueError("interpolate(): recompute_scale_factor needs scale_factor, not size")
        return sizes, (None,) * spatial
    factors = _one_each("scale_factor", scale_factor, spatial, input)
    for each in factors:
        if isinstance(each, str):
            raise TypeError(f"interpolate(): scale_factor must be numbers, got {each!r:.80}")
    sizes = tuple(map(_scaled, input.shape[2:], factors))
    return sizes, (None,) * spatial if recompute else tuple(float(each) for each in factors)


def _scaled(size: int, factor: float) -> int:
    if not is_open(size):
        return math.floor(float(size) * float(factor))
    numerator, denominator = float(factor).as_integer_ratio()
    if denominator > _LARGEST_DENOMINATOR:
        raise RuntimeError(
            f"interpolate(): an open size can only be scaled by a fraction such as 2, 0.5 or 1.25, "
            f"got {factor}; give size="
        )
    return size * numerator // denominator


def _one_each(argument: str, value: Any, spatial: int, input: Tensor) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        return (value,) * spatial
    if len(value) != spatial:
        raise ValueError(
            f"interpolate(): {argument} must be one number or {spatial} for an input of shape "
            f"{list(input.shape)}, got {list(value)}"
        )
    return tuple(value)


@asks
def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """`interpolate` under its deprecated name."""
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


@asks
def upsample_nearest(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """`interpolate` with ``mode="nearest"``, under its deprecated name."""
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor)


@asks
def upsample_bilinear(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """`interpolate` with ``mode="bilinear", align_corners=True``, under its deprecated name."""
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, "bilinear", True)


def _deprecated(name: str) -> None:
    warn(f"{name}() is deprecated; use interpolate()")


# Grids


@asks
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The positions to which an affine map takes the pixels of an image, for `grid_sample`.

    Args:
        theta: ``(N, 2, 3)``, or ``(N, 3, 4)`` for volumes.
        size: ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        align_corners: Interpret -1 and 1 as the centers of the outermost pixels, not as their
            edges.

    Returns:
        ``(N, H, W, 2)`` or ``(N, D, H, W, 3)``, x first.

    Raises:
        ValueError: ``theta`` is not floating point, or does not fit ``size``, or a size is not
            positive.
        NotImplementedError: ``size`` has another length.
    """
    if align_corners is None:
        _warn_of_corners("affine_grid")
    if not theta.is_floating_point():
        raise ValueError(f"affine_grid(): theta must be floating point, got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            f"affine_grid() makes grids for (N, C, H, W) and (N, C, D, H, W), got {list(size)}"
        )
    spatial = len(size) - 2
    if theta.dim() != 3 or tuple(theta.shape[1:]) != (spatial, spatial + 1):
        raise ValueError(
            f"affine_grid(): theta must have shape [N, {spatial}, {spatial + 1}] for a size of "
            f"{list(size)}, got {list(theta.shape)}"
        )
    if min(size) <= 0:
        raise ValueError(f"affine_grid(): sizes must be positive, got {list(size)}")
    return affine_grid_generator(theta, tuple(size), bool(align_corners))


def _warn_of_corners(name: str) -> None:
    warn(
        f"{name}() takes align_corners=False by default; give it to say which you mean",
    )


@asks
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """The image at each point of a grid.

    Args:
        input: ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        grid: ``(N, H', W', 2)`` or ``(N, D', H', W', 3)``; x first, from -1 to 1. With ``"border"``
            or ``"reflection"``, NaN means -1.
        mode: ``"bilinear"``, ``"nearest"`` or, for images, ``"bicubic"``.
        padding_mode: The values outside the image: ``"zeros"``, the ``"border"`` repeated, or a
            ``"reflection"``.
        align_corners: Interpret -1 and 1 as the centers of the outermost pixels, not as their
            edges.

    Returns:
        ``(N, C, H', W')`` or ``(N, C, D', H', W')``.

    Raises:
        ValueError: A mode is unknown.
        RuntimeError: Shapes or dtypes do not match.
    """
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            f"grid_sample(): mode must be 'bilinear', 'nearest' or 'bicubic', got {mode!r}"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "grid_sample(): padding_mode must be 'zeros', 'border' or 'reflection', "
            f"got {padding_mode!r}"
        )
    if align_corners is None:
        _warn_of_corners("grid_sample")
    return _grid_sample(input, grid, mode, padding_mode, bool(align_corners))
