"""Looking at the elements of a tensor before an operator runs, where that costs next to nothing.

On the CPU an eager tensor's elements can be read, so an index that is out of range is an error, as
in PyTorch. In compiled programs and on other devices they cannot: there the result is NaN.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

from flambeau.core.fusion.deferred import seen
from flambeau.core.jax_private import ArrayImpl
from flambeau.core.modes import modes
from flambeau.core.tensor import Tensor

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def concrete_values(tensor: Any) -> np.ndarray | None:
    """The elements, if they are in this process's memory and not a matter of a running trace."""
    if modes.trace is not None or not isinstance(tensor, Tensor):
        return None
    array = seen(tensor._read())
    if type(array) is not ArrayImpl or array.platform() != "cpu":
        return None
    return np.asarray(array) if _is_alone() or array.is_fully_addressable else None


@functools.cache
def _is_alone() -> bool:
    """Whether this process has all devices, and so the whole of every array."""
    return jax.process_count() == 1


def check_below(
    name: str,
    argument: str,
    indices: Any,
    limit: int,
    besides: int | None = None,
    error: type[Exception] = IndexError,
) -> None:
    """Check that all indices are from 0 to below ``limit``, where that can be seen.

    Args:
        name: The operator, for the message.
        argument: The name of the indices in the message.
        indices: An integer tensor.
        limit: One more than the greatest index.
        besides: A value that is allowed too.
        error: The error to raise.

    Raises:
        IndexError: One is not; or another ``error``.
    """
    elements = concrete_values(indices)
    if elements is None or elements.size == 0 or elements.dtype.kind not in "iu":
        return
    # Seen as unsigned, negative numbers are large: one pass finds both kinds of errors.
    if np.maximum.reduce(elements.view(_UNSIGNED[elements.itemsize]), axis=None) < limit:
        return
    wrong = (elements < 0) | (elements >= limit)
    if besides is not None:
        wrong &= elements != besides
    if wrong.any():
        raise error(
            f"{name}(): {argument} out of range: {argument.capitalize()} {elements[wrong][0]} is "
            f"out of bounds, since there are {limit}"
        )
