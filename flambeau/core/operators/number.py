"""Python numbers that a trace takes as arguments, or finds outside.

A `Number` that is only given to operators is an input of the program, so one program serves all
values. Any other use reads the value, and the program holds for that value only.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from typing import Any

from flambeau.core.values.tensor import Tensor

__all__: list[str] = []

#: The classes of numbers that `number_of` stands in for, each with the class of its stand-ins.
KINDS: dict[type, type[Number]] = {}

_BINARY = {
    name: getattr(operator, f"{name}_" if name in ("and", "or") else name)
    for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or",
        "xor", "lt", "le", "gt", "ge", "eq", "ne",
    )
}  # fmt: skip
_BINARY["divmod"] = divmod
_COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}
# Arithmetic of floats that XLA does as Python does.
_FOLLOWED = {"add", "sub", "mul", "neg"}
_UNARY: dict[str, Callable[..., Any]] = {
    "neg": operator.neg, "pos": operator.pos, "abs": abs, "invert": operator.invert,
    "int": int, "float": float, "complex": complex, "index": operator.index, "bool": bool,
    "hash": hash, "repr": repr, "str": str, "format": format, "round": round,
    "trunc": math.trunc, "floor": math.floor, "ceil": math.ceil, "bytes": bytes,
}  # fmt: skip


class Number:
    """A number that a traced function takes from outside. It passes for an ``int`` or a ``float``.

    Args:
        value: The value in the traced call.
        array: The input of the program.
        note: Called when the value is read.
    """

    __slots__ = ("__weakref__", "_array", "_note", "_value")

    # NumPy leaves operators with its arrays to this class.
    __array_ufunc__ = None

    def __init__(self, value: Any, array: Any, note: Callable[[], None]) -> None:
        self._value, self._array, self._note = value, array, note

    def read(self) -> Any:
        """The value, on which the program then depends."""
        self._note()
        return self._value

    def _read(self) -> Any:
        """The array, as `Tensor._read` returns it."""
        return self._array

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(self._value)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._value, name)
        self._note()
        return found

    def __array__(self, *args: Any, **options: Any) -> Any:
        import numpy as np

        return np.array(self.read(), *args, **options)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self._value), (self.read(),)


def plain(value: Any) -> Any:
    """``value``; a number that Python can compute with in place of a `Number`."""
    return value.read() if isinstance(value, Number) else value


def number_of(value: Any, array: Any, note: Callable[[], None]) -> Number:
    """The stand-in for ``value``, an ``int`` or a ``float``; arguments as for `Number`."""
    return KINDS[type(value)](value, array, note)


def _binary(name: str, function: Callable[..., Any], is_swapped: bool) -> Callable[..., Any]:
    def compute(self: Number, other: Any, *modulus: Any) -> Any:
        if isinstance(other, Tensor) or hasattr(type(other), "__torch_function__"):
            return NotImplemented
        if name in _FOLLOWED and (isinstance(self, float) or isinstance(other, float)):
            followed = _followed(function, (other, self) if is_swapped else (self, other))
            if followed is not None:
                return followed
        value, other = self.read(), plain(other)
        if modulus:
            return pow(value, other, *map(plain, modulus))
        return function(other, value) if is_swapped else function(value, other)

    return compute


def _followed(function: Callable[..., Any], operands: tuple[Any, ...]) -> Number | None:
    """The result of float arithmetic, as another input of the program's operators."""
    numbers = [each for each in operands if isinstance(each, Number)]
    values = [each._value if isinstance(each, Number) else each for each in operands]
    if not all(type(each) in KINDS for each in values):
        return None
    arrays = [each._array if isinstance(each, Number) else float(each) for each in operands]

    def note() -> None:
        for each in numbers:
            each._note()

    return number_of(function(*values), function(*arrays), note)


def _unary(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(self: Number, *args: Any) -> Any:
        if name in _FOLLOWED and isinstance(self, float):
            followed = _followed(function, (self,))
            if followed is not None:
                return followed
        return function(self.read(), *map(plain, args))

    return compute


def _stand_in_for(kind: type) -> type[Number]:
    """The class of stand-ins that have the special methods of ``kind``."""
    members: dict[str, Any] = {"__slots__": ()}
    for name, function in _BINARY.items():
        for prefix in ("", "r"):
            full = f"__{prefix}{name}__"
            if hasattr(kind, full) and not (prefix and name in _COMPARISONS):
                members[full] = _binary(name, function, bool(prefix))
    for name, function in _UNARY.items():
        if hasattr(kind, f"__{name}__"):
            members[f"__{name}__"] = _unary(name, function)
    return builtins.type(f"{kind.__name__}_argument", (Number,), members)


KINDS.update({kind: _stand_in_for(kind) for kind in (int, float)})
