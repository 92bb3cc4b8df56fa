"""The strides that PyTorch would give a view, which decide where it copies instead of viewing.

XLA chooses layouts, so no tensor here has strides. But a write shows whether ``x.t().reshape(-1)``
and ``x.t().contiguous()`` share their elements with ``x``, which PyTorch decides by strides. Here
the strides follow from a chain of view steps on a contiguous base.
"""

from __future__ import annotations

import numpy as np

from flambeau.core.support.generations import remembered
from flambeau.core.types import DTypeLike
from flambeau.core.values.steps import (
    Bitcast,
    ComplexPairs,
    ComplexPart,
    Diagonal,
    Expand,
    Permute,
    Reshape,
    Slice,
    Starts,
    Step,
    Strided,
    Windows,
)
from flambeau.core.values.view import View

Ints = tuple[int, ...]


def contiguous_strides(shape: Ints) -> Ints:
    """The strides, in elements, of elements that lie in order and without gaps."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def is_in_order(view: View, base_shape: Ints, base_dtype: DTypeLike) -> bool:
    """Whether the viewed elements are contiguous, so that no copy is needed."""
    strides = strides_of(view.steps, base_shape, np.dtype(base_dtype))
    if 0 in view.shape:
        return True
    wanted = contiguous_strides(view.shape)
    return all(a == b or size == 1 for a, b, size in zip(strides, wanted, view.shape, strict=True))


def layout_of(view: View, base_shape: Ints, base_dtype: DTypeLike) -> tuple[Ints, int] | None:
    """The strides of a view, in elements, and its offset, in bytes.

    Returns:
        Both; ``None`` if it regroups dimensions that no strides can walk at once.
    """
    shape, dtype = base_shape, np.dtype(base_dtype)
    for i, step in enumerate(view.steps):
        if isinstance(step, Reshape):
            strides = strides_of(view.steps[:i], base_shape, np.dtype(base_dtype))
            if reshaped_strides(shape, strides, step.shape) is None:
                return None
        shape, dtype = step.result(shape, dtype)
    strides = strides_of(view.steps, base_shape, np.dtype(base_dtype))
    return strides, offset_of(view, base_shape, base_dtype)


def can_reshape(view: View, base_shape: Ints, base_dtype: DTypeLike, shape: Ints) -> bool:
    """Whether the viewed elements can take another shape without being copied."""
    strides = strides_of(view.steps, base_shape, np.dtype(base_dtype))
    return reshaped_strides(view.shape, strides, shape) is not None


def memory_order(view: View, base_shape: Ints, base_dtype: DTypeLike) -> Ints:
    """The dimensions of a view in the order in which memory walks them, the slowest first.

    For an expanded view, whose elements share memory, it is the order of the dimensions.
    """
    strides = strides_of(view.steps, base_shape, np.dtype(base_dtype))
    if 0 in strides:
        return tuple(range(len(strides)))
    return tuple(sorted(range(len(strides)), key=lambda dim: -strides[dim]))


@remembered
def strides_of(steps: tuple[Step, ...], shape: Ints, dtype: np.dtype) -> Ints:
    """The strides of the view of a contiguous array through ``steps``."""
    strides = contiguous_strides(shape)
    for step in steps:
        strides = _strides_after(step, shape, strides, dtype)
        shape, dtype = step.result(shape, dtype)
    return strides


def offset_of(view: View, base_shape: Ints, base_dtype: DTypeLike) -> int:
    """The number of bytes from the base's first element to the first viewed one."""
    shape, dtype = base_shape, np.dtype(base_dtype)
    strides, offset, taken = contiguous_strides(shape), 0, 0
    for step in view.steps:
        starts = () if view.starts is None else view.starts[taken : taken + step.starts]
        offset += _elements_before(step, strides, starts) * dtype.itemsize
        if isinstance(step, ComplexPart) and step.imaginary:
            offset += dtype.itemsize // 2
        taken += step.starts
        strides = _strides_after(step, shape, strides, dtype)
        shape, dtype = step.result(shape, dtype)
    return offset


def _elements_before(step: Step, strides: Ints, starts: Starts) -> int:
    match step:
        case Slice():
            cuts = zip(step.cuts, starts, strict=True)
            return sum(int(start) * strides[cut.dim] for cut, start in cuts)
        case Strided():
            return int(starts[0])
        case Diagonal():
            return (
                step.offset * strides[step.dim2]
                if step.offset > 0
                else -step.offset * strides[step.dim1]
            )
    return 0


def _strides_after(step: Step, shape: Ints, strides: Ints, dtype: np.dtype) -> Ints:
    match step:
        case Reshape():
            found = reshaped_strides(shape, strides, step.shape)
            return contiguous_strides(step.shape) if found is None else found
        case Permute():
            return tuple(strides[d] for d in step.dims)
        case Expand():
            added = len(step.shape) - len(shape)
            sizes = zip(shape, step.shape[added:], strides, strict=True)
            kept = (stride if size == wanted else 0 for size, wanted, stride in sizes)
            return (0,) * added + tuple(kept)
        case Slice():
            cuts = {cut.dim: cut for cut in step.cuts}
            return tuple(
                stride * cuts[d].stride if d in cuts else stride
                for d, stride in enumerate(strides)
                if d not in cuts or not cuts[d].squeeze
            )
        case Diagonal():
            kept = (s for d, s in enumerate(strides) if d not in (step.dim1, step.dim2))
            return (*kept, strides[step.dim1] + strides[step.dim2])
        case Bitcast():
            return _scaled(strides, dtype.itemsize, step.numpy_dtype.itemsize)
        case ComplexPart():
            return tuple(2 * stride for stride in strides)
        case ComplexPairs():
            if step.inverse:
                return tuple(stride // 2 for stride in strides[:-1])
            return (*(2 * stride for stride in strides), 1)
        case Strided():
            return step.strides
        case Windows():
            if not shape:
                return (1,)
            own = strides[step.dim]
            return (*strides[: step.dim], own * step.step, *strides[step.dim + 1 :], own)


def _scaled(strides: Ints, before: int, after: int) -> Ints:
    if before == after:
        return strides
    return (*(stride * before // after for stride in strides[:-1]), 1)


def reshaped_strides(shape: Ints, strides: Ints, to: Ints) -> Ints | None:
    """The strides under which the same memory has shape ``to``, or ``None`` if there are none.

    Dimensions fall into chunks in which each stride is the next one times its size. The new shape
    fits if its dimensions can be grouped so that every group fills one chunk.
    """
    if 0 in shape:
        return contiguous_strides(to)
    chunks = _chunks(shape, strides)
    result: list[int] = []
    remaining = list(reversed(to))
    for count, step in chunks:
        filled = 1
        while remaining and (filled < count or remaining[0] == 1):
            size = remaining.pop(0)
            result.append(step * filled)
            filled *= size
        if filled != count:
            return None
    return tuple(reversed(result)) if not remaining else None


def _chunks(shape: Ints, strides: Ints) -> list[tuple[int, int]]:
    """Sizes and strides of the runs of dimensions that one stride can walk, last run first."""
    chunks: list[tuple[int, int]] = []
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 1:
            continue
        if chunks and stride == chunks[-1][0] * chunks[-1][1]:
            chunks[-1] = (chunks[-1][0] * size, chunks[-1][1])
        else:
            chunks.append((size, stride))
    return chunks or [(1, 1)]
