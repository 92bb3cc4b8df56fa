"""Numbers that may become inputs of a program: among the arguments, and at places outside.

A number among the arguments may be an input from the start. A global, a variable of an outer
function, or an attribute may be one after it has changed, between calls or in the function itself.
"""

from __future__ import annotations

import contextlib
import operator
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import CellType
from typing import Any, NamedTuple

import jax.numpy as jnp

from flambeau.compile.errors import NumbersMatterError
from flambeau.compile.guarding.places import Announced, Outside, name_of
from flambeau.compile.guarding.where import Argument, Call, Where
from flambeau.compile.ownership import is_of_library_module, state_of
from flambeau.compile.source import Page
from flambeau.core.interpreter.record import Record
from flambeau.core.operators.number import KINDS, Number, number_of, plain
from flambeau.core.support.modes import modes
from flambeau.core.values.cell import Cell
from flambeau.core.values.trace import outside

_SYMBOLS = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/",
    operator.floordiv: "//", operator.mod: "%", operator.pow: "**", operator.lt: "<",
    operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.eq: "==", operator.ne: "!=",
}  # fmt: skip

# After so many steps of arithmetic the values are read.
_LONGEST = 100_000

# More numbers than this are compared by their values: each would be an input of the program.
_MOST_NUMBERS = 32


class Numbers(NamedTuple):
    """The numbers on whose values a program may not depend.

    Attributes:
        positions: Positions among the leaves of the arguments.
        read: Those of them that the trace has read.
        places: Places outside.
        read_outside: Those of them that the trace has read.
        counted: Those of them that the function was just seen to change.
    """

    positions: frozenset[int]
    read: set[int]
    places: frozenset[Outside]
    read_outside: set[Outside]
    counted: frozenset[Outside] = frozenset()

    @staticmethod
    def among(leaves: list[Any], fixed: Container[int]) -> Numbers:
        """Those among ``leaves``, except at the positions that are known to matter."""
        found = [i for i, leaf in enumerate(leaves) if i not in fixed and may_be_input(leaf)]
        positions = frozenset(found if len(found) <= _MOST_NUMBERS else ())
        return Numbers(positions, set(), frozenset(), set())

    @staticmethod
    def none() -> Numbers:
        """No numbers: all are compared."""
        return Numbers(frozenset(), set(), frozenset(), set())

    def give_up(self) -> Numbers:
        """No numbers any more, as if all of these had been read."""
        self.read.update(self.positions)
        self.read_outside.update(self.places)
        return Numbers.none()


def may_be_input(value: Any) -> bool:
    """Whether ``value`` is a number that a program can take as an input."""
    kind = type(value)
    return kind is float or (kind is int and -(1 << 63) <= value < 1 << 63)


def have_changed(place: Outside, before: Any, now: Any) -> bool:
    """Whether the number at a place of the user's has become another number of its class."""
    if not (may_be_input(before) and type(now) is type(before) and may_be_input(now)):
        return False
    return now != before and _is_users(place)


def _is_users(place: Outside) -> bool:
    """Whether a place is a global, a variable, an attribute of the user's or an optimizer's."""
    if type(place) not in (Outside, Announced):
        return False
    root = place.root
    if place.key is None:
        name, state = place.attributes[-1], state_of(root)
        # Not what a property or another descriptor of the class gives.
        is_plain = type(state) is dict and state.get(name) is place.get()
        return is_plain and len(place.attributes) == 1
    if place.attributes or type(root) is CellType:
        return not place.attributes
    return isinstance(root, dict) and not is_of_library_module(str(root.get("__name__", "")))


