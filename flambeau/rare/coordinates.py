"""Flat indices and their coordinates."""

from __future__ import annotations

from typing import Any

from flambeau.core.operators.op import function
from flambeau.core.support.dtype import INTEGER
from flambeau.core.values.tensor import Tensor

__all__ = ["unravel_index"]


@function
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates of flat indices, one tensor for each dimension.

    Args:
        indices: Integers of any shape, which index the flattened tensor of shape ``shape``; they
            wrap around.
        shape: The sizes of the tensor, or its only size.

    Raises:
        TypeError: ``indices`` are no integers, or ``shape`` is not a sequence of them.
        ValueError: A size is negative.

    >>> import flambeau
    >>> flambeau.unravel_index(flambeau.tensor([5, 3]), (2, 3))
    (tensor([1, 1]), tensor([2, 0]))
    """
    if indices.dtype.category != INTEGER:
        raise TypeError(f"unravel_index(): indices must be integers, got {indices.dtype}")
    sizes = (shape,) if isinstance(shape, int) else shape
    if isinstance(sizes, Tensor) or not all(isinstance(each, int) for each in sizes):
        raise TypeError(f"unravel_index(): shape must be an int or a sequence of ints, got {shape}")
    if any(each < 0 for each in sizes):
        raise ValueError(f"unravel_index(): sizes must not be negative, got {list(sizes)}")
    indices = indices.long()
    stride, found = 1, []
    for size in reversed(sizes):
        found.append(indices.div(stride, rounding_mode="floor") % size)
        stride *= size
    return tuple(reversed(found))
