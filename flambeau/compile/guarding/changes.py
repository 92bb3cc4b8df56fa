"""Changes that make programs: their texts, and a warning of those that come again and again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from flambeau.compile.errors import warn

# Warn of a value, and of a shape, when it has made programs for this many values: the last batch of
# an epoch and a validation set have shapes of their own.
MANY_VALUES, MANY_SHAPES = 3, 5
_ADVICE = (
    "each value is a program; keep what varies in a tensor, or let the function not read it in "
    "Python"
)


class Change(NamedTuple):
    """A change that no program fitted.

    Attributes:
        name: The name of the value that has changed.
        before: Its text before; "" if it has none.
        now: Its text now.
        line: The change as one line.
        is_shape: Whether it is a shape, or the structure of the arguments.
    """

    name: str
    before: str
    now: str
    line: str
    is_shape: bool = False

    @staticmethod
    def of(name: str, before: str, now: str, is_shape: bool = False) -> Change:
        """The change of a value that has a text."""
        return Change(name, before, now, f"{name} was {before}, and is {now}", is_shape)

    @staticmethod
    def told(name: str, line: str) -> Change:
        """The change of a value that has no text."""
        return Change(name, "", "", line)


class Changes:
    """The changes that have made the programs of one function."""

    def __init__(self) -> None:
        # The texts of the first values, by the name of the value.
        self._values: dict[str, list[str]] = {}

    def add(self, changes: Iterable[Change], function: str, count: int) -> None:
        """Note the changes that have made a program; warn of those that make one too often.

        Args:
            changes: The changes.
            function: The name of the function.
            count: How many programs it has had.
        """
        for change in {each.name: each for each in changes if each.now}.values():
            values = self._values.setdefault(change.name, [change.before])
            if len(values) > MANY_SHAPES:
                continue
            values.append(change.now)
            if len(values) == (MANY_SHAPES if change.is_shape else MANY_VALUES):
                advice = "pad to a few shapes" if change.is_shape else _ADVICE
                warn(
                    f"{function} has been compiled {count} times, since {change.name} changes "
                    f"({', '.join(values[-3:])}): {advice}. flambeau.compiler.explain() prints all "
                    "reasons"
                )
