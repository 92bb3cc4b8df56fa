"""Conditions on the values that a program looks up, compared at each call.

The `Guard` compares values that change seldom, and whose changes are announced. Arguments, and the
values that are found at a `Where`, may be others at each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.compile.contents import spec_of, tensors_in
from flambeau.compile.freezing import freeze
from flambeau.compile.sharing import Joined, Sharing
from flambeau.compile.where import Where, Whole
from flambeau.core.cell import Cell
from flambeau.core.tensor import Tensor


class Checks:
    """Conditions on the arguments of a call, and on the values that a program looks up.

    Args:
        recording: The finished trace.
        slot_of: Where the tensor on a Cell is found, if another may be there at each call.
        looked_up: Where the program looks up tensors that it reads.
        fixed: The Cells that the program reads and writes at each call.
        count: How many leaves the arguments have besides those that the trace has added.

    Attributes:
        specs: The properties that values must have, as `spec_of` gives them.
        objects: The objects that must be found.
        shared: Two places each that must hold the same tensor or container.
        containers: Where the program looks up containers, each of which must be another one.
        facts: The questions about arguments, with the answers.
        exchanged: The tensors whose Cell the program exchanges.
    """

    def __init__(
        self,
        recording: Any,
        slot_of: dict[Cell, Where],
        looked_up: Sequence[Where],
        fixed: set[Any],
        count: int,
    ) -> None:
        self.joined: Joined = recording.joined
        self.sharing: Sharing = Sharing(recording, slot_of, count)
        self.facts = recording.trace.facts.all()
        self.specs = [(where, spec_of(where.get())) for where in looked_up]
        self.specs += [(where, spec_of(before)) for where, before in recording.slot_before]
        self.objects: list[tuple[Where, Any]] = [*recording.staying]
        self.shared: list[tuple[Where, Where]] = []
        self._bind(recording, slot_of)
        slots = recording.keeping.slots
        self.containers: list[Where] = [first for first, *_ in slots]
        self.shared += [(each, first) for first, *others in slots for each in others]
        self.exchanged: list[Tensor] = [e.of.get() for e in looked_up if isinstance(e, Whole)]
        self._fixed = fixed - slot_of.keys() if self.exchanged else set()
        #: Whether values are looked up that are neither arguments nor always the same.
        self.look_up: bool = bool(self.specs or self.containers)

    def _bind(self, recording: Any, slot_of: dict[Cell, Where]) -> None:
        """Find out which tensors must be those that the trace has found."""
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
        """Whether all is as in the trace, in a call with arguments of the same signature."""
        if self.look_up and not self._are_found():
            return False
        joined = self.joined
        if not self.sharing.holds(leaves) or (joined.owners and not joined.holds(leaves)):
            return False
        if not self.facts:
            return True
        if joined.owners:
            leaves, _ = joined.look(leaves)
        return all(freeze(where.get(leaves)) == answer for where, answer in self.facts)

    def _are_found(self) -> bool:
        cells = {each._cell for each in self.exchanged}
        # Held, so that no two of them have the same id.
        containers = [each.get() for each in self.containers]
        return (
            all(spec_of(where.get()) == spec for where, spec in self.specs)
            and all(where.get() is value for where, value in self.objects)
            and all(where.get() is owner.get() for where, owner in self.shared)
            and len({*map(id, containers)}) == len(containers)
            # Tensors whose Cells the program exchanges share none with others that it knows.
            and len(cells) == len(self.exchanged)
            and cells.isdisjoint(self._fixed)
        )
