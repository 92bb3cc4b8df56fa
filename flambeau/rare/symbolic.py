"""PyTorch's symbolic numbers for unknown sizes; here all sizes are Python's numbers."""

from __future__ import annotations

import builtins
import math
from typing import Any

__all__ = [
    "SymBool", "SymFloat", "SymInt", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min",
    "sym_not", "sym_sqrt", "sym_sum",
]  # fmt: skip


class SymInt:
    """An unknown size; no value here is one: compiled functions are traced for each shape."""


class SymFloat:
    """An unknown number; no value here is one."""


class SymBool:
    """An unknown truth value; no value here is one."""


def sym_int(a: Any) -> int:
    """``int(a)``."""
    return builtins.int(a)


def sym_float(a: Any) -> float:
    """``float(a)``."""
    return builtins.float(a)


def sym_max(a: Any, b: Any) -> Any:
    """The larger number; a float if one of them is.

    >>> from flambeau import sym_max
    >>> sym_max(3, 2.0)
    3.0
    """
    return _chosen(max, a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number; a float if one of them is."""
    return _chosen(min, a, b)


def sym_not(a: Any) -> bool:
    """``not a``."""
    return not a


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """``t if b else f``."""
    if type(t) is not type(f):
        raise AssertionError(f"sym_ite(): type mismatch: {type(t)} and {type(f)}")
    return t if b else f


def sym_sqrt(a: Any) -> float:
    """``math.sqrt(a)``."""
    return math.sqrt(a)


def sym_sum(*args: Any) -> Any:
    """The sum of numbers, or of the numbers in one sequence."""
    return sum(args[0] if len(args) == 1 and hasattr(args[0], "__iter__") else args)


def _chosen(choose: Any, a: Any, b: Any) -> Any:
    found = choose(a, b)
    return builtins.float(found) if isinstance(a, float) or isinstance(b, float) else found
