"""A compiled program: from one trace to calls that read Cells, run, and write Cells."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.core import Tracer, eval_jaxpr

from flambeau.compile import arguments, errors, guard
from flambeau.compile.guard import Guard, ModuleSnapshot, Place
from flambeau.core import dispatch, tape
from flambeau.core.cell import Cell
from flambeau.core.compiler import compiled_convolution, has_convolution
from flambeau.core.donation import take
from flambeau.core.kernel import Kernel
from flambeau.core.modes import modes
from flambeau.core.tensor import Tensor
from flambeau.core.trace import Trace


class Result(NamedTuple):
    """One tensor among what the function returned.

    Attributes:
        output: Its position among the program's outputs, or -1 for a tensor that existed before.
        argument: The position of the argument that it is, or -1.
        tensor: A tensor that existed before and is neither.
        requires_grad: Whether it requires grad.
        spent: Whether the function has already run backward through its history.
        cls: Its class.
    """

    output: int = -1
    argument: int = -1
    tensor: Tensor | None = None
    requires_grad: bool = False
    spent: bool = False
    cls: type = Tensor

    @property
    def is_new(self) -> bool:
        """Whether it is a plain tensor that each call makes."""
        return self.argument < 0 and self.tensor is None and self.cls is Tensor

    @property
    def has_history(self) -> bool:
        """Whether gradients can flow from it into the program."""
        return self.requires_grad and not self.spent


class AttributeSlot(NamedTuple):
    """A module attribute that the function assigns a tensor to.

    What stands in a slot may be another tensor at each call, so it is looked up each time.
    """

    module: Any
    place: Place

    def get(self) -> Any:
        """The tensor that stands in the slot now."""
        return guard.value_at(self.module, self.place)

    def set(self, value: Any) -> None:
        """Put a tensor into the slot."""
        guard.set_at(self.module, self.place, value)


class GradSlot(NamedTuple):
    """The ``.grad`` of a tensor."""

    tensor: Tensor

    def get(self) -> Any:
        """The gradient that stands in the slot now."""
        return self.tensor._grad

    def set(self, value: Any) -> None:
        """Put a gradient into the slot."""
        self.tensor._grad = value


Slot = AttributeSlot | GradSlot


class Recording:
    """One trace of a function: what it read, wrote and returned.

    Args:
        function: The user's function.
        leaves: The leaves of the arguments.
        structure: Their structure.
    """

    def __init__(self, function: Callable[..., Any], leaves: list[Any], structure: Any) -> None:
        self.function = function
        self.structure = structure
        self.leaves = leaves
        self.inputs = [i for i, leaf in enumerate(leaves) if arguments.is_input(leaf)]
        self.with_grad = [i for i in self.inputs if leaves[i]._grad is not None]
        self.trace = _ModuleWatchingTrace(tape.sequence_now())
        self.stand_ins: list[Any] = list(leaves)
        self.outputs: list[Any] = []
        self.results: list[Any] = []
        self.result_structure: Any = None
        # Each write-back, as the position of its output.
        self.cells: dict[Cell, int] = {}
        self.argument_writes: dict[int, int] = {}
        self.argument_grads: dict[int, int | None] = {}
        self.slots: list[tuple[Slot, int | None]] = []
        self.slot_before: list[tuple[AttributeSlot, Any]] = []

    def record(self) -> Any:
        """Trace the function and give the closed jaxpr.

        Raises:
            CompileError: The function needs a value that is not known yet.
        """
        arrays = [self.leaves[i]._read() for i in self.inputs]
        arrays += [self.leaves[i]._grad._read() for i in self.with_grad]
        if arrays:
            self.trace.device = Tensor._wrap(arrays[0]).device
        before = modes.trace
        if before is not None:
            raise errors.CompileError("a compiled function cannot be traced inside another trace")
        modes.trace = self.trace
        try:
            return jax.make_jaxpr(self._run)(*arrays)
        except errors.VALUE_ERRORS as error:
            raise errors.explain(error) from error
        finally:
            modes.trace = before
            self._restore()

    def _run(self, *tracers: Any) -> list[Any]:
        grads = dict(zip(self.with_grad, tracers[len(self.inputs) :], strict=True))
        for i, tracer in zip(self.inputs, tracers, strict=False):
            twin = next(j for j in self.inputs if self.leaves[j] is self.leaves[i])
            self.stand_ins[i] = (
                self.stand_ins[twin]
                if twin < i
                else arguments.stand_in(self.leaves[i], tracer, grads.get(i))
            )
        args, kwargs = arguments.unflatten(self.structure, self.stand_ins)
        returned = self.function(*args, **kwargs)
        leaves, self.result_structure = jax.tree_util.tree_flatten(
            returned, is_leaf=lambda each: isinstance(each, Tensor) or each is None
        )
        self.results = [self._result(each) for each in leaves]
        self._collect_writes()
        return self.outputs

    def _add(self, array: Any) -> int:
        self.outputs.append(array)
        return len(self.outputs) - 1

    def _result(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        for i in self.inputs:
            if value is self.stand_ins[i]:
                return Result(argument=i)
        if value._view is None and not isinstance(value._cell.array, Tracer):
            return Result(tensor=value)
        node = value.grad_fn
        spent = node is not None and node.spent
        if node is not None and not spent:
            _check_no_hooks(node, {id(self.stand_ins[i]) for i in self.inputs})
        return Result(
            output=self._add(value._read()),
            requires_grad=value.requires_grad,
            spent=spent,
            cls=type(value),
        )

    def _collect_writes(self) -> None:
        trace = self.trace
        for cell, array in trace.values.items():
            self.cells[cell] = self._add(array)
        own = {}
        for i in self.inputs:
            stand_in = self.stand_ins[i]
            own[stand_in] = i
            if stand_in._cell.version:
                self.argument_writes[i] = self._add(stand_in._cell.array)
        for tensor, grad in trace.grads.items():
            if tensor in own:
                self.argument_grads[own[tensor]] = None if grad is None else self._add(grad._read())
            elif grad is None:
                self.slots.append((GradSlot(tensor), None))
            elif isinstance(grad._cell.array, Tracer) and not isinstance(
                tensor._cell.array, Tracer
            ):
                self.slots.append((GradSlot(tensor), self._add(grad._read())))
        for i in self.with_grad:
            grad = self.stand_ins[i]._grad
            if i not in self.argument_grads and grad is not None and grad._cell.version:
                self.argument_grads[i] = self._add(grad._read())
        self._collect_slots()

    def _collect_slots(self) -> None:
        side_effects = []
        for snapshot in trace_snapshots(self.trace):
            places = snapshot.changed()
            for place in places:
                value = guard.value_at(snapshot.module, place)
                if isinstance(value, Tensor):
                    slot = AttributeSlot(snapshot.module, place)
                    self.slots.append((slot, self._add(value._read())))
                    self.slot_before.append((slot, snapshot.values.get(place)))
                elif not place[1].startswith("_forward_"):
                    side_effects.append(f"{type(snapshot.module).__name__}.{place[1]}")
            snapshot.ignore(places)
        if side_effects:
            warnings.warn(
                f"the compiled function changes {', '.join(side_effects)} while it is traced; "
                "Python side effects run once, not at every call. Keep such state in a tensor "
                "(a buffer), or change it outside the compiled function",
                errors.CompileWarning,
                stacklevel=2,
            )

    def _restore(self) -> None:
        """Put back what the trace assigned, so that no tracer is left in a module."""
        if not self.slot_before:
            for snapshot in trace_snapshots(self.trace):
                for place in snapshot.changed():
                    value = guard.value_at(snapshot.module, place)
                    if isinstance(value, Tensor) and isinstance(value._cell.array, Tracer):
                        self.slot_before.append(
                            (AttributeSlot(snapshot.module, place), snapshot.values.get(place))
                        )
        for slot, before in self.slot_before:
            slot.set(before)
        for tensor, history in self.trace.histories.items():
            tensor._grad_fn, tensor._output_nr, tensor._requires_grad = history


_SPENT = tape.SpentNode(())


def _is_leaf_of_the_trace(node: tape.Node, arguments: set[int]) -> bool:
    """Whether ``node`` accumulates for a tensor that the function itself has made a leaf."""
    variable = getattr(node, "variable", None)
    made = variable is not None and isinstance(variable._cell.array, Tracer)
    return made and id(variable) not in arguments


def _check_no_hooks(node: tape.Node, arguments: set[int]) -> None:
    """Fail if gradients that are computed outside the program would pass hooks inside it."""
    seen, stack = {node}, [node]
    while stack:
        each = stack.pop()
        if each.tensor_hooks or each.pre_hooks or each.post_hooks:
            raise errors.CompileError(
                f"a backward hook on {each.name()} inside a compiled function would not run, since "
                "backward() is called outside it; compile the whole step, backward() included, or "
                "leave this module uncompiled"
            )
        if not isinstance(each, tape.KernelNode | tape.IdentityNode) or any(
            edge is not None and _is_leaf_of_the_trace(edge[0], arguments) for edge in each.edges
        ):
            raise errors.CompileError(
                f"{each.name()} inside a compiled function has a gradient of its own (a custom "
                "Function, or a tensor that was detached and made a leaf anew), which backward() "
                "outside it would not follow; compile the whole step, backward() included"
            )
        for edge in each.edges:
            if edge is not None and edge[0] not in seen and edge[0].edges:
                seen.add(edge[0])
                stack.append(edge[0])


class _ModuleWatchingTrace(Trace):
    """A trace that takes a snapshot of each module on entry and of each tensor's history."""

    def __init__(self, first_sequence: int) -> None:
        super().__init__(first_sequence)
        self.snapshots: dict[int, ModuleSnapshot] = {}
        self.histories: dict[Tensor, tuple[Any, int, bool]] = {}

    def enter(self, module: Any, anew: bool = False) -> None:
        """Note that ``module`` was called, or with ``anew`` that it has changed for good."""
        if anew or id(module) not in self.snapshots:
            self.snapshots[id(module)] = ModuleSnapshot(module)

    def note(self, tensor: Any) -> None:
        """Note that ``tensor`` took part."""
        if tensor not in self.tensors and not isinstance(tensor._cell.array, Tracer):
            super().note(tensor)
            self.histories[tensor] = (tensor._grad_fn, tensor._output_nr, tensor._requires_grad)


