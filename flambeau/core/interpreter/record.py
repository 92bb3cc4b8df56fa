"""Records of arithmetic: the values that a run of Python code computes, for other numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

from flambeau.core.types import Args

# A function and the places of two values, or None, a constant and 0.
_Step: TypeAlias = tuple[Callable[..., float] | None, Any, int]


class Record:
    """A record of arithmetic with some numbers, and of the answers to comparisons.

    Args:
        example: The values by which comparisons are answered.

    Attributes:
        steps: How each value after the first ones is computed: a function and the places of two
            values, or ``None`` and a constant.
        guards: The answers to comparisons, by a function and the places of two values.
        is_open: Whether the run goes on; afterwards nothing is recorded.
        values: The example's values, by their places.
    """

    def __init__(self, example: Sequence[float]) -> None:
        self.count: int = len(example)
        self.steps: list[_Step] = []
        self.guards: dict[tuple[Callable[..., float], int, int], bool] = {}
        self.is_open: bool = True
        self.values: list[float] = list(example)
        self._known: dict[Hashable, int] = {}

    def constant(self, number: float) -> int:
        """The place of a constant."""
        # Zeros of two signs are equal.
        return self._added((type(number), repr(number)), (None, number, 0), number)

    def computed(self, function: Callable[..., float], left: int, right: int) -> int:
        """The place of the result of a function of two values."""
        key = (function, left, right)
        value = function(self.values[left], self.values[right])
        return self._added(key, key, value)

    def answer(self, function: Callable[..., float], left: int, right: int) -> bool:
        """The example's answer to a comparison, which becomes a guard."""
        found = bool(function(self.values[left], self.values[right]))
        if self.is_open:
            self.guards[function, left, right] = found
        return found

    def _added(self, key: Hashable, step: _Step, value: float) -> int:
        place = self._known.get(key)
        if place is None:
            place = self._known[key] = len(self.values)
            self.values.append(value)
            self.steps.append(step)
        return place

    def evaluated(self, numbers: Sequence[float]) -> list[float] | None:
        """All values for other numbers; ``None`` if a comparison has another answer for them."""
        try:
            values = self.followed(numbers)
            for (function, left, right), answer in self.guards.items():
                if bool(function(values[left], values[right])) is not answer:
                    return None
        except (ArithmeticError, ValueError):
            return None
        return values

    def followed(self, numbers: Sequence[float]) -> list[float]:
        """All values for other numbers, whatever the answers to comparisons are.

        Raises:
            ArithmeticError: Some step cannot be computed; or a ValueError.
        """
        values = list(numbers)
        for function, left, right in self.steps:
            values.append(left if function is None else function(values[left], values[right]))
        return values

    def __getstate__(self) -> Args:
        return self.count, self.steps, self.guards, self.values

    def __setstate__(self, state: Args) -> None:
        self.count, self.steps, self.guards, self.values = state
        self.is_open, self._known = False, {}
