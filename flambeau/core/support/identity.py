"""The identity of values, for keys and comparisons: which object, or exactly which number."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__: list[str] = []

#: Marks a missing value.
MISSING = object()

_PLAIN = {int, float, bool, complex, str, bytes, type(None)}


class Same:
    """Compares by identity, and keeps the compared object alive."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value: Any = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _has_attributes(value: Any) -> bool:
    return bool(getattr(value, "__dict__", None))


def exactly(value: Any) -> tuple[type, Any]:
    """A number or text that compares exactly: by type, zero with its sign, NaN equal to NaN.

    >>> from flambeau.core.support.identity import exactly
    >>> exactly(0.0) == exactly(-0.0), exactly(1) == exactly(True)
    (False, False)
    """
    if type(value) not in _PLAIN:
        if isinstance(value, np.void):
            # The one NumPy scalar that is mutable.
            return type(value), (value.dtype, value.tobytes())
        if isinstance(value, float | int | complex | str | bytes) and _has_attributes(value):
            return type(value), Same(value)
    if isinstance(value, float | complex | np.inexact) and (value == 0 or value != value):
        return type(value), repr(value)
    return type(value), value
