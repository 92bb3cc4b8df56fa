"""Conditions on arguments and on the values that a program looks up, checked at each call.

The `Guard` covers values that rarely change and announce their changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.compile.guarding.contents import spec_of, tensors_in
from flambeau.compile.guarding.freezing import freeze
from flambeau.compile.guarding.numbers import NumberOf, Values
from flambeau.compile.guarding.sharing import Sharing
from flambeau.compile.guarding.where import Where
from flambeau.core.values.cell import Cell
from flambeau.core.values.tensor import Tensor


class Checks:
    """Conditions on the arguments of a call, and on the values that a program looks up.

    Args:
        recording: The finished trace.
        slot_of: The places of tensors that are looked up at each call, by their Cells.
        looked_up: The places of the tensors that the program reads.

    Attributes:
        specs: The properties that values must have, as `spec_of` gives them.
        objects: The objects that must be at their places.
        shared: Pairs of places that must hold the same tensor.
        facts: The questions about arguments, with their answers.
        numbers: The numbers of the program, if they are not just some of the arguments.
    """

    def __init__(
        self,
        recording: Any,
        slot_of: dict[Cell, Where],
        looked_up: Sequence[Where],
    ) -> None:
        self.sharing: Sharing = Sharing(recording, slot_of)
        self.facts = recording.trace.facts.all()
        self.specs = [
            (where, spec_of(where.get())) for where in looked_up if not isinstance(where, NumberOf)
        ]
        self.specs += [(where, spec_of(before)) for where, before in recording.slot_before]
        self.objects: list[tuple[Where, Any]] = []
        self.shared: list[tuple[Where, Where]] = []
        self._bind(recording, slot_of)
        numbers = recording.trace.numbers.values
        self.numbers: Values | None = numbers if numbers.are_checked else None
        #: Whether the program looks up values at each call.
        self.look_up: bool = bool(self.specs) or self.numbers is not None

    def _bind(self, recording: Any, slot_of: dict[Cell, Where]) -> None:
        """Decide which tensors must be the ones that the trace has found."""
        used = recording.trace.reads.keys() | recording.looked_up
        first: dict[Any, Tensor] = {}
        for holder, before in recording.slot_before:
            for where, tensor in tensors_in(before, holder):
                owner = None if tensor._view is not None else slot_of.get(tensor._cell)
                if owner == where or tensor._cell not in used:
                    first.setdefault(owner, tensor)
                elif owner is not None and first.get(owner) is tensor:
                    self.shared.append((where, owner))
                else:
                    self.objects.append((where, tensor))

    def hold(self, leaves: list[Any]) -> bool:
        """Whether the conditions hold for a call with arguments of the same signature."""
        if self.look_up and not self._places_hold(leaves):
            return False
        if not self.sharing.holds(leaves):
            return False
        return all(freeze(where.get(leaves)) == answer for where, answer in self.facts)

    def _places_hold(self, leaves: list[Any]) -> bool:
        return (
            (self.numbers is None or self.numbers.of(leaves) is not None)
            and all(spec_of(where.get()) == spec for where, spec in self.specs)
            and all(where.get() is value for where, value in self.objects)
            and all(where.get() is owner.get() for where, owner in self.shared)
        )
