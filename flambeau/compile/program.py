"""A compiled program: from one trace to calls that read Cells, run, and write Cells."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import jax
from jax.core import eval_jaxpr

from flambeau.compile import exchanging
from flambeau.compile.callbacks import calls_back
from flambeau.compile.exchanging import find
from flambeau.compile.explaining import Origin
from flambeau.compile.guard import Guard
from flambeau.compile.history import Arrival, CompiledFunctionBackward, History, Source
from flambeau.compile.recomputation import expanded
from flambeau.compile.recording import DETACHED, LEAF, SPENT, Recording
from flambeau.compile.results import Result, shared_outputs
from flambeau.compile.sharing import Joined, Operand, Places, owners_after
from flambeau.compile.slots import CellSlot, GradSlot, Slot, spec_of, tensors_in
from flambeau.compile.split import Split, without_constants
from flambeau.core import finishing, jit_core, tape, world
from flambeau.core.attributes import handle_on
from flambeau.core.cell import Cell
from flambeau.core.donation import owned
from flambeau.core.node import Node
from flambeau.core.programs import compiled
from flambeau.core.tensor import Tensor

_SPENT = tape.SpentNode(())
_array_of = attrgetter("array")


class _Found(NamedTuple):
    """What a call finds before it writes.

    Attributes:
        in_slots: The tensors in slots that are returned.
        containers: The containers that change.
        exchanged: The tensors that are given other Cells, and those whose Cells they take.
        cells: The Cells of outputs that stand in several places, once they are made.
        tensors: The tensors made of these, by the id of their `Result`.
    """

    in_slots: dict[Any, Any]
    containers: list[Any]
    exchanged: list[exchanging.Found]
    cells: dict[int, Cell]
    tensors: dict[int, Tensor]


class Program:
    """A function compiled for one situation.

    Args:
        function: The user's function.
        leaves: The leaves of the arguments of the call that asks for it, and their gradients.
        structure: Their structure.

    Attributes:
        origin: Why it was made.
    """

    origin: Origin

    def __init__(self, function: Callable[..., Any], leaves: list[Any], structure: Any) -> None:
        recording, closed = _record(function, leaves, structure)
        trace = recording.trace
        self.joined = recording.joined
        self.operands = recording.joined.operands
        self.guard = Guard(trace, trace.all_snapshots(), trace.outside)
        self.results = recording.results
        self.keeping = recording.keeping
        # The one new tensor that the function returns, if that is all; most training steps do so.
        self.sole = recording.sole
        self.argument_writes = recording.argument_writes
        self.argument_grads = list(recording.argument_grads.items())
        #: Results that are the gradients of other results, by their positions.
        self.result_grads = recording.result_grads
        self.exchanges = recording.exchanges
        self.hooks, self.retained = recording.hooks, recording.retained
        #: What the program takes for granted about its arguments besides `signature`.
        self.facts = trace.facts.all()
        slots = [(slot, result) for slot, result in recording.slots if result is not None]
        grads = [each for _, each in (*slots, *self.argument_grads) if each is not None]
        #: Outputs that stand in several places, which must then share the tensor or its Cell.
        self.shared = shared_outputs((*self.results, *grads, *self.exchanges))
        if self.sole is not None and self.sole.output in self.shared:
            self.sole = None
        plain = [each for each in slots if self._is_plain_gradient(*each)]
        #: Tensors whose gradient is a plain new tensor at each call, with its place in the outputs.
        self.new_grads = [(slot.tensor, result.output) for slot, result in plain]
        self.slots = [each for each in slots if not self._is_plain_gradient(*each)]
        # Tensors that the results are, where those stand that may be others at each call.
        self.returned_slots = [each.slot for each in (*self.results, *grads) if each.slot]
        self.moved, self.flags = recording.moved, recording.flags
        # The modes in which the function leaves modules that it switches.
        self.switched = [(module, module.training) for module in trace.switched]
        # Gradients that the function leaves unset, unless the guard finds them so already.
        unset = set(self.guard.without_grad)
        self.cleared = [
            slot.tensor
            for slot, result in recording.slots
            if result is None and slot.tensor not in unset
        ]
        self.places = Places(recording, exchanging.slots_by_cell(recording), len(leaves))
        self._bind(recording, closed)
        trace.release()
        #: Whether the situation that the program was compiled for still holds.
        self.looks_at_slots = bool(self.slot_specs or self.keeping.slots)
        self.accepts: Callable[[], bool] = (
            self._accepts_slots if self.looks_at_slots else self.guard.holds
        )
        self.writes_more = bool(
            self.slot_writes
            or self.cleared
            or self.new_grads
            or self.slots
            or self.argument_writes
            or self.argument_grads
            or self.exchanges
            or self.moved
            or self.hooks
            or self.retained
            or self.switched
        )
        #: Whether it writes anything at all.
        self.changes = bool(self.written or self.writes_more)
        self.looks_first = bool(
            self.keeping.slots or self.returned_slots or self.flags or self.exchanges or self.shared
        )

    def _bind(self, recording: Recording, closed: Any) -> None:
        """Match the jaxpr's constants to the Cells they were read from, and compile it."""
        owner = {id(array): cell for cell, array in recording.trace.reads.items()}
        slot_of = exchanging.slots_by_cell(recording)
        constants: list[Any] = []  # a Cell, a Slot, or a value that never changes
        for constant in closed.consts:
            cell = owner.get(id(constant))
            constants.append(constant if cell is None else slot_of.get(cell, cell))
        read = [each for each in constants if isinstance(each, Cell)]
        cells = recording.cells.items()
        self.written = [(c, output, count) for c, (output, count) in cells if c not in slot_of]
        self.slot_writes = [
            (slot_of[c], output, count) for c, (output, count) in cells if c in slot_of
        ]
        #: Whether it calls Python while it runs, which may read, and may fail.
        self.calls_back = calls_back(closed.jaxpr)
        # What a backward that comes later needs cannot be overwritten.
        keeps = recording.roots or self.calls_back
        free = set() if keeps else set(recording.cells)
        self.donated = [cell for cell in read if cell in free]
        self.kept = [cell for cell in read if cell not in free]
        # Cells that hold no array yet, it may be, but a plan to make one.
        self.unread = [each for each, _, _ in self.written if each not in set(read)]
        self.slots_read = [each for each in constants if isinstance(each, Slot)]
        # Tensors whose Cell the program exchanges, and Cells that theirs must not be.
        self.loose = [each.tensor for each in self.slots_read if isinstance(each, CellSlot)]
        self.bound_cells = {*read, *recording.cells} - slot_of.keys() if self.loose else set()
        self.slot_specs = [(slot, spec_of(slot.get())) for slot in self.slots_read]
        self.slot_specs += [(slot, spec_of(before)) for slot, before in recording.slot_before]
        self._bind_to_slots(recording, slot_of)
        order: dict[Any, int] = {}
        for each in (*self.donated, *self.kept):
            order.setdefault(each, len(order))
        first = len(order)
        last = first + len(self.operands)
        for each in self.slots_read:
            order.setdefault(each, last + len(order) - first)
        sources = [order[each] if isinstance(each, Cell | Slot) else None for each in constants]
        fixed = [None if isinstance(each, Cell | Slot) else each for each in constants]
        jaxpr = expanded(without_constants(closed))

        def operands(arrays: Sequence[Any]) -> list[Any]:
            values = [
                value if source is None else arrays[source]
                for source, value in zip(sources, fixed, strict=True)
            ]
            return [*values, *arrays[first:last]]

        self.history: History | None = None
        if recording.roots:
            split = Split(jaxpr, operands, recording.count)
            source_of = functools.partial(_source_of, recording, order, slot_of, first)
            self.history = History(
                split,
                [jax.ShapeDtypeStruct(each.shape, each.dtype) for _, each in recording.roots],
                [source_of(each) for each in recording.arrivals],
                recording.refusal,
            )
            self.executable = self._waiting(self.history.forward)
            return

        def program(*arrays: Any) -> Any:
            values, count = operands(arrays), len(jaxpr.constvars)
            return tuple(eval_jaxpr(jaxpr, values[:count], *values[count:]))

        positions = tuple(range(len(self.donated)))
        like = self._as_written(order, len(jaxpr.outvars))
        found = compiled(program, "compiled_step", donate=positions, like=like)
        self.executable = self._waiting(found)

    def _as_written(self, order: dict[Any, int], count: int) -> Callable[..., Any]:
        """Gives, for each output that is written to a Cell, the array that the Cell held."""
        places: list[Any] = [None] * count
        for written, output, _ in (*self.written, *self.slot_writes):
            places[output] = order.get(written)
        return lambda *arrays: tuple(None if each is None else arrays[each] for each in places)

    def _waiting(self, executable: Callable[..., Any]) -> Callable[..., Any]:
        """``executable``; if it calls Python, it gives its results once it cannot fail any more."""
        if not self.calls_back:
            return executable
        return lambda *arrays: jax.block_until_ready(executable(*arrays))

    def _bind_to_slots(self, recording: Recording, slot_of: dict[Cell, Slot]) -> None:
        """Find out which tensors in slots must be those that the trace has found there."""
        # Slots that must hold the same tensor as others, and slots with what they must hold.
        self.shared_slots: list[tuple[Any, Any]] = []
        self.bound: list[tuple[Any, Any]] = [*recording.staying]
        used = recording.trace.reads.keys() | recording.looked_up
        first: dict[Any, Tensor] = {}
        for holder, before in recording.slot_before:
            for slot, tensor in tensors_in(before, holder):
                owner = None if tensor._view is not None else slot_of.get(tensor._cell)
                if owner == slot or tensor._cell not in used:
                    first.setdefault(owner, tensor)
                elif owner is not None and first.get(owner) is tensor:
                    self.shared_slots.append((slot, owner))
                else:
                    self.bound.append((slot, tensor))

    def run(self, leaves: Sequence[Any]) -> Any:
        """Run the program on the leaves of a call's arguments, and the gradients of these."""
        if self.joined.owners:
            leaves, _ = self.joined.look(leaves)
        return self.run_on(leaves, [each.get(leaves) for each in self.operands])

    def fits(self, leaves: list[Any]) -> bool:
        """Whether arguments share Cells, and what was asked about them is so, as in the trace."""
        if not self.places.hold(leaves) or (self.joined.owners and not self.joined.holds(leaves)):
            return False
        if not self.facts:
            return True
        if self.joined.owners:
            leaves, _ = self.joined.look(leaves)
        return all(fact.holds(leaves) for fact in self.facts)

    def run_on(self, leaves: Sequence[Any], inputs: list[Any]) -> Any:
        """`run`, when the arrays of the leaves that are tensors have been read."""
        arrays: list[Any] = []
        slots = [slot.get()._read() for slot in self.slots_read] if self.slots_read else ()
        # What may be overwritten below.
        found = self._look_first(leaves) if self.looks_first else None

        def read(taken: list[Any] | tuple[()] = ()) -> list[Any]:
            if taken:
                arrays.extend(owned(taken))
            arrays.extend(map(_array_of, self.kept))
            arrays.extend(inputs)
            arrays.extend(slots)
            return arrays

        def write(results: Any) -> tuple[Any, Node | None]:
            outputs, node = results, None
            if self.history is not None:
                outputs, residuals = results
                node = self.history.node(arrays, residuals, leaves)
            for cell, output, count in self.written:
                cell.array = outputs[output]
                cell.version += count
            for cell in self.unread:
                cell._make = None
            if self.writes_more:
                self._write_more(outputs, leaves, node, found)
            return outputs, node

        if self.keeping.leaves_more:
            return self._run_and_leave(read, write, leaves, found)
        if self.donated:
            outputs, node = finishing.run(self.executable, self.donated, read, write)
        elif self.changes:
            outputs, node = finishing.run_beside(self.executable, read, write)
        else:
            outputs, node = write(finishing.run_beside(self.executable, read, None))
        sole = self.sole
        if sole is not None and node is None:
            made = handle_on(Cell(outputs[sole.output]), Tensor)
            if sole.requires_grad:
                made._requires_grad = True
                if sole.number is not None:
                    made._grad_fn = _SPENT
            return made
        results = self._make_all(outputs, leaves, node, found)
        return self.keeping.carry_out([] if found is None else found.containers, results, leaves)

    def _run_and_leave(
        self,
        read: Callable[..., list[Any]],
        write: Callable[[Any], tuple[Any, Node | None]],
        leaves: Sequence[Any],
        found: _Found | None,
    ) -> Any:
        """Run, and write to Cells, containers and attributes, all or, after an interrupt, none."""
        containers = [] if found is None else found.containers
        done: list[Any] = []
        new = self.keeping.begin() if self.keeping.made else None

        def write_all(results: Any) -> Any:
            outputs, node = write(results)
            made = self._make_all(outputs, leaves, node, found)
            return self.keeping.carry_out(containers, made, leaves, done, new)

        if self.donated:
            return finishing.run(self.executable, self.donated, read, write_all)
        return finishing.run_beside(self.executable, read, write_all)

    def _make_all(
        self, outputs: Any, leaves: Sequence[Any], node: Node | None, found: _Found | None
    ) -> list[Any]:
        """The tensors that the function returns or leaves behind."""
        results = [self._make(each, outputs, leaves, node, found) for each in self.results]
        for i, gradient in self.result_grads:
            results[i]._grad = results[gradient]
        if isinstance(node, CompiledFunctionBackward):
            node.connect(results)
        return results

    def _look_first(self, leaves: Sequence[Any]) -> _Found:
        """Set flags, and find tensors that are returned and containers that are changed."""
        for which, flag in self.flags:
            tensor = find(which, leaves)
            if tensor._requires_grad is not flag:
                tensor._requires_grad = flag
                world.bump()
        return _Found(
            {slot: slot.get() for slot in self.returned_slots},
            self.keeping.find(),
            exchanging.look_up(self.exchanges, leaves, self.joined.owners),
            {},
            {},
        )

    def _write_more(
        self, outputs: Any, leaves: Sequence[Any], node: Node | None, found: _Found | None
    ) -> None:
        """Write what goes elsewhere than to Cells that are always the same."""
        for slot, output, count in self.slot_writes:
            tensor = slot.get()
            tensor._store(outputs[output])
            tensor._cell.version += count - 1
        for tensor in self.cleared:
            tensor._grad = None
            world.gradients += 1
        for tensor, output in self.new_grads:
            tensor._grad = handle_on(Cell(outputs[output]), Tensor)
        world.gradients += len(self.new_grads)
        for slot, result in self.slots:
            slot.set(self._make(result, outputs, leaves, node, found))
        for i, is_whole, output, count in self.argument_writes:
            cell = leaves[i]._cell
            (cell.write if is_whole else leaves[i]._store)(outputs[output])
            cell.version += count - 1
        if found is not None:
            cell_of = functools.partial(self._cell_of, outputs, found)
            exchanging.carry_out(self.exchanges, found.exchanged, outputs, cell_of)
        for i, result in self.argument_grads:
            grad = None if result is None else self._make(result, outputs, leaves, node, found)
            leaves[i]._grad = grad
            world.gradients += 1
        for module, training in self.switched:
            if module.training is not training:
                module.training = training
        for which, number in self.moved:
            tensor = find(which, leaves)
            if not tensor._requires_grad:
                world.bump()
            if number in (DETACHED, LEAF):
                tensor._grad_fn, tensor._output_nr = None, 0
                tensor._requires_grad = number == LEAF
                world.bump()
            else:
                _with_history(tensor, node, number)._rebased += 1
        for where, method, hook in self.hooks:
            tensor = find(where, leaves)
            # One that was detached after it got the hook keeps the hook.
            requires_grad, tensor._requires_grad = tensor._requires_grad, True
            getattr(tensor, method)(hook)
            tensor._requires_grad = requires_grad
        for i in self.retained:
            leaves[i].retain_grad()

    def _make(
        self,
        result: Result,
        outputs: Any,
        leaves: Sequence[Any],
        node: Node | None,
        found: _Found | None,
    ) -> Any:
        tensor = result.tensor
        if result.slot:
            assert found is not None
            tensor = found.in_slots[result.slot]
        elif result.argument >= 0:
            tensor = leaves[result.argument]
        if tensor is not None and result.is_alias:
            tensor = tensor._alias(result.cls)
            if result.view is not None:
                tensor._view = result.view.seen_through(tensor._view)
            tensor._requires_grad = result.requires_grad
        if tensor is not None:
            return tensor
        shared = None if found is None or result.output not in self.shared else found.tensors
        if shared is not None and id(result) in shared:
            return shared[id(result)]
        made = handle_on(self._cell_of(outputs, found, result.output), Tensor)
        if result.cls is not Tensor:
            made = made.as_subclass(result.cls)
        made._requires_grad = result.requires_grad
        _with_history(made, node, result.number)
        if shared is not None:
            shared[id(result)] = made
        return made

    def _cell_of(self, outputs: Any, found: _Found | None, output: int) -> Cell:
        """The Cell of a new tensor, or of all that have this output as theirs."""
        if found is None or output not in self.shared:
            return Cell(outputs[output])
        if output not in found.cells:
            found.cells[output] = Cell(outputs[output])
        return found.cells[output]

    def _is_plain_gradient(self, slot: Slot, result: Result) -> bool:
        """Whether a gradient is made at each call as a tensor that nothing else is known of."""
        is_plain = result.is_new and not result.requires_grad and result.number is None
        return is_plain and isinstance(slot, GradSlot) and result.output not in self.shared

    def _accepts_slots(self) -> bool:
        return (
            self.guard.holds()
            and all(spec_of(slot.get()) == spec for slot, spec in self.slot_specs)
            and all(slot.get() is tensor for slot, tensor in self.bound)
            and all(slot.get() is owner.get() for slot, owner in self.shared_slots)
            and self.keeping.holds()
            and self._are_apart()
        )

    def _are_apart(self) -> bool:
        """Whether tensors whose Cell the program exchanges share none with others it knows."""
        cells = {each._cell for each in self.loose}
        return len(cells) == len(self.loose) and cells.isdisjoint(self.bound_cells)


