"""Values that determine the shape of a result, and so must be known when an operator is called."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from flambeau.core.fusion.stream import seen
from flambeau.core.support.modes import modes
from flambeau.core.values.cell import is_abstract
from flambeau.core.values.host import MOST_ASKED
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import AskedValueError

__all__: list[str] = []


def known_values(name: str, tensor: Tensor, advice: str = "") -> np.ndarray:
    """The elements of ``tensor``, for an operator whose result's shape depends on them.

    Args:
        name: The operator, for messages.
        tensor: The tensor to read.
        advice: The alternative in a compiled program.

    Raises:
        TracedValueError: A program is being compiled, and no earlier call has recorded the values.
        NotImplementedError: The tensor is on the meta device.
    """
    array = tensor._read()
    if modes.asking is None or tensor.numel() > MOST_ASKED:
        return present_values(name, array, advice)
    if modes.trace is not None:
        array = modes.trace.as_input(tensor._cell, array)
    return modes.asking.value(array, lambda: present_values(name, array, advice))


def present_values(name: str, array: Any, advice: str = "") -> np.ndarray:
    """The elements of an array, like `known_values`, without a record of earlier calls."""
    if modes.trace is not None or isinstance(array, Tracer):
        # Even an available value is only the present one.
        instead = f"{advice}, or " if advice else ""
        raise AskedValueError(
            f"the shape of the result of {name}() depends on values that are not known while a "
            f"program is being compiled; {instead}move this line out of the compiled function"
        )
    if is_abstract(array):
        raise NotImplementedError(
            f"the shape of the result of {name}() depends on values, and a tensor on the meta "
            "device has none"
        )
    return np.asarray(seen(array))


def is_traced(tensor: Tensor) -> bool:
    """Whether the elements of ``tensor`` are those of a program that is being traced."""
    # Even an available value is only the present one.
    return modes.trace is not None or isinstance(tensor._read(), Tracer)


def is_unknown(array: jax.Array) -> bool:
    """Whether the elements of an array are not available, or only by a copy."""
    if modes.trace is not None or isinstance(array, Tracer) or is_abstract(array):
        return True
    return isinstance(array, jax.Array) and next(iter(array.devices())).platform != "cpu"
