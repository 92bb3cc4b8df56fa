"""A compiled program: reads Cells, runs, and writes Cells, as one trace has recorded."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import jax

from flambeau.compile.answers import Answer, checked, required
from flambeau.compile.callbacks import calls_back
from flambeau.compile.devices import bringing, sending
from flambeau.compile.errors import CompileError, NumbersMatterError, UnansweredError
from flambeau.compile.guarding.checks import Checks
from flambeau.compile.guarding.explaining import Origin, source_of
from flambeau.compile.guarding.guard import Guard
from flambeau.compile.guarding.numbers import Numbers
from flambeau.compile.guarding.sharing import slots_by_cell
from flambeau.compile.guarding.where import Argument, Created, Itself, Where
from flambeau.compile.outputs.effects import Effects
from flambeau.compile.outputs.passing import Arrival, PassedGradients, Source
from flambeau.compile.outputs.split import Split, without_constants
from flambeau.compile.reading.leftovers import let_go, paused_collector
from flambeau.compile.recomputation import expanded
from flambeau.compile.recording import Recording
from flambeau.core.devices import exhaustion, meshes, spanning
from flambeau.core.devices.device import device
from flambeau.core.devices.donation import owned
from flambeau.core.operators.companions import place_of
from flambeau.core.programs import finishing, jit_core
from flambeau.core.programs.compiled import compiled
from flambeau.core.programs.cutting import evaluated
from flambeau.core.values.cell import Cell

_array_of = attrgetter("array")


class Program:
    """A function compiled for one situation.

    Args:
        function: The user's function.
        leaves: The leaves of the arguments of the call to trace, and their gradients.
        structure: The structure of the arguments.
        stand_in: See `Trace`.
        answers: The answers to questions about tensors' values in an eager call.
        numbers: The numbers that may become inputs.

    Attributes:
        name: The function's name.
        origin: The reason for which it was compiled.
        computation: The computation, as a function from `compiled`.
    """

    origin: Origin

    def __init__(
        self,
        function: Callable[..., Any],
        leaves: list[Any],
        structure: Any,
        stand_in: Callable[[Cell], Any] | None = None,
        answers: Sequence[Answer] = (),
        numbers: Numbers | None = None,
    ) -> None:
        #: The answers that its trace was given.
        self.answers: Sequence[Answer] = answers
        self.name: str = getattr(function, "__name__", type(function).__name__)
        given = (function, leaves, structure, answers, numbers or Numbers.none())
        recording, closed = _record(stand_in, given)
        trace, slot_of = recording.trace, slots_by_cell(recording)
        trace.settle_numbers({*map(id, closed.consts)})
        self.guard: Guard = Guard(trace)
        self._bind(recording, closed, slot_of)
        looked_up = self.reads[len(recording.operands) :]
        self.checks: Checks = Checks(recording, slot_of, looked_up)
        read, unset = (*self.donated, *self.kept), {*self.guard.without_grad}
        effects = Effects(recording, slot_of, read, unset, self.gradients, self.places)
        self.look, self.write, self.changes = effects.look, effects.write, effects.changes
        self.page = recording.page
        #: Whether the fast path may run it: it looks up nothing but the arrays of its arguments.
        self.is_simple: bool = not (
            any(isinstance(each, Where) for each in recording.writes)
            or self.checks.look_up
            or self.checks.facts
        )
        # The arguments of the traced call would live as long as the program.
        recording.leaves.clear()
        stand_ins = trace.numbers.stand_ins
        trace.chance.forget()
        refuse_leftovers = let_go(recording)
        del recording, closed, trace, effects, slot_of
        refuse_leftovers()
        if any(each() is not None for each in stand_ins):
            # Perhaps in a cycle of references.
            gc.collect()
            if any(each() is not None for each in stand_ins):
                raise NumbersMatterError

    def _bind(self, recording: Recording, closed: Any, slot_of: dict[Cell, Where]) -> None:
        """Match the jaxpr's constants to the Cells that they were read from, and compile it."""
        #: On a machine with several devices: functions that move inputs to the program's device or
        #: devices, and results away; and the device, if no input says which.
        self.bring: Callable[[list[Any]], None] | None = None
        self.send: Callable[[Any], Any] | None = None
        self.alone_on: device | None = None
        owner = {id(array): cell for cell, array in recording.trace.reads.items()}
        constants: list[Any] = []  # a Cell, a Where, or a value that never changes
        for constant in closed.consts:
            cell = owner.get(id(constant))
            constants.append(constant if cell is None else slot_of.get(cell, cell))
        read = [each for each in constants if isinstance(each, Cell)]
        #: Whether it calls Python, which may read tensors and may fail.
        self.calls_back: bool = calls_back(closed.jaxpr)
        #: Whether it takes answers for granted, which may differ in a call.
        self.is_guess: bool = bool(recording.told)
        # Arrays that a later backward needs cannot be overwritten.
        keeps = recording.passing.roots or self.calls_back or self.is_guess
        keeps = keeps or recording.condition is not None
        free = set() if keeps else set(recording.writes)
        #: Whether it exchanges values with the program of other processes.
        self.spans_processes: bool = recording.trace.spans_processes
        compile = _compile_for_all if self.spans_processes else compiled
        if self.spans_processes and (self.is_guess or recording.condition is not None):
            raise CompileError(
                "processes exchange tensors in the compiled function, and it asks for values or "
                "checks them, which may differ between the processes"
            )
        self.donated: list[Cell] = [cell for cell in read if cell in free]
        self.kept: list[Cell] = [cell for cell in read if cell not in free]
        looked_up = [each for each in constants if isinstance(each, Where)]
        #: The places of the arrays that the program reads besides these Cells.
        self.reads = [*recording.operands, *looked_up]
        count = len(closed.jaxpr.outvars)
        outputs = _outputs_in_order(self.donated, recording, count)
        #: For each output of the trace, its position among the program's.
        self.places: list[int] = sorted(range(count), key=outputs.__getitem__)
        order: dict[Any, int] = {}
        for i, each in enumerate((*self.donated, *self.kept, *self.reads)):
            order.setdefault(each, i)
        first = len(self.donated) + len(self.kept)
        last = first + len(recording.operands)
        sources = [order[each] if isinstance(each, Cell | Where) else None for each in constants]
        fixed = [None if isinstance(each, Cell | Where) else each for each in constants]
        jaxpr = expanded(without_constants(closed))

        def operands(arrays: Sequence[Any]) -> list[Any]:
            values = [
                value if source is None else arrays[source]
                for source, value in zip(sources, fixed, strict=True)
            ]
            return [*values, *arrays[first:last]]

        self.gradients: PassedGradients | None = None
        if recording.passing.roots:
            split = Split(jaxpr, operands, recording.passing.count)
            source_of = functools.partial(_source_of, recording, order, slot_of)
            self.gradients = PassedGradients(
                split,
                [
                    jax.ShapeDtypeStruct(each.shape, each.dtype)
                    for _, each in recording.passing.roots
                ],
                [source_of(each) for each in recording.passing.arrivals],
                recording.passing.refusal,
                compile,
            )
            self.computation = self.gradients.forward
            self.executable = self._waiting(self.computation, recording.condition)
            self._settle_devices(recording)
            if self.is_guess:
                raise UnansweredError("gradients leave a function that asks for values")
            return

        def program(*arrays: Any) -> Any:
            values, count = operands(arrays), len(jaxpr.constvars)
            found = evaluated(jaxpr, values[:count], *values[count:])
            return tuple([found[output] for output in outputs])

        positions = tuple(range(len(self.donated)))
        like = _as_written(recording, slot_of, order, self.places)
        self.computation = compile(
            program, "compiled_step", donate=positions, like=like, at_once=True
        )
        self.executable = self._waiting(self.computation, recording.condition)
        self._spread_numbers()
        self._settle_devices(recording)
        if self.is_guess:
            self.executable = checked(self.executable, recording.asked, recording.told)

    def _settle_devices(self, recording: Recording) -> None:
        """Decide what is moved before and after a call; see `devices`."""
        devices = recording.trace.devices
        if devices is None:
            return
        sources = [*self.donated, *self.kept, *self.reads]
        arrays = [
            each.array if isinstance(each, Cell) else each.read(recording.leaves)
            for each in sources
        ]
        if any(map(meshes.mesh_of, arrays)):
            return
        devices.settle()
        written = [i for i, each in enumerate(sources) if each in recording.writes]
        left = devices.leaving(recording.outputs)
        if left and self.gradients is not None:
            raise CompileError(
                "the compiled function moves a result to another device, and gradients leave it "
                "through others; move the result after the call"
            )
        where = recording.trace.place()
        self.bring = bringing(arrays, written, where)
        self.send = sending({self.places[i]: target for i, target in left.items()})
        if not any(map(place_of, arrays)) and where.jax_device != jax.local_devices()[0]:
            self.alone_on = where

    def _spread_numbers(self) -> None:
        """On a mesh, let an optimizer's numbers be copied to all devices before each call."""
        own = [cell.array for cell in (*self.donated, *self.kept)]
        mesh = next(filter(None, map(meshes.mesh_here, own)), None)
        loose = [i for i in range(len(self.donated), len(own)) if meshes.is_loose(own[i])]
        if mesh and loose:
            self.bring = meshes.spreading(loose, mesh)

    def _waiting(self, executable: Callable[..., Any], condition: int | None) -> Callable[..., Any]:
        """``executable``; if a call may fail, it waits until it cannot fail any more."""
        if condition is not None:
            return required(executable, condition, is_nested=self.gradients is not None)
        if not self.calls_back:
            return executable
        return lambda *arrays: jax.block_until_ready(executable(*arrays))

    def inputs(self, leaves: Sequence[Any]) -> list[Any]:
        """The arrays that the program takes, for the leaves of a call's arguments."""
        own = map(_array_of, (*self.donated, *self.kept))
        return [*own, *(each.read(leaves) for each in self.reads)]

    def run(self, leaves: Sequence[Any]) -> Any:
        """Run the program on the leaves of a call's arguments, and their gradients."""
        return self.run_on(leaves, [each.read(leaves) for each in self.reads])

    def fits(self, leaves: list[Any]) -> bool:
        """Whether the program may run for these leaves, which have its signature."""
        return self.guard.holds() and self.checks.hold(leaves)

    def run_on(self, leaves: Sequence[Any], inputs: list[Any]) -> Any:
        """`run`, after the caller has read the arrays of `reads`."""
        arrays: list[Any] = []
        # Found before anything is overwritten.
        found = None if self.look is None else self.look(leaves)

        def read(taken: list[Any] | tuple[()] = ()) -> list[Any]:
            if taken:
                arrays.extend(owned(taken))
            arrays.extend(map(_array_of, self.kept))
            arrays.extend(inputs)
            if self.bring is not None:
                self.bring(arrays)
            return arrays

        def write(results: Any) -> Any:
            # Here, where an interrupt loses nothing: the program has overwritten arrays by now.
            results = spanning.own_parts(results) if self.spans_processes else results
            results = results if self.send is None else self.send(results)
            return self.write(results, arrays, leaves, found)

        try:
            if self.alone_on is None:
                return self._call(read, write)
            with jax.default_device(self.alone_on.jax_device):
                return self._call(read, write)
        except exhaustion.FAILURES as error:
            raise exhaustion.named(error) from error.__cause__

    def _call(self, read: Callable[..., list[Any]], write: Callable[[Any], Any]) -> Any:
        if self.donated:
            return finishing.run(self.executable, self.donated, read, write)
        if self.changes:
            return finishing.run_beside(self.executable, read, write)
        return write(finishing.run_beside(self.executable, read, None))

    @property
    def source(self) -> str:
        """The Python code that a call runs besides the XLA program: checks, reads and writes."""
        return source_of(self)


