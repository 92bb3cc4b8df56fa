"""Numbers that may become inputs of a program: among the arguments, and at places outside.

A number among the arguments may be an input from the start. A global, a variable of an outer
function, or an attribute may be one after it has changed between calls.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from types import CellType
from typing import Any, NamedTuple

from flambeau.compile.guarding.places import Announced, Outside
from flambeau.compile.guarding.where import Call, Where
from flambeau.compile.ownership import is_of_library_module, state_of

# More numbers than this are compared by their values: each would be an input of the program.
_MOST_NUMBERS = 32


class Numbers(NamedTuple):
    """The numbers on whose values a program may not depend.

    Attributes:
        positions: Positions among the leaves of the arguments.
        read: Those of them that the trace has read.
        places: Places outside.
        read_outside: Those of them that the trace has read.
    """

    positions: frozenset[int]
    read: set[int]
    places: frozenset[Outside]
    read_outside: set[Outside]

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


def have_changed(place: Outside, before: Any) -> bool:
    """Whether the number at a place of the user's has become another number of its class."""
    if not (may_be_input(before) and _is_users(place)):
        return False
    now = place.get()
    return type(now) is type(before) and may_be_input(now) and now != before


def _is_users(place: Outside) -> bool:
    """Whether a place is a global, a variable or an attribute of the user's."""
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
    return type(root) is dict and not is_of_library_module(str(root.get("__name__", "")))


@dataclass(frozen=True, slots=True)
class NumberAt(Where):
    """A number at a place outside; a program depends on its class only."""

    of: Outside

    def get(self, call: Call = ()) -> Any:
        """The class of the number now; the value itself if no program can take it."""
        value = self.of.get()
        return type(value) if may_be_input(value) else value

    def read(self, call: Call = ()) -> Any:
        """The number, an input of the program."""
        return self.of.get()

    def __str__(self) -> str:
        return str(self.of)
