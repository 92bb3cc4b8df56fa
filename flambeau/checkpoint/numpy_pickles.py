"""The names in NumPy's pickles: numeric dtypes, scalars and arrays."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from flambeau.checkpoint.elements import array_from
from flambeau.checkpoint.errors import RefusedContentError
from flambeau.checkpoint.limits import Budget
from flambeau.checkpoint.pickled import Stateful, shown

__all__ = ["ARRAY_CLASS", "NumpyDtype", "fill_array", "numpy_scalar", "reconstructed"]

#: Replaces `numpy.ndarray` where a pickle names it.
ARRAY_CLASS = np.ndarray


class NumpyDtype(Stateful):
    """A NumPy dtype in its pickled form: a name, then the byte order and other fields."""

    found: Any

    def __init__(self, reader: Any, name: str, *_: Any) -> None:
        if not re.fullmatch(r"[biufc]\d{1,2}", name):
            raise RefusedContentError(f"NumPy's dtype {shown(name)} is not numeric")
        self.found = np.dtype(name)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if type(state[1]) is not str or state[1] not in ("<", ">", "=", "|"):
            raise ValueError("an unknown byte order")
        self.found = self.found.newbyteorder(state[1])


def numpy_scalar(reader: Any, of: NumpyDtype, data: bytes) -> Any:
    """A NumPy scalar from its bytes."""
    if len(data) != of.found.itemsize:
        raise ValueError(f"{len(data)} bytes for a number of {of.found.itemsize}")
    return array_from(data, of.found)[0]


def reconstructed(reader: Any, cls: Any, shape: Any, code: Any) -> Any:
    """An array without elements, whose state follows in the pickle."""
    if cls is not ARRAY_CLASS:
        raise RefusedContentError("an array of a subclass")
    return np.empty(0, np.int8)


def fill_array(target: Any, state: Any, budget: Budget) -> None:
    """Set the shape, dtype and elements of an array that `reconstructed` made.

    Raises:
        TypeError: The state is not that of an array of numbers.
        ValueError: The shape and the elements do not fit each other.
    """
    _, shape, of, is_transposed, data = state
    if not isinstance(of, NumpyDtype) or type(data) is not bytes or type(shape) is not tuple:
        raise TypeError("the state of an object that is not an array of numbers")
    if target.size or not all(type(each) is int and each >= 0 for each in shape):
        raise ValueError("an array that has elements already, or an impossible shape")
    count = 1
    for each in shape:
        count *= each
    if count * of.found.itemsize != len(data):
        raise ValueError(f"{len(data)} bytes for an array of {count} numbers")
    budget.take(len(data), "an array of NumPy's")
    target.__setstate__((1, shape, of.found, bool(is_transposed), data))