class Values:
    """The numbers of a call: those that its program takes from outside, and what follows from them.

    Args:
        sources: The places of the numbers from outside.
        record: The arithmetic of the trace, and its comparisons.
    """

    def __init__(self, sources: Sequence[Where], record: Record) -> None:
        self.sources, self.record = sources, record
        self._types: list[type] = []
        self._used: list[bool] = []
        self._inputs: list[int] = []
        self._last: tuple[list[Any], list[Any] | None] | None = None

    def settle(self, used: set[int], inputs: Sequence[int], kept: Iterable[int]) -> None:
        """End the trace.

        Args:
            used: The sources on which anything depends.
            inputs: The places of the values that are inputs of the program.
            kept: The places of those that the function stores or returns.
        """
        self.record.is_open = False
        self._types = [*map(type, self.record.values)]
        self._used = [i in used for i in range(self.record.count)]
        self._inputs = [*inputs]
        #: Whether the program is for some calls with such arguments only, or computes numbers.
        self.are_checked: bool = bool(self._inputs or [*kept] or self.record.guards)

    def of(self, call: Call) -> list[Any] | None:
        """All values of a call; ``None`` if the program is not for it."""
        numbers = [
            each.read(call) if is_used else example
            for each, is_used, example in zip(
                self.sources, self._used, self.record.values, strict=False
            )
        ]
        last = self._last
        # Asked several times in a call.
        if last is not None and all(map(operator.is_, numbers, last[0])):
            return last[1]
        found = self._found(numbers)
        self._last = numbers, found
        return found

    def _found(self, numbers: list[Any]) -> list[Any] | None:
        types = self._types
        if [*map(type, numbers)] != types[: len(numbers)]:
            return None
        values = self.record.evaluated(numbers)
        if values is None or [*map(type, values)] != types:
            return None
        return values if all(may_be_input(values[i]) for i in self._inputs) else None

    def terms(self, call: Call | None) -> Iterator[tuple[str, Any, Any, bool]]:
        """The assumptions of the program: a text, the value in the trace and now, and whether it
        is a class.

        Args:
            call: The call that decides what is now; ``None`` for that of the trace.
        """
        used = [
            (i, each) for i, each in enumerate(self.sources) if self._used[i] and call is not None
        ]
        numbers = self.record.values[: self.record.count]
        for i, source in used:
            numbers[i] = source.read(call or ())
            if not isinstance(source, Argument):
                before, now = self._types[i].__name__, type(numbers[i]).__name__
                yield f"the class of {source}", before, now, True
        with contextlib.suppress(ArithmeticError, ValueError, TypeError):
            values = self.record.followed(numbers)
            for (function, left, right), answer in self.record.guards.items():
                now = bool(function(values[left], values[right]))
                yield self._text(function, left, right), answer, now, False

    def _text(self, function: Callable[..., Any], left: int, right: int) -> str:
        symbol = _SYMBOLS.get(function)
        if symbol is None:
            return f"{getattr(function, '__name__', 'a function')}({self.text_at(left)})"
        return f"{self.text_at(left)} {symbol} {self.text_at(right)}"

    def text_at(self, place: int) -> str:
        """The expression for a value, as Python writes it."""
        step = place - self.record.count
        if step < 0:
            return str(self.sources[place])
        function, left, right = self.record.steps[step]
        return repr(left) if function is None else f"({self._text(function, left, right)})"