def _record(function: Callable[..., Any], leaves: list[Any], structure: Any) -> Any:
    """Trace a function, as often as it takes to know which arguments share Cells."""
    joined = Joined(leaves)
    while True:
        recording = Recording(function, joined, structure)
        with jit_core.tracing():
            closed = recording.record()
        recording.trace.loose = exchanging.loose_tensors(recording)
        owners = owners_after(recording, exchanging.slots_by_cell(recording), len(leaves))
        if owners.items() <= joined.owners.items():
            return recording, closed
        joined = Joined(leaves, owners, recording.trace.tensors)


def _source_of(
    recording: Recording,
    order: dict[Any, int],
    slot_of: dict[Cell, Slot],
    first: int,
    arrival: Arrival,
) -> Source:
    """Where a tensor that takes a gradient is found at each call."""
    tensor = arrival.tensor
    if arrival.is_leaf and tensor in recording.new_leaves:
        return Source(result=recording.new_leaves[tensor])
    if tensor in recording.own:
        i = recording.own[tensor]
        operand, operands = Operand("part", i), recording.joined.operands
        place = first + operands.index(operand) if operand in operands else -1
        return Source(argument=i, input=place)
    result = recording.returned.get(tensor)
    if result is not None and recording.results[result].is_new_handle:
        return Source(result=result)
    if tensor._view is not None:
        return Source(tensor=tensor)
    slot = slot_of.get(tensor._cell)
    number = order.get(tensor._cell if slot is None else slot, -1)
    return Source(slot=slot, tensor=tensor, input=number)


def _with_history(tensor: Tensor, node: Node | None, number: int | None) -> Tensor:
    """``tensor``, now output ``number`` of ``node``."""
    if number is not None:
        if number == SPENT:
            node, number = _SPENT, 0
        tensor._grad_fn, tensor._output_nr, tensor._requires_grad = node, number, True
    return tensor
