"""Tensors that share elements: arguments with each other, or with tensors that a program captures.

Arguments may share elements in any way that no write of the program reaches. A program does not
write to elements that it also reads elsewhere: such a call runs eagerly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flambeau.compile.errors import CompileError
from flambeau.compile.guarding.arguments import is_input, places_of, stand_in
from flambeau.compile.guarding.contents import tensors_in
from flambeau.compile.guarding.numbers import Numbers, TracedNumbers
from flambeau.compile.guarding.where import Argument, Gradient, Itself, Where
from flambeau.core.values.cell import Cell
from flambeau.core.values.tensor import Tensor


def operands_of(leaves: list[Any], numbers: Numbers) -> list[Argument]:
    """The inputs of the program that come from the leaves of the arguments."""
    firsts = places_of(leaves)
    return [
        Argument(i)
        for i, leaf in enumerate(leaves)
        if i in numbers.positions or (is_input(leaf) and firsts[id(leaf)] == i)
    ]


def stand_ins(
    leaves: list[Any], operands: list[Argument], tracers: Sequence[Any], numbers: TracedNumbers
) -> list[Any]:
    """The leaves that a traced function gets: tensors and numbers on ``tracers``."""
    pairs = [*zip(operands, tracers, strict=True)]
    given = {
        id(each.get(leaves)): tracer
        for each, tracer in pairs
        if each.position not in numbers.place_of_argument
    }
    by_id = {
        id(leaf): stand_in(leaf, Cell(given[id(leaf)])) for leaf in leaves if id(leaf) in given
    }
    for leaf in leaves:
        if id(leaf) in by_id:
            # Gradients are among the leaves.
            by_id[id(leaf)]._grad = by_id.get(id(leaf._grad), leaf._grad)
    found: list[Any] = [by_id.get(id(leaf), leaf) for leaf in leaves]
    for i, tracer in ((each.position, tracer) for each, tracer in pairs):
        if i in numbers.place_of_argument:
            place = numbers.place_of_argument[i]
            numbers.arrays[place] = tracer
            found[i] = numbers.number(place)
    return found


def slots_by_cell(recording: Any) -> dict[Cell, Where]:
    """The slots through which the trace reached Cells; the next call may find others there."""
    trace = recording.trace
    slots: dict[Cell, Where] = {}
    in_slots = [each for pair in recording.slot_before for each in tensors_in(pair[1], pair[0])]
    elsewhere = trace.tensors_elsewhere()
    for slot, tensor in in_slots:
        if tensor._view is None and id(tensor) not in elsewhere:
            slots.setdefault(tensor._cell, slot)
    grads = trace.grads_read.items()
    gradients = [(Gradient(Itself(tensor)), grad) for tensor, grad in grads if grad is not None]
    for slot, grad in gradients:
        if grad._view is None and id(grad) not in elsewhere:
            slots[grad._cell] = slot
    # A Cell that a tensor outside of the slots shares, such as a parameter, stays bound.
    owners = {id(tensor) for _, tensor in (*in_slots, *gradients)}
    for tensor, before in trace.tensors.items():
        if id(tensor) not in owners:
            slots.pop(before.cell, None)
    return slots | trace.numbers.slots()


class Sharing:
    """The elements that a program writes, which no other of its tensors may share.

    Args:
        recording: The finished trace.
        slot_of: The places of tensors that are looked up at each call, by their Cells.

    Raises:
        CompileError: Tensors share elements that the program writes.
    """

    def __init__(self, recording: Any, slot_of: Mapping[Cell, Where]) -> None:
        trace, own, leaves = recording.trace, recording.own, recording.leaves
        #: The Cells that are written and are the same at each call.
        self.written_cells: set[Cell] = {cell for cell in trace.values if cell not in slot_of}
        fixed = {cell for cell in {**trace.reads, **trace.values} if cell not in slot_of}
        moved = recording.moved_arguments()
        written = {i for each, i in own.items() if recording.is_written(each) or i in moved}
        #: The tensors that are written and that a call looks up; the other tensors that it does;
        #: and the Cells that are the same at each call.
        self.written: list[Where] = [Argument(i) for i in written]
        self.others: list[Where] = [Argument(i) for i in own.values() if i not in written]
        for where in _tensors_elsewhere(recording):
            is_written = where.get(leaves)._cell in trace.values
            (self.written if is_written else self.others).append(where)
        self.fixed: set[Cell] = fixed if self.written else self.written_cells
        self.matter: bool = bool(self.written or self.written_cells)
        bases = (leaves[i]._view for i in moved if leaves[i]._is_view())
        if not self.holds(leaves) or any(view.base is not None for view in bases):
            raise CompileError(
                "the compiled function writes to elements that two of its tensors share, such as "
                "two arguments on the same elements, or an argument that is a view of a tensor "
                "with a history; pass one tensor, and make its views inside"
            )

    def holds(self, leaves: list[Any]) -> bool:
        """Whether no two tensors share elements that the program writes."""
        if not self.matter:
            return True
        written = [_cell_of(each, leaves) for each in self.written]
        others = {_cell_of(each, leaves) for each in self.others}
        return (
            len({*written}) == len(written)
            and others.isdisjoint(written)
            and self.written_cells.isdisjoint(others)
            and self.fixed.isdisjoint(written)
        )


def _cell_of(where: Where, leaves: list[Any]) -> Any:
    # If a value is not a tensor any more, the guard does not hold.
    value = where.get(leaves)
    return value._cell if isinstance(value, Tensor) else None


def _tensors_elsewhere(recording: Any) -> list[Where]:
    """The places where the program looks tensors up, besides its arguments."""
    trace = recording.trace
    places: dict[Where, None] = {}
    for tensor, grad in trace.grads_read.items():
        if grad is not None and trace.is_outside(tensor) and tensor not in recording.own:
            places[Gradient(Itself(tensor))] = None
    for holder, before in recording.slot_before:
        for slot, _ in tensors_in(before, holder):
            places[slot] = None
    return [*places]
