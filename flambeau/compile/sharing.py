"""Arguments that share elements, with each other or with tensors that a program captures.

If a program does not write to shared elements, each argument is an input of its own. If it does,
the function is traced again with handles on one Cell for arguments that share one. So a write shows
through all of them, and their histories follow their base.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jax.core import Tracer

from flambeau.compile.arguments import is_input, places_of, stand_in
from flambeau.compile.contents import tensors_in
from flambeau.compile.where import Argument, Gradient, Itself, Starts, Where, Whole
from flambeau.core.cell import Cell
from flambeau.core.identity import Same
from flambeau.core.tensor import Tensor
from flambeau.core.view import View

#: The Cell of a joined argument: a Cell that the program captures, or the place of another argument
#: or tensor that has the Cell.
Owner = Where | Cell


class Joined:
    """The arguments that a trace sees as handles on shared Cells.

    Args:
        leaves: The leaves of the arguments of the traced call.
        owners: The owners of their Cells, by the positions of the arguments.
        captured: Tensors that the function also reads outside itself.

    Attributes:
        leaves: The leaves, followed by the bases of views among them. A finished program drops
            them.
        itself: The positions of arguments without stand-ins, since the function also reads them
            outside.
        operands: The inputs of the program that come from the arguments.
    """

    def __init__(
        self,
        leaves: list[Any],
        owners: Mapping[int, Owner] | None = None,
        captured: Iterable[Tensor] = (),
    ) -> None:
        self.owners: dict[int, Owner] = dict(owners or {})
        cells = {owner for owner in self.owners.values() if isinstance(owner, Cell)}
        self.captured: list[Tensor] = [each for each in captured if each._cell in cells]
        self.leaves, self.kinds = self.look(leaves)
        self.itself: set[int] = {kind.leaf for kind in self.kinds if kind.identity is not None}
        for kind in self.kinds:
            # The base of a view shares the Cell of the view.
            if isinstance(kind.base, int):
                self.owners.setdefault(kind.base, self.owners[kind.leaf])
        self.operands = self._operands()

    def _operands(self) -> list[Where]:
        operands: dict[Where, None] = {}
        firsts = places_of(self.leaves)
        for i, leaf in enumerate(self.leaves):
            if not is_input(leaf):
                continue
            if firsts[id(leaf)] not in self.owners:
                operands[Argument(i)] = None
            elif isinstance(owner := self.owners[firsts[id(leaf)]], Argument):
                operands[Whole(owner)] = None
        for i in self.owners:
            view = self.leaves[i]._view
            if i not in self.itself and view is not None and view.starts is not None:
                operands[Starts(Argument(i))] = None
        return [*operands]

    def look(self, leaves: Sequence[Any]) -> tuple[list[Any], list[Kind]]:
        """The leaves with the bases of joined views, and the kinds of joined arguments."""
        leaves, kinds = [*leaves], []
        firsts = places_of(leaves)
        waiting = [*self.owners]
        for i in waiting:
            # Another call may have fewer leaves.
            if i >= len(leaves):
                continue
            kind = self._kind(i, self.owners, leaves, firsts)
            kinds.append(kind)
            if isinstance(kind.base, int) and kind.base not in waiting:
                waiting.append(kind.base)
        return leaves, kinds

    def _kind(
        self, i: int, owners: Mapping[int, Owner], leaves: list[Any], firsts: dict[int, int]
    ) -> Kind:
        leaf, owner = leaves[i], owners.get(i, Argument(i))
        view, array, base = leaf._view, leaf._cell.array, None
        look: tuple[Any, ...] = (array.shape, array.dtype, leaf.requires_grad, leaf.is_leaf)
        if view is not None:
            look += (view.steps, view.names, view.starts is None, view.origin, view.ban)
            base = view.base
        if base is not None and (known := self._identity(base, owner)) is not None:
            base = known
        elif base is not None:
            base = firsts.setdefault(id(base), len(leaves))
            if base == len(leaves):
                leaves.append(leaf._view.base)
        return Kind(i, self._identity(leaf, owner), look, base)

    def _identity(self, tensor: Tensor, owner: Owner) -> Any:
        """The identity of a tensor, if the function may also read it outside itself."""
        if not isinstance(owner, Argument | Cell):
            return "in the slot" if owner.get() is tensor else None
        is_known = not is_input(tensor) or any(tensor is each for each in self.captured)
        return Same(tensor) if is_known else None

    def holds(self, leaves: list[Any]) -> bool:
        """Whether the arguments of a call share Cells as those of the traced call do."""
        return self.look(leaves)[1] == self.kinds


class Kind(NamedTuple):
    """The properties of a joined argument.

    Attributes:
        leaf: The position of the argument.
        identity: The argument itself, if the function also reads it outside.
        look: Shapes, dtypes and the steps of its view.
        base: The base of its view: the position of another tensor, the identity of a tensor that is
            the same at each call, or ``None``.
    """

    leaf: int
    identity: Any
    look: Any
    base: Any = None


def stand_ins(joined: Joined, tracers: Iterable[Any], trace: Any) -> list[Any]:
    """The tensors that a traced function gets in place of its arguments.

    Args:
        joined: The arguments.
        tracers: The tracers of the operands.
        trace: The trace.
    """
    return _StandIns(joined, dict(zip(joined.operands, tracers, strict=True)), trace).all


class _StandIns:
    def __init__(self, joined: Joined, given: dict[Where, Any], trace: Any) -> None:
        self.joined, self.given, self.trace = joined, given, trace
        self.kinds = {kind.leaf: kind for kind in joined.kinds}
        self.cells: dict[Argument, Cell] = {}
        self.by_position: dict[int, Any] = {}
        leaves = joined.leaves
        firsts = places_of(leaves)
        self.all = [self.at(firsts[id(leaf)]) for leaf in leaves]
        for new, leaf in zip(self.all, leaves, strict=True):
            if new is not leaf and leaf._grad is not None:
                # The gradient of a view's base is not among the leaves.
                position = firsts.get(id(leaf._grad))
                new._grad = None if position is None else self.all[position]

    def at(self, i: int) -> Any:
        """The stand-in of the leaf at ``i``."""
        if i not in self.by_position:
            self.by_position[i] = self._create(i)
        return self.by_position[i]

    def _create(self, i: int) -> Any:
        leaf, owner = self.joined.leaves[i], self.joined.owners.get(i)
        if not is_input(leaf):
            return leaf
        if owner is None:
            return stand_in(leaf, Cell(self.given[Argument(i)]))
        if i in self.joined.itself:
            self.trace.note(leaf)
            return leaf
        new = stand_in(leaf, self._cell(owner))
        if not isinstance(owner, Argument):
            self.trace.derived[new] = None
        view = leaf._view
        if view is not None:
            base, starts = view.base, self.given.get(Starts(Argument(i)))
            position = self.kinds[i].base
            if isinstance(position, int):
                base = self.at(position)
            elif base is not None:
                self.trace.note(base)
            new._view = View(
                view.steps, view.names, starts, view.shape, view.numpy_dtype, base, view.origin,
                view.ban,
            )  # fmt: skip
        return new

    def _cell(self, owner: Owner) -> Cell:
        if isinstance(owner, Cell):
            return owner
        if not isinstance(owner, Argument):
            return owner.get()._cell
        if owner not in self.cells:
            self.cells[owner] = Cell(self.given[Whole(owner)])
        return self.cells[owner]


def owners_after(recording: Any, slot_of: Mapping[Cell, Where], count: int) -> dict[int, Owner]:
    """The owners of Cells that the trace has written to and that arguments share.

    Args:
        recording: The finished trace.
        slot_of: The places of tensors that are looked up at each call, by their Cells.
        count: The number of leaves without those that the trace has added.
    """
    trace, leaves = recording.trace, recording.joined.leaves
    owners = {i: owner for i, owner in recording.joined.owners.items() if i < count}
    groups: dict[Cell, list[int]] = {}
    moved = recording.moved_arguments()
    written = moved | {
        i for each, i in recording.own.items() if _is_written(recording.given[each].cell)
    }
    for i in recording.own.values():
        if i < count:
            groups.setdefault(leaves[i]._cell, []).append(i)
    for cell, members in groups.items():
        owner: Any = None
        if cell in trace.values or not written.isdisjoint(members):
            bases = [leaves[i]._view.base for i in members if leaves[i]._is_view()]
            if cell in trace.reads or cell in trace.values:
                owner = slot_of.get(cell, cell)
            elif len(members) > 1 or (bases and not moved.isdisjoint(members)):
                owner = Argument(members[0]) if all(map(is_input, bases)) else cell
        if owner is not None:
            owners.update(dict.fromkeys(members, owner))
    return owners


def _is_written(cell: Cell) -> bool:
    return isinstance(cell.array, Tracer) and bool(cell.version)


class Sharing:
    """The sharing of Cells among the tensors that a program looks up.

    Arguments may share Cells in any way if the program does not write to the Cells.

    Args:
        recording: The finished trace.
        slot_of: The places of tensors that are looked up at each call, by their Cells.
        count: The number of leaves without those that the trace has added.
    """

    def __init__(self, recording: Any, slot_of: Mapping[Cell, Where], count: int) -> None:
        trace, own, leaves = recording.trace, recording.own, recording.joined.leaves
        #: The Cells that are written and are the same at each call.
        self.written_cells: set[Cell] = {cell for cell in trace.values if cell not in slot_of}
        arguments = [Argument(i) for i in own.values() if i < count]
        self.tensors: list[Where] = [*arguments, *_tensors_elsewhere(recording)]
        fixed = [cell for cell in {**trace.reads, **trace.values} if cell not in slot_of]
        self.numbers = {cell: -1 - i for i, cell in enumerate(fixed)}
        self.fixed: set[int] = {self.numbers[cell] for cell in self.written_cells}
        cells = self._cells(leaves)
        written = {each for each in trace.values if each in slot_of}
        given = recording.given
        written |= {leaves[i]._cell for e, i in own.items() if _is_written(given[e].cell)}
        elsewhere = cells[len(arguments) :]
        # Tensors that a write reaches, and tensors that the program reads from another place.
        self.decisive: list[int] = [i for i, cell in enumerate(cells) if cell in written]
        self.decisive += [
            i
            for i, cell in enumerate(elsewhere, len(arguments))
            if cell in self.numbers or elsewhere.count(cell) > 1
        ]
        self.matter: bool = bool(cells) and bool(self.decisive or self.fixed)
        self.partition = self._look(leaves)

    def holds(self, leaves: list[Any]) -> bool:
        """Whether the same tensors share Cells as in the trace."""
        return not self.matter or self._look(leaves) == self.partition

    def _cells(self, leaves: list[Any]) -> list[Any]:
        # If a value is not a tensor any more, the guard does not hold.
        return [getattr(each.get(leaves), "_cell", None) for each in self.tensors]

    def _look(self, leaves: list[Any]) -> list[int | None]:
        first: dict[Any, int] = {}
        groups = []
        for i, cell in enumerate(self._cells(leaves)):
            number = self.numbers.get(cell)
            groups.append(first.setdefault(cell, i) if number is None else number)
        decisive = {groups[i] for i in self.decisive} | self.fixed
        return [group if group in decisive else None for group in groups]


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
    return [*places, *(Whole(Itself(each)) for each in trace.loose)]
