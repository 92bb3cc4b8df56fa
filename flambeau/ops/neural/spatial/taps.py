"""The taps of windows that slide over an array."""

from __future__ import annotations

import itertools
import math
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import lax

Numbers: TypeAlias = tuple[int, ...]
Borders: TypeAlias = list[tuple[int, int]]

# With more taps than this, the number of operations must not depend on it: XLA would compile for
# minutes.
UNROLLED_TAPS = 64
# The same limit for taps that are copied side by side, and for taps along one dimension.
_COPIED_TAPS, _FEW_SLICES = 36, 16


def taps(
    array: Any, kernel: Numbers, outputs: Numbers, stride: Numbers, dilation: Numbers
) -> list[Any]:
    """For each tap of a window, the elements that all windows have there.

    Args:
        array: ``(..., *spatial)``, padded.
        kernel: The size of a window along each spatial dimension.
        outputs: The number of windows.
        stride: The step from window to window.
        dilation: The step between the elements of a window.

    Returns:
        Arrays ``(..., *outputs)``, the last dimension of the window varying fastest.
    """
    lead = array.shape[: array.ndim - len(kernel)]
    steps = (1,) * len(lead) + stride
    found = []
    for offsets in itertools.product(*map(range, kernel)):
        starts = tuple(o * d for o, d in zip(offsets, dilation, strict=True))
        stops = tuple(a + (n - 1) * s + 1 for a, n, s in zip(starts, outputs, stride, strict=True))
        found.append(lax.slice(array, (0,) * len(lead) + starts, lead + stops, steps))
    return found


def windows(
    array: Any, kernel: Numbers, outputs: Numbers, stride: Numbers, dilation: Numbers
) -> Any:
    """All windows, as ``(..., taps, *outputs)``, the last dimension of the window varying fastest.

    The number of operations does not grow with the kernel. The arguments are those of `taps`.
    """
    spatial = len(kernel)
    lead = array.ndim - spatial
    if math.prod(kernel) <= _COPIED_TAPS and not are_patches(kernel, stride, dilation):
        return jnp.stack(taps(array, kernel, outputs, stride, dilation), lead)
    for i in reversed(range(spatial)):
        array = windows_along(array, lead + i, kernel[i], outputs[i], stride[i], dilation[i])
    order = (*range(lead), *range(lead, array.ndim, 2), *range(lead + 1, array.ndim, 2))
    return array.transpose(order).reshape(*array.shape[:lead], math.prod(kernel), *outputs)


def are_patches(kernel: Numbers, stride: Numbers, dilation: Numbers) -> bool:
    """Whether no two windows share an element."""
    return max(dilation) == 1 and all(k <= s for k, s in zip(kernel, stride, strict=True))


def windows_along(array: Any, axis: int, size: int, count: int, step: int, gap: int) -> Any:
    """The windows along one dimension, which becomes ``(size, count)``.

    Args:
        array: Padded.
        axis: The dimension.
        size: The number of elements of a window.
        count: The number of windows.
        step: The distance between windows.
        gap: The distance between the elements of a window.
    """
    reach = (count - 1) * step + (size - 1) * gap + 1
    array = lax.slice_in_dim(array, 0, reach, axis=axis)
    if gap > 1 or step == 1 or step < size <= _FEW_SLICES:
        return _shifted(array, axis, size, count, step, gap)
    # Split into cells of one stride: a window is a few adjacent cells.
    cells = -(-size // step)
    room = [(0, 0, 0)] * array.ndim
    room[axis] = (0, (count + cells - 1) * step - reach, 0)
    array = lax.pad(array, np.zeros((), array.dtype), room)
    split = array.reshape(*array.shape[:axis], -1, step, *array.shape[axis + 1 :])
    found = jnp.moveaxis(_shifted(split, axis, cells, count, 1, 1), axis + 2, axis + 1)
    found = found.reshape(*array.shape[:axis], cells * step, count, *array.shape[axis + 1 :])
    return lax.slice_in_dim(found, 0, size, axis=axis)


def _shifted(array: Any, axis: int, size: int, count: int, step: int, gap: int) -> Any:
    """`windows_along` for an array that is as long as the windows need."""
    if count < size:
        return jnp.swapaxes(_shifted(array, axis, count, size, gap, step), axis, axis + 1)
    width = (count - 1) * step + 1
    if size <= _FEW_SLICES:
        rows = [
            lax.slice_in_dim(array, at, at + width, step, axis) for at in range(0, size * gap, gap)
        ]
        return jnp.stack(rows, axis)
    # Copies in sequence, read as rows that are longer by the gap, are shifted by it.
    before, length, after = array.shape[:axis], array.shape[axis], array.shape[axis + 1 :]
    copies = jnp.broadcast_to(jnp.expand_dims(array, axis), (*before, size, length, *after))
    copies = copies.reshape(*before, size * length, *after)
    room = [(0, 0, 0)] * array.ndim
    room[axis] = (0, size * gap, 0)
    copies = lax.pad(copies, np.zeros((), array.dtype), room)
    rows = copies.reshape(*before, size, length + gap, *after)
    return lax.slice_in_dim(rows, 0, width, step, axis + 1)


def padded(input: Any, borders: Borders, spread: Numbers | None = None) -> Any:
    """``(N, C, *spatial)`` with zeros around it, or cropped where they are negative.

    Args:
        input: The tensor to pad.
        borders: The number of zeros before and after each spatial dimension.
        spread: The step between the elements of ``input`` in the result, with zeros in between.
    """
    steps = spread or (1,) * len(borders)
    around = [(a, b, step - 1) for (a, b), step in zip(borders, steps, strict=True)]
    return lax.pad(input, np.zeros((), input.dtype), [(0, 0, 0)] * 2 + around)


def counts_of(
    input: Any, kernel: Numbers, stride: Numbers, borders: Borders, dilation: Numbers
) -> Numbers:
    """The number of outputs along each dimension."""
    return tuple(
        (size + before + after - d * (k - 1) - 1) // s + 1
        for size, k, s, (before, after), d in zip(
            input.shape[2:], kernel, stride, borders, dilation, strict=True
        )
    )
