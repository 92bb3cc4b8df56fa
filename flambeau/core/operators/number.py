"""Python numbers that a trace takes as arguments, or finds outside.

A `Number` that is only computed with and given to operators is an input of the program, so one
program serves all values: the arithmetic is repeated in Python at each call. Any other use reads
the value, and the program holds for that value only.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
from collections.abc import Callable
from typing import Any, Protocol

from flambeau.core.values.tensor import Tensor

__all__: list[str] = []

#: The classes of numbers that a `Number` passes for, each with the class of these.
KINDS: dict[type, type[Number]] = {}

_ARITHMETIC = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_",
    "xor",
)  # fmt: skip
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_UNARY: dict[str, Callable[..., Any]] = {
    "neg": operator.neg, "pos": operator.pos, "abs": abs, "invert": operator.invert,
    "trunc": math.trunc, "floor": math.floor, "ceil": math.ceil, "round": round,
}  # fmt: skip
#: The functions of `math` that take numbers and give numbers; see `followed`.
MATH: tuple[Callable[..., Any], ...] = (
    math.acos, math.acosh, math.asin, math.asinh, math.atan, math.atan2, math.atanh, math.copysign,
    math.cos, math.cosh, math.degrees, math.erf, math.erfc, math.exp, math.expm1, math.fabs,
    math.floor, math.ceil, math.trunc, math.fmod, math.hypot, math.log, math.log10, math.log1p,
    math.log2, math.pow, math.radians, math.sin, math.sinh, math.sqrt, math.tan, math.tanh,
)  # fmt: skip
# What Python gets from these must be its own number, text or the like.
_READING: dict[str, Callable[..., Any]] = {
    "int": int, "float": float, "complex": complex, "index": operator.index, "hash": hash,
    "repr": repr, "str": str, "format": format, "bytes": bytes,
}  # fmt: skip


class Arithmetic(Protocol):
    """The arithmetic with the numbers of one trace. Each of its values has a place."""

    def read(self, place: int) -> None:
        """Note that Python reads a value."""

    def array(self, place: int) -> Any:
        """A value as an input of the program."""

    def computed(self, function: Callable[..., Any], left: Any, right: Any) -> Any:
        """The result of a function of two numbers, a `Number` if it is one."""

    def answer(self, function: Callable[..., Any], left: Any, right: Any) -> bool:
        """The answer to a comparison of two numbers, which holds for each call of the program."""
        ...


class Number:
    """A number that a traced function takes from outside. It passes for an ``int`` or a ``float``.

    Args:
        value: The value in the traced call.
        arithmetic: What it is part of.
        place: Its place there.
    """

    __slots__ = ("__weakref__", "_arithmetic", "_place", "_value")

    # NumPy leaves operators with its arrays to this class.
    __array_ufunc__ = None

    def __init__(self, value: Any, arithmetic: Arithmetic, place: int) -> None:
        self._value, self._arithmetic, self._place = value, arithmetic, place

    def read(self) -> Any:
        """The value, on which the program then depends."""
        self._arithmetic.read(self._place)
        return self._value

    def _read(self) -> Any:
        """The array, as `Tensor._read` returns it."""
        return self._arithmetic.array(self._place)

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(self._value)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._value, name)
        self.read()
        return found

    def __bool__(self) -> bool:
        return self._arithmetic.answer(operator.ne, self, 0)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __array__(self, *args: Any, **options: Any) -> Any:
        import numpy as np

        return np.array(self.read(), *args, **options)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self._value), (self.read(),)


def plain(value: Any) -> Any:
    """``value``; a number that Python can compute with in place of a `Number`."""
    return value.read() if isinstance(value, Number) else value


def number_of(value: Any, arithmetic: Arithmetic, place: int) -> Number:
    """The stand-in for ``value``, an ``int`` or a ``float``; arguments as for `Number`."""
    return KINDS[type(value)](value, arithmetic, place)


def _is_number(value: Any) -> bool:
    return isinstance(value, Number) or type(value) in KINDS


def _binary(function: Callable[..., Any], is_swapped: bool = False) -> Callable[..., Any]:
    def compute(self: Number, other: Any, *modulus: Any) -> Any:
        if isinstance(other, Tensor) or hasattr(type(other), "__torch_function__"):
            return NotImplemented
        operands = (other, self) if is_swapped else (self, other)
        if not modulus and _is_number(other):
            return self._arithmetic.computed(function, *operands)
        values = map(plain, operands)
        return pow(*values, *map(plain, modulus)) if modulus else function(*values)

    return compute


def _comparison(function: Callable[..., Any]) -> Callable[..., Any]:
    def compare(self: Number, other: Any) -> Any:
        if isinstance(other, Tensor) or hasattr(type(other), "__torch_function__"):
            return NotImplemented
        if _is_number(other):
            return self._arithmetic.answer(function, self, other)
        return function(self.read(), other)

    return compare


@functools.cache
def _of_two(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one number, as one that takes a second one and leaves it out."""

    def of_two(value: Any, _: Any) -> Any:
        return function(value)

    of_two.__name__ = function.__name__
    return of_two


def _unary(function: Callable[..., Any]) -> Callable[..., Any]:
    of_two = _of_two(function)

    def compute(self: Number, *args: Any) -> Any:
        if not args:
            return self._arithmetic.computed(of_two, self, self)
        if len(args) == 1 and _is_number(args[0]):
            return self._arithmetic.computed(function, self, args[0])
        return function(self.read(), *args)

    return compute


def followed(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The result of a function of one or two numbers, followed if one is a `Number`."""
    number = next((each for each in args if isinstance(each, Number)), None)
    if number is not None and all(map(_is_number, args)):
        if len(args) == 1:
            return number._arithmetic.computed(_of_two(function), number, number)
        if len(args) == 2:
            return number._arithmetic.computed(function, args[0], args[1])
    return function(*map(plain, args))


def _reading(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *args: function(self.read(), *map(plain, args))


def _stand_in_for(kind: type) -> type[Number]:
    """The class of stand-ins that have the special methods of ``kind``."""
    members: dict[str, Any] = {"__slots__": ()}
    for name in _ARITHMETIC:
        function, name = getattr(operator, name), name.strip("_")
        members[f"__{name}__"] = _binary(function)
        members[f"__r{name}__"] = _binary(function, is_swapped=True)
    members |= {f"__{name}__": _comparison(getattr(operator, name)) for name in _COMPARISONS}
    members |= {f"__{name}__": _unary(function) for name, function in _UNARY.items()}
    members |= {f"__{name}__": _reading(function) for name, function in _READING.items()}
    members = {name: each for name, each in members.items() if hasattr(kind, name)}
    return builtins.type(f"{kind.__name__}_argument", (Number,), {"__slots__": ()} | members)


KINDS.update({kind: _stand_in_for(kind) for kind in (int, float)})
