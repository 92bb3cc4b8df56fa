"""Sizes that stand for any size: arithmetic with them is recorded, and so is every comparison.

A function of arrays is traced once with `Size`s in the place of some sizes. Each has the value of
an example, by which comparisons are answered; the answer becomes a *guard*. Python can ask nothing
else of a `Size`: it has no `__index__`, `__int__` or `__float__`, and its text and hash say nothing
of its value. So a trace for other sizes with the same answers would be the same one, and what is
traced holds for all of them.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import ShapedArray, Tracer

from flambeau.core.interpreter.record import Record
from flambeau.core.support.jax_core import jax_core
from flambeau.core.types import Function, Primitive

#: The primitive that turns a `Size` into a number of a program.
AS_NUMBER = "number_of_size"

# Kinds of numbers that arithmetic with sizes takes.
_NUMBERS = (int, float, np.integer)


def sizes_of(record: Record) -> list[Size]:
    """The sizes of the example of a record."""
    return [Size(record, place) for place in range(record.count)]


def _place_of(operand: object, record: Record) -> int | None:
    """The place of an operand; ``None`` for what is no number, or belongs to another record."""
    if isinstance(operand, Size):
        return operand.place if operand.record is record else None
    if not isinstance(operand, _NUMBERS):
        return None
    return record.constant(int(operand) if isinstance(operand, np.integer) else operand)


def _binary(function: Callable[..., float], swapped: bool = False) -> Function:
    """An operator of `Size`, or the one for a number on its left."""

    def compute(self: Size, other: object) -> Any:
        record = self.record
        place = _place_of(other, record)
        if place is None:
            return NotImplemented
        left, right = (place, self.place) if swapped else (self.place, place)
        if function is operator.pow and record.answer(operator.lt, right, record.constant(0)):
            raise TypeError("a size to a negative power")
        if function in _DIVISIONS and record.answer(operator.eq, right, record.constant(0)):
            raise ZeroDivisionError("division by a size of zero")
        return Size(record, record.computed(function, left, right))

    return compute


_DIVISIONS = {operator.floordiv, operator.mod, operator.truediv}


def _floor(value: float, _: float) -> int:
    return math.floor(value)


def _ceil(value: float, _: float) -> int:
    return math.ceil(value)


def _comparison(function: Callable[..., float]) -> Function:
    def compare(self: Size, other: object) -> Any:
        if other is self:
            return function(0, 0)
        place = _place_of(other, self.record) if self.record.is_open else None
        if place is None:
            return NotImplemented
        return self.record.answer(function, self.place, place)

    return compare


class Size:
    """A size that stands for any size, or a number computed of such.

    JAX takes it for a size because it has `dimension_as_value`.

    Args:
        record: Where its value comes from.
        place: Which of the record's values it is.
    """

    __slots__ = ("place", "record")

    # NumPy leaves operators with its numbers to this class.
    __array_ufunc__ = None

    def __init__(self, record: Record, place: int) -> None:
        self.record: Record = record
        self.place: int = place

    __add__, __radd__ = _binary(operator.add), _binary(operator.add, swapped=True)
    __sub__, __rsub__ = _binary(operator.sub), _binary(operator.sub, swapped=True)
    __mul__, __rmul__ = _binary(operator.mul), _binary(operator.mul, swapped=True)
    __pow__, __rpow__ = _binary(operator.pow), _binary(operator.pow, swapped=True)
    __mod__, __rmod__ = _binary(operator.mod), _binary(operator.mod, swapped=True)
    __floordiv__ = _binary(operator.floordiv)
    __rfloordiv__ = _binary(operator.floordiv, swapped=True)
    __truediv__ = _binary(operator.truediv)
    __rtruediv__ = _binary(operator.truediv, swapped=True)
    __eq__, __ne__ = _comparison(operator.eq), _comparison(operator.ne)
    __lt__, __le__ = _comparison(operator.lt), _comparison(operator.le)
    __gt__, __ge__ = _comparison(operator.gt), _comparison(operator.ge)

    # Names by which JAX asks a size.
    min, rmin = _binary(builtins.min), _binary(builtins.min, swapped=True)
    max, rmax = _binary(builtins.max), _binary(builtins.max, swapped=True)

    def __floor__(self) -> Size:
        return Size(self.record, self.record.computed(_floor, self.place, self.place))

    def __ceil__(self) -> Size:
        return Size(self.record, self.record.computed(_ceil, self.place, self.place))

    def __hash__(self) -> int:
        # Equal for all sizes of a record, so that a set compares them.
        return id(self.record)

    def __repr__(self) -> str:
        return f"size{self.place}"

    def __bool__(self) -> bool:
        return self != 0

    def __neg__(self) -> Size:
        return 0 - self

    def __pos__(self) -> Size:
        return self

    def __abs__(self) -> Size:
        return self if self >= 0 else -self

    def __divmod__(self, other: Size | float) -> tuple[Size, Size]:
        return self // other, self % other

    def __rdivmod__(self, other: Size | float) -> tuple[Size, Size]:
        return other // self, other % self

    def dimension_as_value(self) -> Tracer:
        """The size as a number of the program that is traced."""
        kind = type(self.record.values[self.place])
        if not self.record.is_open:
            raise TypeError("a size of a trace that has ended")
        return _as_number().bind(size=self, kind=kind)

    __jax_array__ = dimension_as_value


@functools.cache
def _as_number() -> Primitive:
    primitive = jax_core().Primitive(AS_NUMBER)

    def abstract(*, size: Size, kind: type) -> ShapedArray:
        return ShapedArray((), jax.dtypes.canonicalize_dtype(kind), weak_type=True)

    primitive.def_abstract_eval(abstract)
    return primitive


class Number(NamedTuple):
    """A constant of a program that is computed of sizes.

    Attributes:
        size: What it is.
        dtypes: Its first dtype, and those that it is converted to.
    """

    size: Size
    dtypes: tuple[np.dtype, ...]

    def converted(self, dtype: np.dtype) -> Number:
        """The number in another dtype."""
        return Number(self.size, (*self.dtypes, dtype))

    def array(self, values: Sequence[float]) -> np.ndarray:
        """The constant, for the values of a `Record`.

        Raises:
            OverflowError: It does not fit into its dtype.
        """
        value = values[self.size.place]
        for dtype in self.dtypes:
            if dtype.kind != "f" and (isinstance(value, float) or int(value) not in _range(dtype)):
                raise OverflowError(f"{value} as {dtype}")
            value = np.asarray(value, dtype)[()]
        return np.asarray(value)


@functools.cache
def _range(dtype: np.dtype) -> range:
    """The numbers of an integer dtype."""
    if dtype.kind == "b":
        return range(0)
    limits = np.iinfo(dtype)
    return range(limits.min, limits.max + 1)
