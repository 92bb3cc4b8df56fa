"""The plan of a function for all sizes for which it takes the same course.

It is made of a jaxpr with a `Size` in the place of some sizes; see `sizes`. Filled in with other
sizes it gives the plan that the jaxpr for these would give.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from flambeau.core.interpreter.equation import Array, Equation, Unknown
from flambeau.core.interpreter.plan import Placed, Plan, order_of, parts_of
from flambeau.core.interpreter.sizes import Number, Record, Size
from flambeau.core.types import ClosedJaxpr


class Template:
    """A plan with sizes left open.

    Args:
        jaxpr: A closed jaxpr.
        record: What it has asked of its sizes.

    Raises:
        Unknown: Some primitive or dtype has no rule.
    """

    def __init__(self, jaxpr: ClosedJaxpr, record: Record) -> None:
        self._record = record
        self._body = _Body(jaxpr)

    def plan(self, sizes: Sequence[int]) -> Plan | None:
        """The plan for these sizes; ``None`` if the function may take another course for them.

        Or if some rule does not know an equation with them: a power whose exponent was left open
        is one of an array of integers, which is XLA's.
        """
        values = self._record.evaluated(sizes)
        if values is None:
            return None
        try:
            return self._body.plan(values)
        except (OverflowError, Unknown):
            return None


class _Body:
    """The template of a function, or of one in the parameters of its equations."""

    def __init__(self, jaxpr: ClosedJaxpr) -> None:
        equations, self._values, inputs, self._taken, self._given, avals = parts_of(jaxpr, _Body)
        # All types of arrays, and the places of each in `_types`.
        self._types: list[Array] = []
        self._places: dict[Hashable, int] = {}
        self._numbers = [
            (slot, value) for slot, value in enumerate(self._values) if type(value) is Number
        ]
        constant = [slot for slot, value in enumerate(self._values) if value is not None]
        self._order = order_of(equations, {*self._given, *self._taken, *constant})
        self._inputs = self._places_of(inputs)
        self._avals = [(self._place_of(each), weak) for each, weak in avals]
        self._equations = [
            (
                placed.equation.name, placed.equation.params,
                [key for key, value in placed.equation.params.items() if _is_open(value)],
                self._places_of(placed.equation.inputs), self._places_of(placed.equation.outputs),
                placed.inputs, placed.outputs,
            )
            for placed in equations
        ]  # fmt: skip

    def _places_of(self, arrays: Sequence[Array]) -> list[int]:
        return [self._place_of(each) for each in arrays]

    def _place_of(self, array: Array) -> int:
        # Sizes are compared by their places, which asks nothing of their values.
        shape = tuple([(each.place,) if type(each) is Size else each for each in array.shape])
        place = self._places.setdefault((shape, array.dtype), len(self._types))
        if place == len(self._types):
            self._types.append(array)
        return place

    def plan(self, values: list[Any]) -> Plan:
        """The plan for the values of a `Record`."""
        types = [
            Array(tuple([values[n.place] if type(n) is Size else n for n in shape]), dtype)
            for shape, dtype in self._types
        ]
        equations = []
        for name, params, keys, inputs, outputs, taken, given in self._equations:
            if keys:
                params = params | {key: _filled(params[key], values) for key in keys}
            kinds = [types[i] for i in inputs], [types[i] for i in outputs]
            equations.append(Placed(Equation(name, params, *kinds), taken, given))
        constants = self._values.copy()
        for slot, number in self._numbers:
            constants[slot] = number.array(values)
        return Plan(
            equations, constants, [types[i] for i in self._inputs], self._taken, self._given,
            [(types[i], weak) for i, weak in self._avals], self._order,
        )  # fmt: skip


def _is_open(value: object) -> bool:
    """Whether there is a size in a parameter, or may be."""
    if isinstance(value, tuple | list):
        return any(map(_is_open, value))
    return type(value) in (Size, _Body)


def _filled(value: Any, values: list[float]) -> Any:
    """A parameter for the values of a `Record`."""
    kind = type(value)
    if kind is Size:
        return values[value.place]
    if kind is _Body:
        return value.plan(values)
    if not isinstance(value, tuple | list):
        return value
    members = [_filled(each, values) for each in value]
    return members if kind is list else tuple(members) if kind is tuple else kind(*members)


def are_equal(left: Plan, right: Plan) -> bool:
    """Whether two plans compute the same by the same steps, whatever slots they use."""
    equations, values, inputs, taken, given, avals = left.parts
    others, other_values, other_inputs, other_taken, other_given, other_avals = right.parts
    if (inputs, avals, len(equations)) != (other_inputs, other_avals, len(others)):
        return False
    same = dict(zip(taken, other_taken, strict=True))

    def match(slots: Sequence[int], other_slots: Sequence[int]) -> bool:
        return len(slots) == len(other_slots) and all(map(is_same, slots, other_slots))

    def is_same(slot: int, other: int) -> bool:
        value, constant = values[slot], other_values[other]
        if value is None or constant is None:
            return value is constant and same.get(slot) == other
        return (
            value.dtype == constant.dtype
            and value.shape == constant.shape
            and value.tobytes() == constant.tobytes()
        )

    for one, two in zip(equations, others, strict=True):
        if not match(one.inputs, two.inputs) or not _are_alike(one.equation, two.equation):
            return False
        same.update(zip(one.outputs, two.outputs, strict=True))
    return match(given, other_given)


def _are_alike(left: Equation, right: Equation) -> bool:
    if (left.name, left.inputs, left.outputs) != (right.name, right.inputs, right.outputs):
        return False
    return left.params.keys() == right.params.keys() and all(
        _is_equal(value, right.params[key]) for key, value in left.params.items()
    )


def _is_equal(left: Plan, right: Plan) -> bool:
    if isinstance(left, Plan):
        return isinstance(right, Plan) and are_equal(left, right)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(_is_equal, left, right))
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return np.array_equal(left, right)
    if _is_integer(left) and _is_integer(right):
        return left == right
    # A fill value may be NaN.
    return type(left) is type(right) and (left == right or repr(left) == repr(right))


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