def _compile_for_all(function: Callable[..., Any], name: str, **options: Any) -> Callable[..., Any]:
    """`compiled`, for a function that exchanges values with other processes."""
    mesh = spanning.mesh_of(tuple(range(spanning.world)), jax.default_backend())
    options.pop("like", None)
    return spanning.each_on_its_own(
        lambda spread: compiled(spread, name, **options), function, mesh
    )


def _record(stand_in: Callable[[Cell], Any] | None, given: tuple[Any, ...]) -> Any:
    """Trace a function; return the recording and the closed jaxpr."""
    with jit_core.tracing(), paused_collector():
        recording = Recording(*given)
        recording.trace.stand_in = stand_in
        return recording, recording.record()


def _as_written(
    recording: Recording, slot_of: dict[Cell, Where], order: dict[Any, int], places: Sequence[int]
) -> Callable[..., Any]:
    """A function that gives, for each output written to a Cell, the array that the Cell held."""
    held: list[Any] = [None] * len(places)
    for cell, (output, _) in recording.writes.items():
        if isinstance(cell, Cell):
            held[places[output]] = order.get(slot_of.get(cell, cell))
    return lambda *arrays: tuple(None if each is None else arrays[each] for each in held)


def _outputs_in_order(donated: list[Cell], recording: Recording, count: int) -> list[int]:
    """The outputs of a trace as its program gives them: first those that overwrite ``donated``.

    JAX gives the memory of the donated arrays to the first outputs of their shapes. XLA would copy
    arrays whose memory went to each other's new values.
    """
    first = dict.fromkeys(recording.writes[cell][0] for cell in donated)
    return [*first, *(output for output in range(count) if output not in first)]


def _source_of(
    recording: Recording, order: dict[Any, int], slot_of: dict[Cell, Where], arrival: Arrival
) -> Source:
    """The place of the tensor that takes a gradient."""
    tensor = arrival.tensor
    if arrival.is_leaf and tensor in recording.passing.new_leaves:
        return Source(Created(recording.passing.new_leaves[tensor]))
    if tensor in recording.own:
        where = Argument(recording.own[tensor])
        return Source(where, order.get(where, -1))
    result = recording.returned.get(tensor)
    if result is not None and recording.results[result].is_new_handle:
        return Source(Created(result))
    if tensor._view is not None:
        return Source(Itself(tensor))
    cell = tensor._cell
    return Source(slot_of.get(cell, Itself(tensor)), order.get(slot_of.get(cell, cell), -1))
