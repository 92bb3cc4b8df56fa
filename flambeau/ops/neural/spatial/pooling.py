"""Pooling over windows: maxima with their positions, averages, and adaptive forms."""

from __future__ import annotations

import functools
import math
from typing import Annotated, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from flambeau.core.devices.compiler import cpu_forms
from flambeau.core.kernels.kinds import SIZES, Array
from flambeau.core.operators.op import op
from flambeau.core.support import errors
from flambeau.ops.common.checks import needs_real_number
from flambeau.ops.common.dims import is_open
from flambeau.ops.cpu_forms.linear_maps import LinearMap
from flambeau.ops.native import pooling as native
from flambeau.ops.neural.spatial.convolution import Sizes
from flambeau.ops.neural.spatial.windows import Windows

__all__ = ["avg_pool1d", "max_pool1d", "max_pool2d", "max_pool3d"]

OutputSize: TypeAlias = Annotated[int | tuple[int | None, ...] | list[int | None] | None, SIZES]

# Up to this many taps a window is unrolled into one slice per tap, which XLA fuses into a loop.
_UNROLLED_TAPS = 32
# Sums are cheaper one dimension at a time, unless the window is as small as this.
_UNROLLED_SUM = 4
# So are sums over windows of different lengths, up to this many elements.
_UNROLLED_AVERAGE = 128


def _lowest(dtype: Any) -> Any:
    # A NumPy value, which lax recognizes as the neutral element of max.
    if jnp.issubdtype(dtype, jnp.floating):
        return np.array(-np.inf, dtype)
    return np.array(np.iinfo(dtype).min, dtype)


def _first_maximum(taps: list[Any]) -> tuple[Any, Any]:
    """The greatest of ``taps``, and the index of its first occurrence; NaN is greatest."""
    best = taps[0]
    inexact = jnp.issubdtype(best.dtype, jnp.inexact)
    place = jnp.zeros(best.shape, jnp.int32)
    for number, each in enumerate(taps[1:], 1):
        better = (each > best) | jnp.isnan(each) if inexact else each > best
        best = jnp.where(better, each, best)
        place = jnp.where(better, number, place)
    return best, place


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _maximum(windows: Windows, input: Any) -> Any:
    """The maximum of each window and the tap index of its first occurrence."""
    if native.takes(windows, input):
        return native.max_pool(windows, input)
    lowest = _lowest(input.dtype)
    best, place = _first_maximum(windows.taps(input, lowest))
    return best, _inside(windows, best, place, lowest)


def _inside(windows: Windows, best: Any, place: Any, lowest: Any) -> Any:
    """``place``, but never in the padding, which is as low as elements of ``lowest``."""
    first = np.zeros((), np.int32)
    for i in range(windows.spatial):
        inside = windows.inside(i).argmax(1).astype(np.int32)
        first = first[..., None] * windows.kernel[i] + inside
    return jnp.where(best == lowest, first, place) if first.any() else place


@_maximum.defjvp
def _maximum_jvp(windows: Windows, primals: Any, tangents: Any) -> Any:
    best, place = _maximum(windows, *primals)
    no_tangent = np.zeros(place.shape, jax.dtypes.float0)
    if native.takes(windows, *primals):
        (picked,) = native.picks(windows)((place,), tangents)
    else:
        picked = windows.pick(tangents[0], place)
    return (best, place), (picked, no_tangent)


def _is_short(windows: Windows, input: Any) -> bool:
    """Whether `_maximum` supports the windows."""
    return native.takes(windows, input) or math.prod(windows.kernel) <= _UNROLLED_TAPS


