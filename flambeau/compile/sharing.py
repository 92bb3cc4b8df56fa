"""Arguments that share elements, with each other or with tensors that a program captures.

As long as a program does not write to shared elements, each argument is an input of its own. If it
does, the function is traced again, and arguments that share a Cell are handles on one Cell in the
trace too: so a write shows through all of them, and their histories follow their base.
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

#: Where the Cell of a joined argument comes from: it is that of another argument, a Cell that the
#: program captures, or that of a tensor found elsewhere.
Owner = Where | Cell


class Joined:
    """The arguments that a trace sees as handles on shared Cells.

    Args:
        leaves: The leaves of the arguments of the call that is traced.
        owners: For each of these arguments, by position, where its Cell comes from.
        captured: Tensors that the function also finds outside itself.

    Attributes:
        leaves: The leaves, followed by tensors that joined arguments are views of. A finished
            program has forgotten them.
        itself: The positions of arguments that are also found outside, and stand for themselves.
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
            # A tensor that an argument is a view of shares the argument's Cell.
            if isinstance(kind.base, int):
                self.owners.setdefault(kind.base, self.owners[kind.leaf])
        self.operands = self._operands()

    def _operands(self) -> list[Where]:
        found: dict[Where, None] = {}
        firsts = places_of(self.leaves)
        for i, leaf in enumerate(self.leaves):
            if not is_input(leaf):
                continue
            if firsts[id(leaf)] not in self.owners:
                found[Argument(i)] = None
            elif isinstance(owner := self.owners[firsts[id(leaf)]], Argument):
                found[Whole(owner)] = None
        for i in self.owners:
            if i not in self.itself and _starts_of(self.leaves[i]) is not None:
                found[Starts(Argument(i))] = None
        return [*found]

    def look(self, leaves: Sequence[Any]) -> tuple[list[Any], list[Kind]]:
        """The leaves with those tensors that joined arguments are views of, and what they are."""
        leaves, kinds = [*leaves], []
        firsts = places_of(leaves)
        waiting = [*self.owners]
        for i in waiting:
            # At another call there may be fewer tensors.
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
        """The identity of a tensor, if the function may also find it outside itself."""
        if not isinstance(owner, Argument | Cell):
            return "in the slot" if owner.get() is tensor else None
        is_known = not is_input(tensor) or any(tensor is each for each in self.captured)
        return Same(tensor) if is_known else None

    def holds(self, leaves: list[Any]) -> bool:
        """Whether the arguments of a call share Cells as those of the traced call do."""
        return self.look(leaves)[1] == self.kinds


class Kind(NamedTuple):
    """How a joined argument looks at its Cell.

    Attributes:
        leaf: The position of the argument.
        identity: The argument itself, if the function also finds it outside.
        look: Shapes, dtypes and the steps of its view.
        base: What its history follows: the position of another tensor, a tensor that is always
            the same, or ``None``.
    """

    leaf: int
    identity: Any
    look: Any
    base: Any = None


def _starts_of(leaf: Tensor) -> Any:
    return None if leaf._view is None else leaf._view.starts


def stand_ins(joined: Joined, tracers: Iterable[Any], trace: Any) -> list[Any]:
    """The tensors that a traced function gets in place of its arguments.

    Args:
        joined: The arguments.
        tracers: Those of the operands.
        trace: The trace.
    """
    return _StandIns(joined, dict(zip(joined.operands, tracers, strict=True)), trace).made


