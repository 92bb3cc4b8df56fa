"""Checks of a tensor's elements before an operator runs, if they cost next to nothing.

On the CPU an eager tensor's elements can be read, so an index out of range is an error, as in
PyTorch. In compiled programs and on other devices the result is NaN, unless `compiler.checks` asks
for the error.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from flambeau.core.fusion.stream import seen
from flambeau.core.support.jax_private import ArrayImpl
from flambeau.core.support.modes import modes
from flambeau.core.tape import checks
from flambeau.core.values.cell import is_abstract
from flambeau.core.values.inside import require
from flambeau.core.values.tensor import Tensor

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def concrete_values(tensor: Any) -> np.ndarray | None:
    """The elements, if they are in this process's memory and no running trace depends on them."""
    if modes.trace is not None or not isinstance(tensor, Tensor):
        return None
    return _on_host(tensor._read())


def _on_host(array: Any, everywhere: bool = False) -> np.ndarray | None:
    array = seen(array)
    if type(array) is not ArrayImpl or not (everywhere or array.platform() == "cpu"):
        return None
    return np.asarray(array) if _is_alone() or array.is_fully_addressable else None


@functools.cache
def _is_alone() -> bool:
    """Whether this process has all devices, and so every array completely."""
    return jax.process_count() == 1


def check_below(
    name: str,
    argument: str,
    indices: Any,
    limit: int,
    besides: int | None = None,
    error: type[Exception] = IndexError,
) -> None:
    """Check that all indices are in [0, ``limit``), if they are known.

    Args:
        name: The operator, for the message.
        argument: The name of the indices in the message.
        indices: An integer tensor.
        limit: The upper bound, exclusive.
        besides: Another allowed value.
        error: The error to raise.

    Raises:
        IndexError: An index is out of range; the class is ``error``.
    """
    elements = outside(indices, 0, limit, besides) if isinstance(indices, Tensor) else None
    if elements is None:
        return
    wrong = (elements < 0) | (elements >= limit)
    if besides is not None:
        wrong &= elements != besides
    if wrong.any():
        raise error(
            f"{name}(): {argument} out of range: {argument.capitalize()} {elements[wrong][0]} is "
            f"out of bounds; it must be from 0 to {limit - 1}"
        )


def outside(index: Any, low: int, high: int, besides: int | None = None) -> np.ndarray | None:
    """The elements of an index array, if they are known and one is out of range.

    A program that is being traced checks them when it runs, if `compiler.checks` asks for it.

    Args:
        index: A tensor or array; one that has no integers passes.
        low: The least allowed value.
        high: The upper bound, exclusive.
        besides: Another allowed value.
    """
    if isinstance(index, Tensor):
        if modes.trace is not None and not checks.indices:
            # Selections have no array, and nothing would be checked.
            return None
        index = index._read()
    if is_abstract(index) or not index.size or index.dtype.kind not in "iu":
        return None
    if isinstance(index, np.ndarray):
        elements = index
    elif modes.trace is not None or isinstance(index, Tracer):
        if checks.indices:
            require(lambda: jnp.all(_is_within(index, low, high, besides)))
        return None
    else:
        elements = _on_host(index, everywhere=checks.indices)
    if elements is None or _are_all_within(elements, low, high):
        return None
    return None if _is_within(elements, low, high, besides).all() else elements


def _are_all_within(elements: np.ndarray, low: int, high: int) -> bool:
    if low:
        return bool(elements.min() >= low and elements.max() < high)
    # As unsigned numbers, negative ones are large: one pass finds both kinds of errors.
    return bool(np.maximum.reduce(elements.view(_UNSIGNED[elements.itemsize]), axis=None) < high)


def _is_within(elements: Any, low: int, high: int, besides: int | None) -> Any:
    # The bounds may exceed the range of a small dtype.
    elements = elements.astype(np.int64)
    is_within = (elements >= low) & (elements < high)
    return is_within if besides is None else is_within | (elements == besides)