def _max_pool(name: str, spatial: int, input: Any, kernel: Any, stride: Any, padding: Any,
              dilation: Any, ceil_mode: bool) -> Any:  # fmt: skip
    needs_real_number(name, input)
    windows = Windows(name, input, spatial, kernel, stride, padding, dilation, ceil_mode)
    if windows.are_open():
        # The last window may end before the padding does. With ceil_mode there is room for another.
        pairs = zip(windows.padding, windows.stride, strict=True)
        borders = [(p, p + (step - 1 if ceil_mode else 0)) for p, step in pairs]
        return _reduced_maximum(windows, input, borders)
    if _is_short(windows, input):
        return _maximum(windows, input)[0]
    borders = windows.borders()
    if max(windows.dilation) == 1 and min(map(min, borders)) >= 0:
        return _reduced_maximum(windows, input, borders)
    return _gathered_maximum(windows, input)[0]


def _reduced_maximum(windows: Windows, input: Any, borders: list[tuple[int, int]]) -> Any:
    lead = (1,) * (input.ndim - windows.spatial)
    return lax.reduce_window(
        input, _lowest(input.dtype), lax.max, lead + windows.kernel, lead + windows.stride,
        [(0, 0)] * len(lead) + borders, window_dilation=lead + windows.dilation,
    )  # fmt: skip


def _gathered_maximum(windows: Windows, input: Any) -> Any:
    """`_maximum` for windows of many elements."""
    lowest = _lowest(input.dtype)
    found = windows.gathered(input, lowest)
    place = jnp.argmax(found, -1).astype(jnp.int32)
    place = _inside(windows, jnp.max(found, -1), place, lowest)
    return jnp.take_along_axis(found, place[..., None], -1)[..., 0], place


def _max_pool_with_indices(name: str, spatial: int, input: Any, kernel: Any, stride: Any,
                           padding: Any, dilation: Any, ceil_mode: bool) -> Any:  # fmt: skip
    needs_real_number(name, input)
    windows = Windows(name, input, spatial, kernel, stride, padding, dilation, ceil_mode)
    found = _maximum if _is_short(windows, input) else _gathered_maximum
    best, place = found(windows, input)
    return best, _flat_positions(windows, place)


def _flat_positions(windows: Windows, place: Any) -> Any:
    """Tap indices as positions in the flattened spatial dimensions of the input."""
    flat = jnp.zeros(place.shape, jnp.int64)
    remaining = place
    factor = 1
    for i in reversed(range(windows.spatial)):
        kernel = windows.kernel[i]
        starts = windows.positions(i)[:, 0].reshape((-1,) + (1,) * (windows.spatial - 1 - i))
        along = jnp.asarray(starts) + (remaining % kernel) * windows.dilation[i]
        flat = flat + along.astype(jnp.int64) * factor
        remaining = remaining // kernel
        factor *= windows.sizes[i]
    return flat


@op(node="SqueezeBackward1")
def max_pool1d(
    input: Array,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Array:
    """The operator of `nn.functional.max_pool1d`; see there."""
    return _max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)


@op(node="MaxPool2DWithIndicesBackward0")
def max_pool2d(
    input: Array,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Array:
    """The operator of `nn.functional.max_pool2d`; see there."""
    return _max_pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode)


@op(node="MaxPool3DWithIndicesBackward0")
def max_pool3d(
    input: Array,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Array:
    """The operator of `nn.functional.max_pool3d`; see there."""
    return _max_pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode)