class _StandIns:
    def __init__(self, joined: Joined, given: dict[Where, Any], trace: Any) -> None:
        self.joined, self.given, self.trace = joined, given, trace
        self.kinds = {kind.leaf: kind for kind in joined.kinds}
        self.cells: dict[Argument, Cell] = {}
        self.found: dict[int, Any] = {}
        leaves = joined.leaves
        firsts = places_of(leaves)
        self.made = [self.at(firsts[id(leaf)]) for leaf in leaves]
        for made, leaf in zip(self.made, leaves, strict=True):
            if made is not leaf and leaf._grad is not None:
                # A tensor that was added since an argument is a view of it has none here.
                place = firsts.get(id(leaf._grad))
                made._grad = None if place is None else self.made[place]

    def at(self, i: int) -> Any:
        """The stand-in of the leaf at ``i``."""
        if i not in self.found:
            self.found[i] = self._make(i)
        return self.found[i]

    def _make(self, i: int) -> Any:
        leaf, owner = self.joined.leaves[i], self.joined.owners.get(i)
        if not is_input(leaf):
            return leaf
        if owner is None:
            return stand_in(leaf, Cell(self.given[Argument(i)]))
        if i in self.joined.itself:
            self.trace.note(leaf)
            return leaf
        made = stand_in(leaf, self._cell(owner))
        if not isinstance(owner, Argument):
            self.trace.derived[made] = None
        view = leaf._view
        if view is not None:
            base, starts = view.base, self.given.get(Starts(Argument(i)))
            place = self.kinds[i].base
            if isinstance(place, int):
                base = self.at(place)
            elif base is not None:
                self.trace.note(base)
            made._view = View(
                view.steps, view.names, starts, view.shape, view.numpy_dtype, base, view.origin,
                view.ban,
            )  # fmt: skip
        return made

    def _cell(self, owner: Owner) -> Cell:
        if isinstance(owner, Cell):
            return owner
        if not isinstance(owner, Argument):
            return owner.get()._cell
        if owner not in self.cells:
            self.cells[owner] = Cell(self.given[Whole(owner)])
        return self.cells[owner]


def owners_after(recording: Any, slot_of: Mapping[Cell, Where], count: int) -> dict[int, Owner]:
    """Which arguments share Cells that the trace has written to, and where those come from.

    Args:
        recording: The finished trace.
        slot_of: Where the tensor on a Cell stands, if another may stand there at each call.
        count: How many leaves there are besides those that the trace has added.
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
    """Which of the tensors that a program finds share a Cell.

    Arguments may share Cells as they like, as long as the program does not write to these.

    Args:
        recording: The finished trace.
        slot_of: Where the tensor on a Cell stands, if another may stand there at each call.
        count: How many leaves there are besides those that the trace has added.
    """

    def __init__(self, recording: Any, slot_of: Mapping[Cell, Where], count: int) -> None:
        trace, own, leaves = recording.trace, recording.own, recording.joined.leaves
        #: The Cells that are always the same, and written to.
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
        # Where a write must be seen, and tensors that are read by way of another place.
        self.decisive: list[int] = [i for i, cell in enumerate(cells) if cell in written]
        self.decisive += [
            i
            for i, cell in enumerate(elsewhere, len(arguments))
            if cell in self.numbers or elsewhere.count(cell) > 1
        ]
        self.matter: bool = bool(cells) and bool(self.decisive or self.fixed)
        self.partition = self._look(leaves)

    def holds(self, leaves: list[Any]) -> bool:
        """Whether the same tensors as in the trace share a Cell."""
        return not self.matter or self._look(leaves) == self.partition

    def _cells(self, leaves: list[Any]) -> list[Any]:
        # The guard refuses a value that is no tensor any more.
        return [getattr(each.get(leaves), "_cell", None) for each in self.tensors]

    def _look(self, leaves: list[Any]) -> list[int | None]:
        found: dict[Any, int] = {}
        groups = []
        for i, cell in enumerate(self._cells(leaves)):
            number = self.numbers.get(cell)
            groups.append(found.setdefault(cell, i) if number is None else number)
        decisive = {groups[i] for i in self.decisive} | self.fixed
        return [group if group in decisive else None for group in groups]


def _tensors_elsewhere(recording: Any) -> list[Where]:
    """Where the program looks tensors up, besides its arguments."""
    trace = recording.trace
    found: dict[Where, None] = {}
    for tensor, grad in trace.grads_read.items():
        if grad is not None and trace.is_outside(tensor) and tensor not in recording.own:
            found[Gradient(Itself(tensor))] = None
    for holder, before in recording.slot_before:
        for slot, _ in tensors_in(before, holder):
            found[slot] = None
    return [*found, *(Whole(Itself(each)) for each in trace.loose)]
