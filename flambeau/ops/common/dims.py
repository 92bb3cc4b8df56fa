"""Reading sizes and lists of dimensions as callers pass them, with PyTorch's errors."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from jax.export import is_symbolic_dim

from flambeau.core.support import errors
from flambeau.ops.common.checks import wrap_dim

__all__: list[str] = []


def is_open(size: Any) -> bool:
    """Whether ``size`` is a symbolic size of `jax.export`."""
    return is_symbolic_dim(size)


def as_int(value: Any, name: str) -> int:
    """``value`` as a Python integer: an int, a NumPy integer or an integer tensor of one element.

    A symbolic size of `jax.export` is returned unchanged.

    Raises:
        TypeError: It has another type; ``name`` is the argument in the message.
    """
    if type(value) is int:
        return value
    try:
        return operator.index(value)
    except TypeError:
        if is_open(value):
            return value
        raise errors.TypeError(f"{name} must be an integer, got {type(value).__name__}") from None


def wrap_listed(dims: Sequence[Any], ndim: int, name: str) -> tuple[int, ...]:
    """Several dimensions counted from the front.

    Raises:
        IndexError: One is out of range.
        RuntimeError: One appears twice.
    """
    wrapped = tuple(wrap_dim(dim, ndim, name) for dim in dims)
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError(f"{name}(): a dimension appears more than once in {list(dims)}")
    return wrapped


def sizes_of(args: tuple[Any, ...], name: str, by_name: Any = None) -> tuple[int, ...]:
    """The integers given one by one or as one sequence, as in ``view(2, 3)`` and ``view((2, 3))``.

    Args:
        args: The arguments given by position.
        name: The function, for messages.
        by_name: The value passed as a keyword argument instead, if any.

    Raises:
        TypeError: Other values were passed.
    """
    if by_name is not None:
        args = (*args, by_name)
    if not args:
        raise errors.TypeError(f"{name}() needs integers, one by one or as one sequence; got none")
    if len(args) == 1 and isinstance(args[0], Sequence):
        args = tuple(args[0])
    return tuple([as_int(each, f"{name}(): a size") for each in args])


def fill_in_size(shape: tuple[int, ...], count: int, name: str) -> tuple[int, ...]:
    """``shape`` with a single -1 replaced by the size that follows from ``count`` elements.

    Args:
        shape: The requested sizes.
        count: The number of elements.
        name: The beginning of messages, such as ``"view()"``.

    Raises:
        RuntimeError: The elements do not fit, or more than one size is negative.
    """
    unknown = [d for d, size in enumerate(shape) if size < 0]
    if not unknown:
        if math.prod(shape) != count:
            raise RuntimeError(
                f"{name}: shape {list(shape)} is invalid for an input of {count} elements"
            )
        return shape
    if any(shape[d] != -1 for d in unknown):
        raise RuntimeError(f"{name}: shape {list(shape)} has a negative size other than -1")
    if len(unknown) > 1:
        raise RuntimeError(f"{name}: only one size can be -1, got {list(shape)}")
    known = math.prod(size for size in shape if size >= 0)
    if known == 0:
        if count == 0:
            raise RuntimeError(
                f"{name}: the -1 in shape {list(shape)} could be anything, since the input has "
                "0 elements"
            )
        raise RuntimeError(
            f"{name}: shape {list(shape)} is invalid for an input of {count} elements"
        )
    if count % known:
        raise RuntimeError(
            f"{name}: shape {list(shape)} is invalid for an input of {count} elements"
        )
    (at,) = unknown
    return (*shape[:at], count // known, *shape[at + 1 :])
