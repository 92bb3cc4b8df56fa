"""One trace of a function: what it read, wrote and returned."""

from __future__ import annotations

import pickle
import random
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer

from flambeau.compile import arguments, errors, guard
from flambeau.compile.guard import ModuleSnapshot, OutsideSnapshot, Place
from flambeau.compile.history import Arrival, Root, trace_backward
from flambeau.compile.surroundings import Surroundings
from flambeau.core import tape, world
from flambeau.core.cell import Cell
from flambeau.core.modes import modes
from flambeau.core.tensor import Tensor
from flambeau.core.trace import Trace

#: Stands for the number of an output of the program's node where backward has already run.
SPENT = -1


class Result(NamedTuple):
    """One tensor among what the function returned.

    Attributes:
        output: Its position among the program's outputs, or -1 for a tensor that existed before.
        argument: The position of the argument that it is, or -1.
        tensor: A tensor that existed before and is neither.
        number: Which output of the program's node it is, `SPENT`, or ``None`` for a leaf.
        requires_grad: Whether it requires grad.
        cls: Its class.
    """

    output: int = -1
    argument: int = -1
    tensor: Tensor | None = None
    number: int | None = None
    requires_grad: bool = False
    cls: type = Tensor

    @property
    def is_new(self) -> bool:
        """Whether it is a plain tensor that each call makes."""
        return self.argument < 0 and self.tensor is None and self.cls is Tensor


