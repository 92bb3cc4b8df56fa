"""One trace of a function: its reads, writes and results."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax.core import Tracer

from flambeau.compile import errors, settings
from flambeau.compile.answers import Answer, Telling
from flambeau.compile.guarding import arguments, sharing
from flambeau.compile.guarding.contents import is_empty, leaves_in
from flambeau.compile.guarding.numbers import Numbers, TracedNumbers, have_changed
from flambeau.compile.guarding.places import Announced, Outside, Returned, Variable, name_of
from flambeau.compile.guarding.structure import consists_of_attributes
from flambeau.compile.guarding.where import (
    Argument,
    Created,
    Flag,
    Gradient,
    Hook,
    Itself,
    OnTape,
    Where,
)
from flambeau.compile.outputs.keeping import Keeping
from flambeau.compile.outputs.passing import trace_backward
from flambeau.compile.outputs.results import DETACHED, LEAF, Results
from flambeau.compile.reading.caches import Caches
from flambeau.compile.reading.leftovers import Leftovers
from flambeau.compile.reading.members import notice_attributes, stop_noticing_attributes
from flambeau.compile.reading.printing import put_aside
from flambeau.compile.reading.reaching import reaches_trace
from flambeau.compile.reading.watching import WatchingTrace
from flambeau.compile.source import Page
from flambeau.core.operators.number import Number
from flambeau.core.programs import finishing
from flambeau.core.support import tracebacks, world
from flambeau.core.support.identity import MISSING
from flambeau.core.support.modes import modes
from flambeau.core.tape import checks
from flambeau.core.tape import nodes as tape
from flambeau.core.values.before import CHANGEABLE
from flambeau.core.values.cell import Cell
from flambeau.core.values.pytree import OWN_PARTS
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import Handle


class Recording(Results):
    """One trace of a function: its reads, writes and results.

    Args:
        function: The user's function.
        leaves: The leaves of the arguments, and their gradients.
        structure: The structure of the arguments.
        answers: The answers to questions about tensors' values; see `answers`.
        numbers: The numbers that may become inputs.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        leaves: list[Any],
        structure: Any,
        answers: Sequence[Answer],
        numbers: Numbers,
    ) -> None:
        super().__init__(WatchingTrace(tape.sequence_now(), TracedNumbers(numbers, leaves)))
        self.function, self.caches = function, Caches()
        self.telling = Telling(answers)
        # The positions of the outputs with the values that were asked for, and the answers.
        self.asked: list[int] = []
        self.told: list[Answer] = []
        # The position of the output that must be true; see `compiler.checks`.
        self.condition: int | None = None
        self.structure = structure
        self.leaves = [*leaves]
        #: The inputs of the program that come from the arguments.
        self.operands = sharing.operands_of(self.leaves, numbers)
        #: The page with the program's effects; and the stored and returned values.
        self.page = Page()
        self.keeping: Keeping
        self.failed: bool = False
        # The slots whose values the function changes, with their old values.
        self.changed: list[tuple[Any, Any]] = []
        # The Cells and arguments that are written, each with its output and the number of writes.
        self.writes: dict[Cell | Where, tuple[int, int]] = {}
        # Other changes of tensors: places and their values, as `Effects` reads them.
        self.effects: list[tuple[Where, Any]] = []
        # The slots that each call sets, with their new and old values; modules with their modes.
        self.assigned: list[tuple[Any, Any, Any]] = []
        self.modes: dict[Any, bool] = {}
        # The text that each call prints.
        self.printed: str = ""

    def record(self) -> Any:
        """Trace the function; return the closed jaxpr.

        If the function or the trace fails, all its changes are undone.

        Raises:
            CompileError: The function needs a value that is not known yet.
        """
        arrays = [each.read(self.leaves) for each in self.operands]
        for array in arrays:
            if isinstance(array, jax.Array):
                self.trace.device = Tensor._wrap(array).device
                break
        if modes.trace is not None:
            raise errors.CompileError("a compiled function cannot be traced inside another trace")
        put_settings_back = settings.keep()
        try:
            classes = arguments.classes_in(self.structure)
            self.trace.begin(self.function, self.leaves, classes)
            self.trace.__enter__()
            notice_attributes(self.trace)
            # In a copy of the context, so that changes of context variables are undone.
            closed = contextvars.copy_context().run(jax.make_jaxpr(self._run), *arrays)
            self._leave()
            return closed
        except BaseException as error:
            self.failed = True
            put_aside(self.trace.printed)
            has_drawn = self.trace.chance.has_drawn()
            finishing.again(lambda: self._leave(put_settings_back))
            if (interrupt := errors.interrupt_in(error)) is not None:
                raise interrupt from None
            if isinstance(error, errors.VALUE_ERRORS):
                explained = errors.explain(error, may_try_again=not has_drawn)
                # The explanation has the line of the user's, and the rest is flambeau's and JAX's.
                raise explained from (error if tracebacks.is_full else None)
            raise

    def _leave(self, put_settings_back: Callable[[], None] | None = None) -> None:
        """End the trace. After an interrupt it may be called again.

        Args:
            put_settings_back: Restores the settings, if the trace has failed.
        """
        if put_settings_back is not None:
            self.trace.reset()
            put_settings_back()
            self.caches.put_back()
        self.trace.__exit__()
        world.tracing.discard(self.trace)
        stop_noticing_attributes(self.trace)
        self.trace.reads_outside.finish()
        self._restore()

    def _run(self, *tracers: Any) -> list[Any]:
        self.leftovers: Leftovers = Leftovers(self.caches)
        stand_ins = self._make_stand_ins(tracers)
        args, kwargs = arguments.unflatten(self.structure, stand_ins)
        before = settings.now()
        with self.trace.noting(), self.telling:
            returned = self.function(*args, **kwargs)
        self.printed, self.trace.printed = "".join(self.trace.printed or ()), None
        if self.trace.refused is not None:
            raise errors.explain(self.trace.refused)
        if self.telling.asked and self.trace.chance.has_drawn():
            raise errors.CompileError(
                "the compiled function asks for values of tensors, and draws numbers that would "
                "be the same at every call"
            )
        self.trace.refuse_chance()
        if self.trace.numbers.has_candidates() and self.trace.reads_outside.tells_stand_ins:
            raise errors.NumbersMatterError
        self.caches.refuse_filled()
        self.trace.note_results(self.caches.read())
        settings.refuse_changes(before)
        self.trace.warn()
        self._refuse_changed_arguments(args, kwargs, stand_ins)
        self.trace.restore_replaced()
        self._refuse_exchanges()
        self._collect_slots()
        self._collect_kept(returned, stand_ins)
        self._collect_writes()
        self._collect_moved()
        self._collect_hooks()
        self.asked = [self.add(each) for each in self.telling.asked]
        self.told = self.telling.told
        self._collect_conditions()
        self.passing.count = len(self.outputs)
        if self.passing.roots:
            self._trace_backward()
        self.trace.numbers.refuse_read()
        return self.outputs

    def _collect_conditions(self) -> None:
        conditions = self.trace.conditions
        if checks.nan:
            conditions.add(lambda: checks.has_no_nan(self.outputs))
        if conditions:
            self.condition = self.add(conditions.hold())

    def _make_stand_ins(self, tracers: tuple[Any, ...]) -> list[Any]:
        stand_ins = sharing.stand_ins(self.leaves, self.operands, tracers, self.trace.numbers)
        for i, (stand_in, leaf) in enumerate(zip(stand_ins, self.leaves, strict=True)):
            if arguments.is_input(leaf):
                self.own.setdefault(stand_in, i)
                self.given.setdefault(stand_in, Handle.of(stand_in))
                if stand_in is not leaf:
                    self.trace.facts.given.setdefault(stand_in, (i, leaf))
        if self.trace.devices is not None:
            self.trace.devices.give(stand_ins, self.leaves)
        return stand_ins

    def _refuse_changed_arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], stand_ins: list[Any]
    ) -> None:
        """Fail if the function has changed a container among its arguments, which is a copy."""
        leaves, structure = arguments.flatten(args, kwargs)
        same = structure == self.structure
        if not same or any(a is not b for a, b in zip(leaves, stand_ins, strict=False)):
            raise errors.SideEffectError(
                "the compiled function changes a list, a dictionary or another container among its "
                "arguments, and a program would leave the caller's as it was. Let the function "
                "find the container outside itself, as a global or an attribute, or return what it "
                "puts there"
            )

    def _collect_kept(self, returned: Any, stand_ins: list[Any]) -> None:
        """Write the Python code that creates the values which the function stores and returns."""
        reads = self.trace.reads_outside
        self.keeping = Keeping(
            self.keep, reads.knows, not reads.left_out, stand_ins, self.trace.numbers, self.page
        )
        for slot, value, before in self.assigned:
            self.keeping.store(slot, value, before)
        for slot, value in (*self.trace.facts.new_attributes(), *self._sparse_gradients()):
            self.keeping.store(slot, value, value)
        self.keeping.give(returned)
        holders = {*map(id, self.trace.modules)}
        holders |= {id(slot.root) for slot, *_ in self.assigned if isinstance(slot, Outside)}
        self.trace.reads_outside.own.settle(self._reaches_trace, holders)

    def _trace_backward(self) -> None:
        """Continue the trace backwards from the results that require grad."""
        trace = self.trace
        written = self._written()
        trace.chance.replace_again()
        try:
            with trace.noting():
                arrivals = trace_backward(
                    self.passing.roots, trace.first_sequence, self.tensors_before()
                )
            if trace.refused is not None:
                raise errors.explain(trace.refused)
            trace.refuse_chance()
            trace.restore_replaced()
            trace.read_unchanged({name_of(slot) for slot, _ in self.changed})
            if changed := self._changed_by_backward(written):
                raise errors.CompileError(
                    "a backward hook or a custom Function inside a compiled function changes "
                    f"{', '.join(dict.fromkeys(changed))} while its gradient is computed, but "
                    "backward() is called outside; compile the whole step, backward() included"
                )
        except errors.VALUE_ERRORS as error:
            self.passing.refusal = errors.explain(error)
        except Exception as error:  # noqa: BLE001 (raised when the gradient is asked for)
            self.passing.refusal = errors.without_frames(error)
        else:
            arrivals = [each for each in arrivals if self._is_known(each.tensor)]
            self.passing.arrivals = arrivals
            for each in arrivals:
                self.add(each.gradient)
                if each.is_leaf and self._is_detached(each.tensor):
                    self.passing.new_leaves[each.tensor] = self.keep(each.tensor)
        finally:
            trace.chance.restore()
            trace.chance.put_back()

    def _written(self) -> tuple[Any, ...]:
        trace = self.trace
        arrays = [[(key, id(e)) for key, e in d.items()] for d in (trace.values, trace.grads)]
        return arrays, *map(len, (trace.flags, trace.exchanged, trace.switched))

    def _changed_by_backward(self, written: tuple[Any, ...]) -> list[str]:
        """Watch the values that backward has read; restore and name those that it has set."""
        self.trace.settle()
        changed = [
            (slot, snapshot.before(slot))
            for snapshot in self._snapshots()
            for slot in self._changed_in(snapshot)
        ]
        changed += [(slot, value) for slot, value, _ in self.assigned if slot.get() is not value]
        for slot, before in changed:
            slot.set(before)
        names = [*(str(slot) for slot, _ in changed), *self.trace.changed_containers()]
        self.trace.restore_containers()
        return names or ([] if written == self._written() else ["a tensor"])

    def _snapshots(self) -> list[Any]:
        return [self.trace.outside, self.trace.members]

    def _changed_in(self, snapshot: Any) -> list[Any]:
        # Each call sets the modes of these modules.
        switched = self.trace.switched
        modes = {Outside(vars(module), "training") for module in switched}
        return [slot for slot in snapshot.changed() if slot not in modes]

    def _is_known(self, tensor: Tensor) -> bool:
        """Whether ``tensor`` existed before the function, or is one of its results."""
        is_old = not isinstance(tensor._cell.array, Tracer)
        return is_old or tensor in self.returned or tensor in self.own

    def _sparse_gradients(self) -> Iterator[tuple[Where, Any]]:
        """The sparse gradients; those of arguments become dense."""
        for tensor, grad in [*self.trace.grads.items()]:
            if grad is None or type(grad) not in OWN_PARTS:
                continue
            if tensor in self.own or not self.trace.is_outside(tensor):
                self.trace.grads[tensor] = grad.to_dense()
            else:
                del self.trace.grads[tensor]
                yield Gradient(Itself(tensor)), grad

    def _collect_writes(self) -> None:
        trace = self.trace
        for cell, array in trace.values.items():
            self.writes[cell] = self.add(array), trace.writes_to(cell)
        written: set[Cell] = set()
        for stand_in, i in self.own.items():
            cell = self.given[stand_in].cell
            # The trace counts the writes to other Cells.
            if cell.version and cell not in written and trace.is_made_inside(cell):
                written.add(cell)
                self.writes[Argument(i)] = self.add(cell.array), cell.version
        for tensor, grad in trace.grads.items():
            if tensor in self.own:
                if grad is not tensor._grad:
                    result = None if grad is None else self.result(grad)
                    self.effects.append((Gradient(Argument(self.own[tensor])), result))
            elif trace.is_outside(tensor):
                result = None if grad is None else self.result(grad)
                self.effects.append((Gradient(Itself(tensor)), result))
            elif tensor in self.returned:
                self.keep(grad)
                self.effects.append((Gradient(Created(self.returned[tensor])), self.result(grad)))
        self._collect_flags()

    def _refuse_exchanges(self) -> None:
        """Fail if a tensor from outside has got another Cell, view or class for good."""
        exchanged = {tensor: self.trace.tensors[tensor] for tensor in self.trace.exchanged}
        for tensor, before in (self.given | exchanged).items():
            if not before.is_of(tensor):
                raise errors.SideEffectError(
                    "the compiled function gives a tensor from outside other data, another shape "
                    "or another class in place, as an assignment to .data, unsqueeze_() and "
                    "module.double() do; write to its elements, as in x.data.copy_(y), or do it "
                    "outside of the compiled function"
                )

    def is_written(self, stand_in: Tensor) -> bool:
        """Whether the function has written to an argument."""
        return bool(self.given[stand_in].cell.version)

    def _collect_flags(self) -> None:
        for stand_in, i in self.own.items():
            leaf = self.leaves[i]
            differs = stand_in._requires_grad is not leaf.requires_grad
            if differs and stand_in._grad_fn is None and leaf._grad_fn is None:
                self.effects.append((Flag(Argument(i)), stand_in._requires_grad))
        self.effects += [
            (Flag(self.slot_of(tensor) or Itself(tensor)), tensor._requires_grad)
            for tensor in self.trace.flags
            if tensor._grad_fn is None and not self._is_detached(tensor)
        ]

    def _is_detached(self, tensor: Tensor) -> bool:
        """Whether the function has detached ``tensor``."""
        before = self.trace.tensors.get(tensor) or self.given.get(tensor)
        return before is not None and before.grad_fn is not None and tensor._grad_fn is None

    def _collect_moved(self) -> None:
        """Find the tensors from outside whose history continues or ends in the function."""
        for tensor, before in self.tensors_before().items():
            own = tensor._view is None or tensor._view.base is None
            if own and tensor._grad_fn is not before.grad_fn:
                number = self.number(tensor)
                if number is None:
                    number = LEAF if tensor._requires_grad else DETACHED
                self.effects.append((OnTape(self.where_is(tensor)), number))

    def _collect_hooks(self) -> None:
        """Find the hooks that the function registers on tensors from outside."""
        self.effects += self.trace.hooks.new(self.where_is)
        for tensor, i in self.own.items():
            leaf, node = self.leaves[i], tensor._grad_fn
            retains = isinstance(node, arguments.OuterNode) and node.retains(tensor)
            if retains and not leaf.retains_grad:
                self.effects.append((Hook(Argument(i), "retain_grad"), None))

    def moved_arguments(self) -> set[int]:
        """The positions of arguments whose history continues or ends in the function."""
        tensors = [where.of for where, _ in self.effects if isinstance(where, OnTape)]
        return {each.position for each in tensors if isinstance(each, Argument)}

    def _collect_slots(self) -> None:
        """Find the values that the function stores, and the places that they depend on.

        Raises:
            SideEffectError: It changes something that no call of a program can change.
        """
        trace = self.trace
        trace.settle()
        # Each call sets the mode, and the guard compares it as the function has first read it.
        self.modes = {module: module.training for module in trace.switched}
        side_effects = trace.changed_containers()
        counted: list[Any] = []
        for snapshot in self._snapshots():
            slots = self._changed_in(snapshot)
            known = {name_of(slot) for slot, _ in self.changed}
            for slot in [each for each in slots if name_of(each) not in known]:
                before = snapshot.before(slot)
                self.changed.append((slot, before))
                if not self._is_repeated(slot, slot.get(), before):
                    counted += [slot] if have_changed(slot, before, slot.get()) else []
                    line = trace.reads_outside.lines.get(name_of(slot))
                    side_effects.append(f"{slot} ({line})" if line else str(slot))
            for slot in slots:
                trace.ignore(slot)
            snapshot.ignore(slots)
        trace.read_unchanged({name_of(slot) for slot, _ in self.changed})
        if side_effects:
            is_counting = len(counted) == len(side_effects)
            kind = errors.CountingError if is_counting else errors.SideEffectError
            error = kind(
                f"the compiled function changes {', '.join(dict.fromkeys(side_effects))}, and a "
                "program would repeat only the change of its trace. Keep such state in a tensor "
                "(a buffer), or change it outside the compiled function"
            )
            if isinstance(error, errors.CountingError):
                error.slots = counted
            raise error

    def _is_repeated(self, slot: Any, value: Any, before: Any) -> bool:
        """Whether calls can repeat that the function sets a slot; if so, note it."""
        is_settable = isinstance(slot, Variable) or not isinstance(slot, Returned)
        if value is before or value is MISSING or not is_settable:
            return False
        is_followed = self.trace.numbers.follows(slot, value)
        if not (is_followed or self.trace.sets_first(slot)):
            # The old value decides what the function does, so each call must look it up.
            leaves = leaves_in(value)
            holds_tensors = any(isinstance(each, Tensor) for each in leaves)
            is_known = holds_tensors or is_empty(value) or self._reaches_trace(value)
            # Tensors are looked up in tuples only.
            knows = self.trace.reads_outside.knows
            is_object = any(consists_of_attributes(each) and not knows(each) for each in leaves)
            is_other = isinstance(value, Number) or is_object or isinstance(before, CHANGEABLE)
            if is_other or not is_known:
                return False
            self.slot_before.append((slot, before))
        if self.trace.announces(slot):
            slot = Announced(slot.root, slot.key, slot.attributes, slot.label)
        self.assigned.append((slot, value, before))
        return True

    def _reaches_trace(self, value: Any) -> bool:
        return reaches_trace(value, self.trace.reads_outside.knows)

    def _restore(self) -> None:
        """Restore the values that the trace replaced, so that no tracer remains.

        If the trace has failed, restore all other assigned values too.
        """
        self.trace.chance.restore()
        for tensor in self.trace.exchanged:
            self.trace.tensors[tensor].put_back(tensor)
        for cell, version in self.trace.versions.items():
            cell.version = version
        for slot, _, before in self.assigned:
            slot.set(before)
        trace = self.trace
        snapshots: list[Any] = [trace.seen, trace.members]
        for snapshot in snapshots:
            for slot in snapshot.changed():
                if self.failed or self._reaches_trace(slot.get()):
                    slot.set(snapshot.before(slot))
        if self.failed:
            for slot, before in self.changed:
                slot.set(before)
        for module, mode in trace.switched.items():
            vars(module)["training"] = mode
        trace.members.drop_tracers()
        trace.hooks.put_back()
        for tensor, handle in self.tensors_before().items():
            handle.put_history_back(tensor)
        for tensor, flag in self.trace.flags.items():
            tensor._requires_grad = flag