@op(node="MaxPool2DWithIndicesBackward0")
def max_pool_with_indices(
    input: Array,
    spatial: int,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Array:
    """The maxima of `max_pool2d` and, as int64, their positions in the flattened spatial input."""
    name = f"max_pool{spatial}d_with_indices"
    return _max_pool_with_indices(
        name, spatial, input, kernel_size, stride, padding, dilation, ceil_mode
    )


def _window_sums(windows: Windows, input: Any) -> Any:
    zero = np.zeros((), input.dtype)
    if math.prod(windows.kernel) <= _UNROLLED_SUM:
        return functools.reduce(jnp.add, windows.taps(input, zero))
    # One dimension at a time: a 7 x 7 window takes 14 additions, not 49.
    total = windows.padded(input, zero)
    for i, (size, step) in enumerate(zip(windows.kernel, windows.stride, strict=True)):
        axis = input.ndim - windows.spatial + i
        window, steps = [1] * input.ndim, [1] * input.ndim
        window[axis], steps[axis] = size, step
        total = lax.reduce_window(total, zero, lax.add, window, steps, "VALID")
    return total


def average_pool(name: str, spatial: int, input: Any, kernel: Any, stride: Any, padding: Any,
              ceil_mode: bool, count_include_pad: bool, divisor_override: Any) -> Any:  # fmt: skip
    """The averages of all windows; see `avg_pool2d`."""
    if divisor_override == 0:
        raise RuntimeError(f"{name}(): divisor_override must not be 0")
    windows = Windows(name, input, spatial, kernel, stride, padding, 1, ceil_mode)
    wide = input.astype(jnp.float32) if input.dtype.itemsize < 4 else input
    total = _window_sums(windows, wide)
    if divisor_override is not None:
        return (total / divisor_override).astype(input.dtype)
    counts = [_counts(windows, i, count_include_pad) for i in range(spatial)]
    divisor = counts[0]
    for each in counts[1:]:
        divisor = divisor[..., None] * each
    if not windows.are_open() and divisor.min() == divisor.max():
        divisor = divisor.flat[0]
    return (total / jnp.asarray(divisor, total.dtype)).astype(input.dtype)


def _counts(windows: Windows, i: int, count_include_pad: bool) -> Any:
    """The number of elements in the average of each window along dimension ``i``."""
    size, padding = windows.sizes[i], windows.padding[i]
    numpy = jnp if is_open(size) else np
    starts = numpy.arange(windows.outputs[i]) * windows.stride[i] - padding
    stops = numpy.minimum(starts + windows.kernel[i], size + padding)
    if count_include_pad:
        return stops - starts
    return numpy.minimum(stops, size) - numpy.maximum(starts, 0)


@op(node="SqueezeBackward1", linear=True)
def avg_pool1d(input: Array, kernel_size: Sizes, stride: Sizes | None = None,
               padding: Sizes = 0, ceil_mode: bool = False,
               count_include_pad: bool = True) -> Array:  # fmt: skip
    """The average of each window of ``(N, C, L)`` or ``(C, L)``; see `avg_pool2d`."""
    return average_pool("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode,
                     count_include_pad, None)  # fmt: skip


@op(node="AvgPool2DBackward0", linear=True)
def avg_pool2d(input: Array, kernel_size: Sizes, stride: Sizes | None = None,
               padding: Sizes = 0, ceil_mode: bool = False, count_include_pad: bool = True,
               divisor_override: int | None = None) -> Array:  # fmt: skip
    """The average of each window.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: Size of a window; one number or one per dimension, like the following.
        stride: Step from window to window, by default ``kernel_size``.
        padding: Zeros on both sides, at most half of ``kernel_size``.
        ceil_mode: Keep a last window that extends beyond the edge.
        count_include_pad: Count the zeros of the padding as elements.
        divisor_override: Divide each sum by this number.

    Raises:
        RuntimeError: The shape does not match, or a number is out of range.
    """
    return average_pool("avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode,
                     count_include_pad, divisor_override)  # fmt: skip


@op(node="AvgPool3DBackward0", linear=True)
def avg_pool3d(input: Array, kernel_size: Sizes, stride: Sizes | None = None,
               padding: Sizes = 0, ceil_mode: bool = False, count_include_pad: bool = True,
               divisor_override: int | None = None) -> Array:  # fmt: skip
    """The average of each window of ``(N, C, D, H, W)``; see `avg_pool2d`."""
    return average_pool("avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode,
                     count_include_pad, divisor_override)  # fmt: skip


# Adaptive: the windows divide the input evenly into a given number


def _adaptive_sizes(name: str, input: Any, output_size: Any, spatial: int) -> tuple[int, ...]:
    if spatial > 1 and not isinstance(output_size, int) and input.ndim <= spatial:
        raise errors.ValueError(
            f"{name}(): the input must have at least {spatial + 1} dimensions, got shape "
            f"{list(input.shape)}"
        )
    if input.ndim not in (spatial + 1, spatial + 2):
        raise RuntimeError(
            f"{name}(): the input must be {spatial + 1}-d or {spatial + 2}-d, "
            f"got shape {list(input.shape)}"
        )
    if isinstance(output_size, int) or output_size is None:
        output_size = (output_size,) * spatial
    if len(output_size) != spatial:
        raise RuntimeError(
            f"{name}(): output_size must be one number or {spatial}, got {list(output_size)}"
        )
    sizes = input.shape[-spatial:]
    found = tuple(
        have if want is None else want for have, want in zip(sizes, output_size, strict=True)
    )
    if min(found) < 0:
        raise RuntimeError(f"{name}(): output_size must not be negative, got {list(found)}")
    if 0 in sizes:
        raise RuntimeError(f"{name}(): no spatial size may be 0, got shape {list(input.shape)}")
    return found


def _spans(size: int, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """The starts and ends of the windows."""
    i = np.arange(outputs)
    return i * size // outputs, -(-(i + 1) * size // outputs)


@functools.cache
def _averages(axis: int, size: int, outputs: int) -> LinearMap:
    """Averages along a dimension over windows of different lengths.

    The windows that cover an element are adjacent, so the transpose is a sum over windows too. A
    product with a matrix of weights would spread an infinity or a NaN over the whole dimension.
    """
    starts, stops = _spans(size, outputs)
    first = np.searchsorted(stops, np.arange(size), side="right")
    over = np.searchsorted(starts, np.arange(size), side="right") - first

    def divided(array: Any) -> Any:
        lengths = (stops - starts).reshape(-1, *(1,) * (array.ndim - axis - 1))
        return array / jnp.asarray(lengths, array.dtype)

    def apply(_: Any, arrays: Any) -> Any:
        return (divided(_sums_over(arrays[0], axis, starts, stops - starts)),)

    def transpose(_: Any, cotangents: Any) -> Any:
        return (_sums_over(divided(cotangents[0]), axis, first, over),)

    return LinearMap(apply, transpose)


def _sums_over(array: Any, axis: int, starts: np.ndarray, lengths: np.ndarray) -> Any:
    """The sums of ``lengths`` elements from each of ``starts`` along a dimension."""
    if cpu_forms() and array.ndim > 3:
        # In a larger program XLA would compute several dimensions at once, with transposes.
        before, after = array.shape[:axis], array.shape[axis + 1 :]
        flat = array.reshape(math.prod(before), array.shape[axis], math.prod(after))
        return _sums_over(flat, 1, starts, lengths).reshape(*before, len(starts), *after)
    offsets = np.arange(lengths.max(initial=0))
    inside = offsets < lengths[:, None]
    places = np.where(inside, starts[:, None] + offsets, 0)
    inside = inside.reshape(*inside.shape, *(1,) * (array.ndim - axis - 1))
    if not 0 < len(offsets) <= _UNROLLED_AVERAGE:
        taken = jnp.take(array, places, axis, mode="clip")
        return jnp.sum(jnp.where(inside, taken, 0), axis + 1)
    taken = (jnp.take(array, places[:, i], axis, mode="clip") for i in offsets)
    taps = (jnp.where(inside[:, i], tap, 0) for i, tap in enumerate(taken))
    return functools.reduce(jnp.add, taps)


def _adaptive_avg_pool(name: str, spatial: int, input: Any, output_size: Any) -> Any:
    outputs = _adaptive_sizes(name, input, output_size, spatial)
    lead = input.shape[:-spatial]
    wide = input.astype(jnp.float32) if input.dtype.itemsize < 4 else input
    # Starting from the last, which is contiguous in memory, so that only the rest is transposed.
    for axis in reversed(range(len(lead), input.ndim)):
        count = outputs[axis - len(lead)]
        size = wide.shape[axis]
        if count == size:
            continue
        if count and size % count == 0:
            split = (*wide.shape[:axis], count, size // count, *wide.shape[axis + 1 :])
            wide = jnp.mean(wide.reshape(split), axis + 1)
            continue
        (wide,) = _averages(axis, size, count)((), (wide,))
    return wide.astype(input.dtype)


@op(node="SqueezeBackward1", linear=True)
def adaptive_avg_pool1d(input: Array, output_size: OutputSize) -> Array:
    """Averages of ``output_size`` windows of ``(N, C, L)`` or ``(C, L)``."""
    return _adaptive_avg_pool("adaptive_avg_pool1d", 1, input, output_size)


@op(node="AdaptiveAvgPool2DBackward0", linear=True)
def adaptive_avg_pool2d(input: Array, output_size: OutputSize) -> Array:
    """Averages of ``output_size`` windows that cover the input evenly.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        output_size: One number, or one per dimension; ``None`` keeps the input's size.

    Raises:
        RuntimeError: The shape does not match.
        ValueError: ``output_size`` has as many numbers as ``input`` has dimensions, or more.
    """
    return _adaptive_avg_pool("adaptive_avg_pool2d", 2, input, output_size)


@op(node="AdaptiveAvgPool3DBackward0", linear=True)
def adaptive_avg_pool3d(input: Array, output_size: OutputSize) -> Array:
    """Averages of ``output_size`` windows of ``(N, C, D, H, W)`` or ``(C, D, H, W)``."""
    return _adaptive_avg_pool("adaptive_avg_pool3d", 3, input, output_size)


@op(node="AdaptiveMaxPool2DBackward0")
def adaptive_max_pool(input: Array, spatial: int, output_size: OutputSize) -> Array:
    """Maxima of ``output_size`` windows, and their positions in the flattened spatial input."""
    name = f"adaptive_max_pool{spatial}d"
    needs_real_number(name, input)
    outputs = _adaptive_sizes(name, input, output_size, spatial)
    if 0 in input.shape[1:]:
        raise RuntimeError(f"{name}(): only the batch may be empty, got shape {list(input.shape)}")
    sizes = input.shape[-spatial:]
    lead = input.shape[:-spatial]
    flat = input.reshape((*lead, math.prod(sizes)))
    best = lax.stop_gradient(input)
    positions = np.arange(math.prod(sizes), dtype=np.int32).reshape(sizes)
    chosen = jnp.broadcast_to(positions, input.shape)
    # The first of equals along the last dimension, then along those before it, is the first of all.
    for i in reversed(range(spatial)):
        starts, stops = _spans(sizes[i], outputs[i])
        best, chosen = _greatest(best, chosen, input.ndim - spatial + i, starts, stops)
    places = chosen.reshape((*lead, math.prod(outputs)))
    best = jnp.take_along_axis(flat, places, -1, mode="promise_in_bounds")
    return best.reshape(chosen.shape), chosen.astype(jnp.int64)


def _greatest(
    values: Any, chosen: Any, axis: int, starts: np.ndarray, stops: np.ndarray
) -> list[Any]:
    """The greatest element of each window along ``axis``, the last NaN if any, and its position."""
    is_floating = jnp.issubdtype(values.dtype, jnp.floating)

    def greater(one: list[Any], other: list[Any]) -> list[Any]:
        is_better = other[0] > one[0]
        if is_floating:
            is_better |= jnp.isnan(other[0])
        return [jnp.where(is_better, each, kept) for kept, each in zip(one, other, strict=True)]

    def shifted(pair: list[Any], start: int, stop: int) -> list[Any]:
        return [lax.slice_in_dim(each, start, stop, axis=axis) for each in pair]

    # Compute windows of the least width at every position. No window is wider by more than one.
    least = int((stops - starts).min()) if starts.size else 1
    best, width = [values, chosen], 1
    while width < least:
        step, positions = min(width, least - width), best[0].shape[axis]
        best = greater(shifted(best, 0, positions - step), shifted(best, step, positions))
        width += step
    ends = [jnp.take(each, stops - 1, axis) for each in (values, chosen)]
    return greater([jnp.take(each, starts, axis) for each in best], ends)
