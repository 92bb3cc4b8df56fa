"""Convolutions and transposed convolutions by native kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from flambeau.ops.cpu_forms.trilinear import trilinear
from flambeau.ops.native.call import call_kernel, has_kernel
from flambeau.ops.neural.spatial.correlation import cross_correlation
from flambeau.ops.neural.spatial.taps import Borders, Numbers, counts_of

__all__: list[str] = []


class _Window(NamedTuple):
    """The geometry of filters over images, and the shapes of a product's operands and result.

    Attributes:
        left: The shape of the first operand: the images, or the input of a transposed convolution.
        right: The shape of the filters.
        result: The spatial sizes of the result.
        stride: The step from window to window.
        borders: Zeros before and after each dimension; negative numbers crop.
        dilation: The step between the taps of a filter.
        groups: The number of groups of channels.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    result: Numbers
    stride: Numbers
    borders: tuple[tuple[int, int], ...]
    dilation: Numbers
    groups: int


def takes(input: Any, weight: Any, groups: int) -> bool:
    """Whether the kernels support these arrays: single precision, several channels."""
    return (
        has_kernel("convolution", input)
        and input.dtype == weight.dtype == jnp.float32
        # XLA's loops are faster for depthwise convolutions.
        and not 1 < groups == input.shape[1]
    )


def convolve(
    input: Any, weight: Any, stride: Numbers, borders: Borders, dilation: Numbers, groups: int
) -> Any:
    """The cross-correlation of ``(N, C, *spatial)`` with ``(O, C / groups, *kernel)``.

    The arguments are those of `flambeau.ops.cpu_forms.convolutions.convolve`.
    """
    counts = counts_of(input, weight.shape[2:], stride, borders, dilation)
    window = _window(input, weight, counts, stride, borders, dilation, groups)
    return _convolution(input, weight, window)


def convolve_transposed(
    input: Any, weight: Any, stride: Numbers, borders: Borders, dilation: Numbers, groups: int
) -> Any:
    """The transpose of a convolution, of ``(N, C, *spatial)`` by ``(C, O / groups, *kernel)``.

    The arguments are those of `flambeau.ops.cpu_forms.convolutions.convolve_transposed`.
    """
    sizes = tuple(
        (size - 1) * s + d * (k - 1) + 1 - before - after
        for size, s, d, k, (before, after) in zip(
            input.shape[2:], stride, dilation, weight.shape[2:], borders, strict=True
        )
    )
    window = _window(input, weight, sizes, stride, borders, dilation, groups)
    return _transposed(input, weight, window)


def _window(
    left: Any, right: Any, result: Numbers, stride: Numbers, borders: Borders, dilation: Numbers,
    groups: int,
) -> _Window:  # fmt: skip
    # NumPy integers would make equal windows look different.
    pairs = tuple((int(before), int(after)) for before, after in borders)
    return _Window(left.shape, right.shape, tuple(result), tuple(stride), pairs, tuple(dilation),
                   groups)  # fmt: skip


def _call(name: str, left: Any, right: Any, shape: tuple[int, ...], window: _Window) -> Any:
    gives_filters = name == "convolution_filters"
    (found,) = call_kernel(
        name, [shape], left, right,
        whole=() if gives_filters else (1,), summed=(0,) if gives_filters else (),
        stride=window.stride, before=tuple(before for before, _ in window.borders),
        dilation=window.dilation,
    )  # fmt: skip
    return found


def _plain(images: Any, filters: Any, window: _Window) -> Any:
    return cross_correlation(
        images, filters, window.stride, window.borders, window.dilation, window.groups
    )


def _results(images: Any, filters: Any, window: _Window) -> Any:
    shape = (len(images), len(filters), *window.result)
    return _call("convolution", images, filters, shape, window)


def _by_images(cotangents: Any, filters: Any, window: _Window) -> Any:
    shape = (len(cotangents), *window.left[1:])
    return _call("convolution_images", cotangents, filters, shape, window)


def _by_filters(cotangents: Any, images: Any, window: _Window) -> Any:
    return _call("convolution_filters", cotangents, images, window.right, window)


_convolution = trilinear(
    "native_convolution", _plain, _results, _by_images, _by_filters, samples=True
)


# A transposed convolution is the gradient of a convolution by its images: ``left`` is the
# cotangents of that convolution, and its images are the result.


def _spread_shape(window: _Window) -> tuple[int, ...]:
    return (window.left[0], window.right[1] * window.groups, *window.result)


def _plain_transposed(spread: Any, filters: Any, window: _Window) -> Any:
    images = jax.ShapeDtypeStruct((len(spread), *_spread_shape(window)[1:]), spread.dtype)
    return jax.linear_transpose(lambda each: _plain(each, filters, window), images)(spread)[0]


def _transposed_results(spread: Any, filters: Any, window: _Window) -> Any:
    shape = (len(spread), *_spread_shape(window)[1:])
    return _call("convolution_images", spread, filters, shape, window)


def _by_spread(cotangents: Any, filters: Any, window: _Window) -> Any:
    shape = (len(cotangents), *window.left[1:])
    return _call("convolution", cotangents, filters, shape, window)


def _transposed_by_filters(cotangents: Any, spread: Any, window: _Window) -> Any:
    return _call("convolution_filters", spread, cotangents, window.right, window)


_transposed = trilinear(
    "native_transposed_convolution",
    _plain_transposed, _transposed_results, _by_spread, _transposed_by_filters, samples=True,
)  # fmt: skip
