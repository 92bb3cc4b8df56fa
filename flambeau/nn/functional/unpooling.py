"""The inverse of max pooling, and max pooling with random windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.operators.overrides import asks
from flambeau.core.values.tensor import Tensor
from flambeau.nn.common_types import Pooled, Sizes
from flambeau.ops.common.values import outside
from flambeau.ops.draws.sampling import rand
from flambeau.ops.neural.spatial.unpooling import fractional_max_pool, max_unpool

__all__ = [
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip


def _each(name: str, argument: str, value: Any, spatial: int) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        return (value,) * spatial
    if len(value) != spatial:
        raise ValueError(f"{name}(): {argument} must be one number or {spatial}, got {value}")
    return tuple(value)


def _unpooled(
    spatial: int, input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None,
    padding: Sizes, output_size: Sequence[int] | None,
) -> Tensor:  # fmt: skip
    name = f"max_unpool{spatial}d"
    if input.dim() not in (spatial + 1, spatial + 2):
        raise RuntimeError(
            f"{name}(): the input must be {spatial + 1}-d or {spatial + 2}-d, got shape "
            f"{list(input.shape)}"
        )
    kernel = _each(name, "kernel_size", kernel_size, spatial)
    steps = kernel if stride is None else _each(name, "stride", stride, spatial)
    paddings = _each(name, "padding", padding, spatial)
    usual = [
        (size - 1) * s + k - 2 * p
        for size, s, k, p in zip(input.shape[-spatial:], steps, kernel, paddings, strict=True)
    ]
    if output_size is not None and len(output_size) not in (spatial, spatial + 2):
        raise ValueError(
            f"{name}(): output_size must have {spatial} or {spatial + 2} numbers, got "
            f"{list(output_size)}"
        )
    sizes = usual if output_size is None else list(output_size)[-spatial:]
    ranges = [(u - s + 1, u + s - 1) for u, s in zip(usual, steps, strict=True)]
    if any(not low <= n <= high for n, (low, high) in zip(sizes, ranges, strict=False)):
        raise ValueError(
            f"{name}(): output_size {sizes} is not possible; each dimension must be in its range "
            f"of {ranges}"
        )
    _check_places(name, indices, sizes)
    return max_unpool(input, indices, spatial, tuple(sizes))


def _check_places(name: str, indices: Tensor, sizes: list[int]) -> None:
    limit = 1
    for size in sizes:
        limit *= size
    places = outside(indices, 0, limit)
    if places is not None:
        raise RuntimeError(
            f"{name}(): indices must be from 0 to {limit - 1} for an output of size {sizes}, got "
            f"{places.min()} to {places.max()}"
        )


@asks
def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None,
    padding: Sizes = 0, output_size: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """The inverse of `max_pool1d`; see `max_unpool2d`."""
    return _unpooled(1, input, indices, kernel_size, stride, padding, output_size)


@asks
def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None,
    padding: Sizes = 0, output_size: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """Zeros, with each maximum at its original position.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        indices: The positions of the maxima, from `max_pool2d` with ``return_indices=True``.
        kernel_size: Size of a window; one number or one per dimension, like the following.
        stride: Step from window to window, by default ``kernel_size``.
        padding: The padding of the pooling.
        output_size: The size before pooling, which is ambiguous.

    Raises:
        ValueError: ``output_size`` is not possible.
        RuntimeError: Shapes do not match, or an index is out of range.
    """
    return _unpooled(2, input, indices, kernel_size, stride, padding, output_size)


@asks
def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None,
    padding: Sizes = 0, output_size: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """The inverse of `max_pool3d`; see `max_unpool2d`."""
    return _unpooled(3, input, indices, kernel_size, stride, padding, output_size)


def _fractional(
    spatial: int, input: Tensor, kernel_size: Sizes, output_size: Sizes | None,
    output_ratio: float | Sequence[float] | None, samples: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    name = f"fractional_max_pool{spatial}d"
    if (output_size is None) == (output_ratio is None):
        raise ValueError(f"{name}() takes either output_size or output_ratio")
    if input.dim() not in (spatial + 1, spatial + 2):
        raise RuntimeError(
            f"{name}(): the input must be {spatial + 1}-d or {spatial + 2}-d, got shape "
            f"{list(input.shape)}"
        )
    if output_size is None:
        ratios = _each(name, "output_ratio", output_ratio, spatial)
        sizes = tuple(
            int(size * ratio) for size, ratio in zip(input.shape[-spatial:], ratios, strict=True)
        )
    else:
        sizes = _each(name, "output_size", output_size, spatial)
    if samples is None:
        batch = input.shape[0] if input.dim() == spatial + 2 else 1
        shape = (batch, input.shape[-spatial - 1], spatial)
        samples = rand(shape, dtype=input.dtype, device=input.device)
    kernel = _each(name, "kernel_size", kernel_size, spatial)
    return fractional_max_pool(input, samples, kernel, sizes)


@asks
def fractional_max_pool2d_with_indices(
    input: Tensor, kernel_size: Sizes, output_size: Sizes | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`fractional_max_pool2d` and the positions of the maxima in the flattened plane."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)


@asks
def fractional_max_pool3d_with_indices(
    input: Tensor, kernel_size: Sizes, output_size: Sizes | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`fractional_max_pool3d` and the positions of the maxima in the flattened volume."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)


@asks
def fractional_max_pool2d(
    input: Tensor, kernel_size: Sizes, output_size: Sizes | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Pooled:  # fmt: skip
    """The maxima of windows at random positions.

    Graham, Fractional Max-Pooling, https://arxiv.org/abs/1412.6071

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: Size of a window; one number or one per dimension.
        output_size: The number of windows.
        output_ratio: Or the ratio of windows to elements of the input, from 0 to 1.
        return_indices: Return a pair, with the positions of the maxima in the flattened plane.

    Raises:
        ValueError: Both or neither of ``output_size`` and ``output_ratio`` are given.
        RuntimeError: The windows do not fit.
    """
    found = _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return found if return_indices else found[0]


@asks
def fractional_max_pool3d(
    input: Tensor, kernel_size: Sizes, output_size: Sizes | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Pooled:  # fmt: skip
    """`fractional_max_pool2d` for ``(N, C, D, H, W)`` or ``(C, D, H, W)``."""
    found = _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return found if return_indices else found[0]