class TracedNumbers:
    """The arithmetic with the numbers of one trace; see `core.operators.number.Arithmetic`.

    Args:
        numbers: The numbers that may become inputs.
        leaves: The leaves of the arguments.

    Attributes:
        values: What the program computes at each call.
        arrays: The inputs of the program for numbers among the arguments, by their places.
        cells: Cells in the place of other values that operators get.
        replaced: The places outside at which there are stand-ins, with the places of the values.
        stand_ins: Weak references to all stand-ins.
        trace: The trace, once it has begun. Outside of it, as on another thread, numbers are read.
    """

    trace: Any = None

    def __init__(self, numbers: Numbers, leaves: list[Any]) -> None:
        self._numbers = numbers
        positions = sorted(numbers.positions)
        found = {place: place.get() for place in numbers.places}
        places = [place for place, value in found.items() if may_be_input(value)]
        self._places: dict[Any, int] = {
            name_of(place): i for i, place in enumerate(places, len(positions))
        }
        self._arguments = len(positions)
        record = Record([*(leaves[i] for i in positions), *(found[each] for each in places)])
        self.values = Values([*map(Argument, positions), *map(NumberAt, places)], record)
        self.place_of_argument: dict[int, int] = {each: i for i, each in enumerate(positions)}
        self.arrays: dict[int, Any] = {}
        self.cells: dict[int, Cell] = {}
        self.replaced: dict[Outside, int] = {}
        self.stand_ins: list[weakref.ref[Number]] = []
        # The values that the function stores or returns; and for each value the numbers from
        # outside that it follows from.
        self._kept: set[int] = set()
        # The places that calls set whatever was there.
        self._followed: list[Outside] = []
        self._bases: list[frozenset[int]] = [frozenset((i,)) for i in range(record.count)]
        # The places outside at which there are stand-ins, and those of `Numbers.counted`, by name.
        self._replaced_at: dict[Any, Outside] = {}
        self._counted = {*map(name_of, numbers.counted)}

    def has_candidates(self) -> bool:
        """Whether any number may be an input."""
        return bool(self.values.sources)

    def replace(self, place: Outside, number: int) -> None:
        """Note that there is a stand-in at a place outside.

        Args:
            place: The place outside.
            number: The place of the value.
        """
        self.replaced[place] = number
        self._replaced_at[name_of(place)] = place

    def replaced_at(self, place: Any) -> Outside | None:
        """The place, perhaps by another path, if there is a stand-in."""
        return self._replaced_at.get(name_of(place)) if self._replaced_at else None

    def number(self, place: int) -> Number:
        """The stand-in for the value at a place."""
        stand_in = number_of(self.values.record.values[place], self, place)
        self.stand_ins.append(weakref.ref(stand_in))
        return stand_in

    def place_outside(self, place: Outside, value: Any) -> int | None:
        """The place of the value that was found at a place outside, if it may become an input."""
        found = self._places.get(name_of(place)) if self._places else None
        return found if found is not None and self.values.record.values[found] is value else None

    def follows(self, slot: Any, value: Any) -> bool:
        """Whether the old value of a slot is an input, so that calls can set ``value`` there.

        A number that the function was just seen to change must follow from others: one that it has
        set to a constant may stay that, and needs no program more.
        """
        place = self.replaced_at(slot)
        if place is None or self._is_read(place):
            return False
        if name_of(slot) in self._counted and not isinstance(value, Number):
            return False
        self._followed.append(place)
        return True

    def refuse_read(self) -> None:
        """Fail if a value was read on which a change of its place does not depend.

        Raises:
            NumbersMatterError: A backward has read it after the function.
        """
        if any(map(self._is_read, self._followed)):
            raise NumbersMatterError

    def _is_read(self, place: Outside) -> bool:
        source = self.values.sources[self.replaced[place]]
        return isinstance(source, NumberAt) and source.of in self._numbers.read_outside

    def read(self, place: int) -> None:
        """See `Arithmetic.read`."""
        for base in self._bases_of(place):
            source = self.values.sources[base]
            if isinstance(source, Argument):
                self._numbers.read.add(source.position)
            elif isinstance(source, NumberAt):
                self._numbers.read_outside.add(source.of)

    def array(self, place: int) -> Any:
        """See `Arithmetic.array`."""
        value, trace = self.values.record.values[place], self.trace
        if modes.trace is not trace or not may_be_input(value):
            self.read(place)
            return value
        if place in self.arrays:
            return self.arrays[place]
        if place not in self.cells:
            with trace.unwatched(), outside():
                self.cells[place] = Cell(jnp.asarray(value))
        return trace.read(self.cells[place])

    def computed(self, function: Callable[..., Any], left: Any, right: Any) -> Any:
        """See `Arithmetic.computed`."""
        if modes.trace is not self.trace:
            return function(plain(left), plain(right))
        record = self.values.record
        place = record.computed(function, self._place_of(left), self._place_of(right))
        if type(record.values[place]) in KINDS and len(record.steps) < _LONGEST:
            return self.number(place)
        self.read(place)
        return record.values[place]

    def answer(self, function: Callable[..., Any], left: Any, right: Any) -> bool:
        """See `Arithmetic.answer`. Numbers among the arguments are read: their values are keys."""
        if modes.trace is not self.trace:
            return function(plain(left), plain(right))
        places = self._place_of(left), self._place_of(right)
        for place in places:
            for base in self._bases_of(place):
                if base < self._arguments:
                    self.read(base)
        return self.values.record.answer(function, *places)

    def keep(self, number: Number) -> Where:
        """The place of a number that the function stores or returns."""
        self._kept.add(number._place)
        return NumberOf(self.values, number._place)

    def slots(self) -> dict[Cell, Where]:
        """The places of the values that operators have got."""
        return {cell: NumberOf(self.values, place) for place, cell in self.cells.items()}

    def settle(self, constants: Container[int]) -> list[Outside]:
        """End the trace; the places outside on whose values the program does not depend.

        Args:
            constants: The identities of the constants of the jaxpr.
        """
        inputs = [place for place, cell in self.cells.items() if id(cell.array) in constants]
        guards = [place for _, *places in self.values.record.guards for place in places]
        used = {base for place in (*inputs, *guards, *self._kept) for base in self._bases_of(place)}
        self.values.settle(used, inputs, self._kept)
        return [
            place for place, i in self.replaced.items() if i in used and not self._is_read(place)
        ]

    def _place_of(self, operand: Any) -> int:
        if isinstance(operand, Number):
            if operand._arithmetic is self:
                return operand._place
            operand = operand.read()
        return self.values.record.constant(operand)

    def _bases_of(self, place: int) -> frozenset[int]:
        record, bases = self.values.record, self._bases
        for function, left, right in record.steps[len(bases) - record.count :]:
            bases.append(frozenset() if function is None else bases[left] | bases[right])
        return bases[place]


@dataclass(frozen=True, slots=True)
class NumberAt(Where):
    """A number at a place outside."""

    of: Outside

    def read(self, call: Call = ()) -> Any:
        """The number."""
        return self.of.get()

    def __str__(self) -> str:
        return str(self.of)


@dataclass(frozen=True, slots=True)
class NumberOf(Where):
    """One of the `Values` of a call."""

    values: Values
    place: int

    def read(self, call: Call = ()) -> Any:
        """The number, an input of the program."""
        values = self.values.of(call)
        assert values is not None
        return values[self.place]

    def expression(self, page: Page) -> str:
        return f"{page.name(self.read)}(leaves)"

    def __str__(self) -> str:
        return self.values.text_at(self.place)