def trace_snapshots(trace: Any) -> list[ModuleSnapshot]:
    """The snapshots of the modules that a trace entered."""
    return list(trace.snapshots.values())


def _slots_by_cell(recording: Recording) -> dict[Cell, Slot]:
    """The Cells that the trace reached through a slot, which may hold another next time."""
    slots: dict[Cell, Slot] = {}
    for slot, before in recording.slot_before:
        if isinstance(before, Tensor) and before._view is None:
            slots[before._cell] = slot
    # A parameter that shares its Cell with what stood in a slot keeps it.
    for slot, before in recording.slot_before:
        for tensor, (_, cell) in recording.trace.tensors.items():
            if tensor is not before and slots.get(cell) is slot:
                del slots[cell]
    for tensor, grad in recording.trace.grads_read.items():
        if grad is not None and grad._view is None:
            slots[grad._cell] = GradSlot(tensor)
    return slots


class Program:
    """A function compiled for one situation.

    Args:
        function: The user's function.
        leaves: The leaves of the arguments of the call that asks for it.
        structure: Their structure.
    """

    def __init__(self, function: Callable[..., Any], leaves: list[Any], structure: Any) -> None:
        recording = Recording(function, leaves, structure)
        closed = recording.record()
        trace = recording.trace
        self.guard = Guard(trace, trace_snapshots(trace))
        self.results = recording.results
        self.result_structure = recording.result_structure
        self.inputs, self.with_grad = recording.inputs, recording.with_grad
        self.argument_writes = list(recording.argument_writes.items())
        self.argument_grads = list(recording.argument_grads.items())
        self.slots = [(slot, output) for slot, output in recording.slots if output is not None]
        # Gradients that the function leaves unset, unless the guard finds them so already.
        unset = set(self.guard.without_grad)
        self.cleared = [
            slot.tensor
            for slot, output in recording.slots
            if output is None and isinstance(slot, GradSlot) and slot.tensor not in unset
        ]
        self._bind_cells(recording, closed)
        self._bind_history(recording)
        #: Whether the situation that the program was compiled for still holds.
        self.accepts: Callable[[], bool] = (
            self._accepts_slots if self.slot_specs else self.guard.holds
        )
        self.writes_more = bool(
            self.slot_writes
            or self.cleared
            or self.slots
            or self.argument_writes
            or self.argument_grads
        )
        # The one new tensor that the function returns, if that is all; most training steps do so.
        sole = self.results[0] if len(self.results) == 1 else None
        is_leaf = jax.tree_util.treedef_is_leaf(self.result_structure)
        self.sole = sole if is_leaf and isinstance(sole, Result) and sole.is_new else None

    def _bind_cells(self, recording: Recording, closed: Any) -> None:
        """Match the jaxpr's constants to the Cells they were read from."""
        owner = {id(array): cell for cell, array in recording.trace.reads.items()}
        slot_of = _slots_by_cell(recording)
        constants: list[Any] = []  # a Cell, a Slot, or a value that never changes
        for constant in closed.consts:
            cell = owner.get(id(constant))
            constants.append(constant if cell is None else slot_of.get(cell, cell))
        read = [each for each in constants if isinstance(each, Cell)]
        self.donated = [cell for cell in read if cell in recording.cells]
        self.kept = [cell for cell in read if cell not in recording.cells]
        self.slots_read = [each for each in constants if isinstance(each, Slot)]
        self.slot_specs = [(slot, _slot_spec(slot.get())) for slot in self.slots_read]
        self.slot_specs += [(slot, _slot_spec(before)) for slot, before in recording.slot_before]
        self.written = [(c, output) for c, output in recording.cells.items() if c not in slot_of]
        self.slot_writes = [
            (slot_of[c], output) for c, output in recording.cells.items() if c in slot_of
        ]
        order: dict[Any, int] = {}
        for each in (*self.donated, *self.kept):
            order.setdefault(each, len(order))
        jaxpr, first = closed.jaxpr, len(order)
        last = first + len(self.inputs) + len(self.with_grad)
        for each in self.slots_read:
            order.setdefault(each, last + len(order) - first)
        sources = [order[each] if isinstance(each, Cell | Slot) else None for each in constants]
        fixed = [None if isinstance(each, Cell | Slot) else each for each in constants]

        def program(*arrays: Any) -> Any:
            values = [
                value if source is None else arrays[source]
                for source, value in zip(sources, fixed, strict=True)
            ]
            return tuple(eval_jaxpr(jaxpr, values, *arrays[first:last]))

        self.function = program
        self.convolves = has_convolution(jaxpr)
        jit = compiled_convolution if self.convolves else jax.jit
        self.executable = jit(program, donate_argnums=tuple(range(len(self.donated))))

    def _bind_history(self, recording: Recording) -> None:
        """Prepare for results whose gradients are computed outside the program."""
        self.differentiable = any(
            isinstance(each, Result) and each.has_history for each in self.results
        )
        self.leaves_by_cell: dict[Cell, Tensor] = {}
        if not self.differentiable:
            return
        for tensor, (requires_grad, cell) in recording.trace.tensors.items():
            if requires_grad:
                self.leaves_by_cell[cell] = _whole(tensor)
        self.kernel = Kernel(
            self.function, "compiled_function", "CompiledFunctionBackward", keep_residuals=True,
            convolves=self.convolves,
        )  # fmt: skip

    def run(self, leaves: Sequence[Any]) -> Any:
        """Run the program on the leaves of a call's arguments."""
        arrays = take(self.donated)
        for cell in self.kept:
            arrays.append(cell.array)
        for i in self.inputs:
            leaf = leaves[i]
            arrays.append(leaf._cell.array if leaf._view is None else leaf._read())
        if self.slots_read or self.with_grad:
            arrays += [leaves[i]._grad._read() for i in self.with_grad]
            arrays += [slot.get()._read() for slot in self.slots_read]
        if self.differentiable and modes.grad_enabled:
            return self._run_recorded(leaves, arrays)
        outputs = self.executable(*arrays)
        del arrays
        for cell, output in self.written:
            cell.array = outputs[output]
            cell.version += 1
        if self.writes_more:
            self._write_more(outputs, leaves)
        sole = self.sole
        if sole is not None:
            made = object.__new__(Tensor)
            made._cell = Cell(outputs[sole.output])
            if sole.spent:
                made._grad_fn, made._requires_grad = _SPENT, True
            return made
        made = [self._make(each, outputs, leaves) for each in self.results]
        return jax.tree_util.tree_unflatten(self.result_structure, made)

    def _run_recorded(self, leaves: Sequence[Any], arrays: list[Any]) -> Any:
        tensors: list[Any] = [self.leaves_by_cell.get(cell) for cell in (*self.donated, *self.kept)]
        tensors += [leaves[i] for i in self.inputs] + [None] * len(self.with_grad)
        tensors += [slot.get() for slot in self.slots_read]
        needs = tuple(each is not None and each.requires_grad for each in tensors)
        outputs, vjp = self.kernel.forward_with_residuals()(needs, *arrays)
        for cell, output in self.written:
            cell.write(outputs[output])
        self._write_more(outputs, leaves)
        edges = tuple(
            tape.edge_of(each) if need else None for each, need in zip(tensors, needs, strict=True)
        )
        cls = tape.node_class(self.kernel.node_name)
        node = cls(self.kernel, tuple(arrays), edges, len(outputs), vjp)
        node.results = dispatch.inexact_avals(outputs)
        made = []
        for each in self.results:
            tensor = self._make(each, outputs, leaves)
            if isinstance(each, Result) and each.has_history:
                tensor._grad_fn, tensor._output_nr, tensor._requires_grad = node, each.output, True
            made.append(tensor)
        return jax.tree_util.tree_unflatten(self.result_structure, made)

    def _write_more(self, outputs: Any, leaves: Sequence[Any]) -> None:
        """Write what goes elsewhere than to Cells that are always the same."""
        for slot, output in self.slot_writes:
            slot.get()._store(outputs[output])
        for tensor in self.cleared:
            tensor._grad = None
        for slot, output in self.slots:
            slot.set(Tensor._wrap(outputs[output]))
        for i, output in self.argument_writes:
            leaves[i]._store(outputs[output])
        for i, output in self.argument_grads:
            leaves[i]._grad = None if output is None else Tensor._wrap(outputs[output])

    def _make(self, result: Any, outputs: Any, leaves: Sequence[Any]) -> Any:
        if not isinstance(result, Result):
            return result
        if result.argument >= 0:
            return leaves[result.argument]
        if result.tensor is not None:
            return result.tensor
        made = Tensor._wrap(outputs[result.output])
        if result.spent:
            made._grad_fn, made._requires_grad = _SPENT, True
        return made if result.cls is Tensor else made.as_subclass(result.cls)

    def _accepts_slots(self) -> bool:
        return self.guard.holds() and all(
            _slot_spec(slot.get()) == spec for slot, spec in self.slot_specs
        )


def _whole(tensor: Tensor) -> Tensor:
    """The tensor that takes the gradient of all that is read from the Cell of ``tensor``."""
    view = tensor._view
    if view is None:
        return tensor
    if view.base is None or view.base._view is not None:
        raise errors.CompileError(
            "the compiled function uses a view that requires grad apart from its base, and "
            "backward() is called outside; clone() the view before, or compile the whole step"
        )
    return view.base


def _slot_spec(value: Any) -> Any:
    """What a program takes for granted of what stands in a slot: of tensors, no more than this."""
    if isinstance(value, Tensor):
        return tuple(value.shape), value.dtype
    return guard.freeze(value)