class Twin(NamedTuple):
    """A result that is the same tensor as one before it.

    Attributes:
        first: The position of that one.
    """

    first: int


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
        world.gradients += 1


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
        self.returned: list[Any] = []
        self.results: list[Any] = []
        self.result_structure: Any = None
        self.keys: Any = None
        # The results that need cotangents, where these go, and how many outputs are no gradients.
        self.roots: list[Root] = []
        self.arrivals: list[Arrival] = []
        self.refusal: Exception | None = None
        self.count = 0
        # Each write-back, as the position of its output.
        self.cells: dict[Cell, int] = {}
        self.argument_writes: dict[int, int] = {}
        self.argument_grads: dict[int, int | None] = {}
        self.slots: list[tuple[Slot, int | None, int | None]] = []
        self.slot_before: list[tuple[AttributeSlot, Any]] = []
        # Tensors from outside, or positions of arguments, whose `requires_grad` it leaves so.
        self.flags: list[tuple[Tensor | int, bool]] = []
        # Tensors from outside, or positions of arguments, whose history the program moves on.
        self.moved: list[tuple[Tensor | int, int | None]] = []

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
        self.trace.surround(self.function, self._named_arguments())
        if before is not None:
            raise errors.CompileError("a compiled function cannot be traced inside another trace")
        modes.trace = self.trace
        try:
            return jax.make_jaxpr(self._run)(*arrays)
        except Exception as error:
            for undo in reversed(self.trace.undo):
                undo()
            if isinstance(error, errors.VALUE_ERRORS):
                raise errors.explain(error) from error
            raise
        finally:
            modes.trace = before
            self._restore()

    def _named_arguments(self) -> dict[str, Any]:
        """The objects among the arguments that the function may ask for attributes."""
        args, kwargs = arguments.unflatten(self.structure, self.leaves)
        code = getattr(self.function, "__code__", None)
        named = {} if code is None else dict(zip(code.co_varnames, args, strict=False))
        return {name: each for name, each in {**named, **kwargs}.items() if _is_object(each)}

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
        dice = _states_of_dice()
        returned = self.function(*args, **kwargs)
        _warn_of_dice(dice)
        leaves, self.result_structure = jax.tree_util.tree_flatten(
            arguments.without_keys(returned),
            is_leaf=lambda each: isinstance(each, Tensor) or each is None,
        )
        self.keys = arguments.keys_of(returned)
        self.returned = leaves
        places: dict[int, int] = {}
        for i, each in enumerate(leaves):
            first = places.setdefault(id(each), i)
            is_twin = first < i and isinstance(each, Tensor)
            self.results.append(Twin(first) if is_twin else self._result(each))
        self._collect_writes()
        self._collect_moved()
        self.count = len(self.outputs)
        if self.roots:
            self._trace_backward()
        return self.outputs

    def _add(self, array: Any) -> int:
        self.outputs.append(array)
        return len(self.outputs) - 1

    def _result(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            self._check_holds_no_tensor(value)
            return value
        for i in self.inputs:
            if value is self.stand_ins[i]:
                return Result(argument=i)
        if value._view is None and not isinstance(value._cell.array, Tracer):
            return Result(tensor=value)
        return Result(
            output=self._add(value._read()),
            number=self._number(value),
            requires_grad=value.requires_grad,
            cls=type(value),
        )

    def _check_holds_no_tensor(self, value: Any) -> None:
        if any(value is each for each in self.trace.modules):
            return  # What a module was assigned is kept.
        for name, each in getattr(value, "__dict__", {}).items():
            if isinstance(each, Tensor) and isinstance(each._cell.array, Tracer):
                raise errors.CompileError(
                    f"the compiled function returns an object of class {type(value).__name__}, "
                    f"whose attribute {name!r} is a tensor that would keep no value. Return "
                    "tensors in tuples, lists, dictionaries or named tuples; or tell JAX what the "
                    "class holds, as jax.tree_util.register_dataclass does"
                )

    def _number(self, value: Tensor) -> int | None:
        """Which output of the program's node ``value`` is to be."""
        node = value.grad_fn
        if node is None or node.spent:
            return None if node is None else SPENT
        self.roots.append(((node, value.output_nr), value._read()))
        return len(self.roots) - 1

    def _trace_backward(self) -> None:
        """Go on with the trace: from the results that require grad back to where they come from."""
        trace = self.trace
        written = _by_identity(trace.values), _by_identity(trace.grads)
        try:
            arrivals = trace_backward(self.roots, trace.first_sequence, trace.histories)
            if written != (_by_identity(trace.values), _by_identity(trace.grads)):
                raise errors.CompileError(
                    "a backward hook or a custom Function inside a compiled function writes to a "
                    "tensor while its gradient is computed, but backward() is called outside; "
                    "compile the whole step, backward() included"
                )
        except errors.VALUE_ERRORS as error:
            self.refusal = errors.explain(error)
        except Exception as error:  # noqa: BLE001 (raised when the gradient is asked for)
            self.refusal = error
        else:
            self.arrivals = [each for each in arrivals if self._is_known(each.tensor)]
            for each in self.arrivals:
                self._add(each.gradient)

    def _is_known(self, tensor: Tensor) -> bool:
        """Whether ``tensor`` was there before the function, or is returned by it."""
        made = isinstance(tensor._cell.array, Tracer)
        known = (*self.stand_ins, *self.returned) if made else ()
        return not made or any(tensor is each for each in known)

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
                self.slots.append((GradSlot(tensor), None, None))
            elif isinstance(grad._cell.array, Tracer) and not isinstance(
                tensor._cell.array, Tracer
            ):
                output = self._add(grad._read())
                self.slots.append((GradSlot(tensor), output, self._number(grad)))
        for i in self.with_grad:
            grad = self.stand_ins[i]._grad
            if i not in self.argument_grads and grad is not None and grad._cell.version:
                self.argument_grads[i] = self._add(grad._read())
        self._collect_slots()
        self._collect_flags()

    def _collect_flags(self) -> None:
        for i in self.inputs:
            stand_in, leaf = self.stand_ins[i], self.leaves[i]
            if stand_in.grad_fn is None and stand_in.requires_grad is not leaf.requires_grad:
                self.flags.append((i, stand_in.requires_grad))
        self.flags += [
            (tensor, tensor._requires_grad)
            for tensor in self.trace.flags
            if tensor._grad_fn is None
        ]

    def _collect_moved(self) -> None:
        """Find the tensors from outside whose history goes on inside, after a write in place."""
        for i in self.inputs:
            stand_in = self.stand_ins[i]
            if stand_in.grad_fn is not None:
                self.moved.append((i, self._number(stand_in)))
        for tensor, (node, _, _) in self.trace.histories.items():
            own = tensor._view is None or tensor._view.base is None
            if own and tensor._grad_fn is not None and tensor._grad_fn is not node:
                self.moved.append((tensor, self._number(tensor)))

    def _collect_slots(self) -> None:
        side_effects = []
        for snapshot in trace_snapshots(self.trace):
            places = snapshot.changed()
            if snapshot.module in self.trace.switched and guard.TRAINING in places:
                # It was entered in the mode that it had outside, which counts.
                places.remove(guard.TRAINING)
            # A hook that removes itself, or adds others, belongs to the calls until then only.
            places = [each for each in places if not guard.is_of_hooks(snapshot.module, each)]
            for place in places:
                value = guard.value_at(snapshot.module, place)
                if isinstance(value, Tensor):
                    slot = AttributeSlot(snapshot.module, place)
                    self.slots.append((slot, self._add(value._read()), self._number(value)))
                    self.slot_before.append((slot, snapshot.values.get(place)))
                else:
                    side_effects.append(f"{type(snapshot.module).__name__}.{place[1]}")
            snapshot.ignore(places)
        side_effects += self.trace.outside.ignore_changed()
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
        for slot, before in self.slot_before:
            slot.set(before)
        for snapshot in trace_snapshots(self.trace):
            for place in snapshot.changed():
                value = guard.value_at(snapshot.module, place)
                if isinstance(value, Tensor) and isinstance(value._cell.array, Tracer):
                    guard.set_at(snapshot.module, place, snapshot.values.get(place))
        for tensor, history in self.trace.histories.items():
            tensor._grad_fn, tensor._output_nr, tensor._requires_grad = history
        for tensor, flag in self.trace.flags.items():
            tensor._requires_grad = flag


def _states_of_dice() -> dict[str, Any]:
    """The states of the random numbers that are not tensors'."""
    return {
        "random": random.getstate(),
        "numpy.random": pickle.dumps(np.random.get_state(legacy=False)),  # noqa: NPY002 (the user's)
    }


def _warn_of_dice(before: dict[str, Any]) -> None:
    """Warn if something was drawn since then: the traced program has it as a constant."""
    after = _states_of_dice()
    for name, state in before.items():
        if after[name] != state:
            warnings.warn(
                f"the compiled function draws from {name} while it is traced, and will find the "
                "same numbers at every call. Draw with flambeau, as in flambeau.rand(()) < 0.5, or "
                "outside, and pass the result as a tensor",
                errors.CompileWarning,
                stacklevel=2,
            )


def _is_object(value: Any) -> bool:
    return not isinstance(value, Tensor | int | float | complex | str | bytes | None)


def _by_identity(values: dict[Any, Any]) -> dict[Any, int]:
    return {key: id(value) for key, value in values.items()}


class _ModuleWatchingTrace(Trace):
    """A trace that takes a snapshot of each module on entry and of each tensor's history."""

    def __init__(self, first_sequence: int) -> None:
        super().__init__(first_sequence)
        self.snapshots: dict[int, ModuleSnapshot] = {}
        self.surroundings = Surroundings()
        self.outside = OutsideSnapshot()
        self.histories: dict[Tensor, tuple[Any, int, bool]] = {}

    def enter(self, module: Any, anew: bool = False) -> None:
        """Note that ``module`` was called, or with ``anew`` that it has changed for good."""
        # Several handles on a module have one dictionary.
        key = id(vars(module))
        if anew or key not in self.snapshots:
            snapshot = self.snapshots[key] = ModuleSnapshot(module)
            if module in self.switched:
                # The function has chosen the mode itself.
                snapshot.ignore([guard.TRAINING])
            self.surroundings.enter(module)
            self.outside.update(self.surroundings)
            for registry in vars(module).values():
                if getattr(type(registry), "announces_changes", False):
                    for hook in registry.values():
                        self.surround(hook)

    def surround(self, function: Any, named: dict[str, Any] | None = None) -> None:
        """Watch what ``function`` finds outside itself."""
        self.surroundings.explore(function, named)
        self.outside.update(self.surroundings)

    def note(self, tensor: Any) -> None:
        """Note that ``tensor`` took part."""
        if tensor not in self.tensors and self.is_outside(tensor):
            tensor._follow_base()
            super().note(tensor)
            self.histories[tensor] = (tensor._grad_fn, tensor._output_nr, tensor._requires_grad)


def trace_snapshots(trace: Any) -> list[ModuleSnapshot]:
    """The snapshots of the modules that a trace entered."""
    return list(trace.snapshots.values())


def slots_by_cell(recording: Recording) -> dict[Cell, Slot]:
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
