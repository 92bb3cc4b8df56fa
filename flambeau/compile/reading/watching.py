"""A trace that notes the values outside of the function on which its program depends."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from flambeau.compile import errors
from flambeau.compile.devices import Devices
from flambeau.compile.guarding.arguments import have_many_places
from flambeau.compile.guarding.asking import Facts, HookSnapshot, attribute
from flambeau.compile.guarding.contents import leaves_in
from flambeau.compile.guarding.freezing import OF_MEMORY, members_of
from flambeau.compile.guarding.guard import OutsideSnapshot
from flambeau.compile.guarding.numbers import TracedNumbers
from flambeau.compile.guarding.places import Outside, Returned, name_of
from flambeau.compile.ownership import is_module, is_own
from flambeau.compile.reading import interception
from flambeau.compile.reading.chance import Chance
from flambeau.compile.reading.discovery import MANY
from flambeau.compile.reading.members import MemberSnapshot
from flambeau.compile.reading.printing import keep_printed, stop_keeping_printed
from flambeau.compile.reading.reads import Reads, content_of, hooks_of
from flambeau.compile.recomputation import Progress
from flambeau.core.operators.number import Number
from flambeau.core.support import settings, world
from flambeau.core.support.identity import Same
from flambeau.core.values import tensor_class
from flambeau.core.values.before import CHANGEABLE
from flambeau.core.values.cell import Cell
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import Trace, TracedValueError


class WatchingTrace(Trace):
    """A trace that notes reads outside of the function, with the value of the first read."""

    def __init__(self, first_sequence: int, numbers: TracedNumbers) -> None:
        super().__init__(first_sequence)
        self.numbers = numbers
        numbers.trace = self
        #: The places of numbers on whose values the program does not depend, once it is there.
        self.free_numbers: list[Outside] = []
        #: The entries of optimizers' dictionaries that the function reads, each with its value and
        #: what compares it; and those that it sets.
        self.entries_read: dict[Outside, tuple[Any, Any]] = {}
        self._entries_set: set[Outside] = set()
        # The places of numbers that the function sets.
        self._numbers_set: set[Outside] = set()
        self.members = MemberSnapshot(self.before)
        self.chance = Chance()
        self.chance.follows_math = numbers.has_candidates()
        self.reads_outside = Reads(
            self._prepare, self.members.know, self.members.know_attributes, self.before, self.chance
        )
        # The values at their first read; and the values that the guard compares.
        self.seen = OutsideSnapshot()
        self.outside = OutsideSnapshot()
        # The containers of the places that were read, with one of these places.
        self._containers: dict[int, tuple[Any, Outside]] = {}
        self.facts = Facts()
        self.hooks = HookSnapshot(self.before)
        # Modules whose training mode the function has set, with the mode before; and those of them
        # whose mode it had not read by then, so that any will do.
        self.switched: dict[Any, bool] = {}
        self.free_modes: set[Any] = set()
        self._settled: set[Outside] = set()
        #: The texts that the function has printed; ``None`` once it has returned.
        self.printed: list[str] | None = []
        # The names in dictionaries that the function itself sets, by the ids of these.
        self._replaced: dict[int, set[str]] = {}
        self.watch(Tensor, tensor_class.replaced)
        #: Where tensors lie, if this machine has several devices.
        self.devices: Devices | None = Devices() if have_many_places() else None

    def arguments(self) -> list[Any]:
        return [leaf for _, leaf in self.facts.given.values()]

    def place(self) -> Any:
        found = None if self.devices is None else self.devices.of_program()
        return super().place() if found is None else found

    def place_of(self, cell: Cell) -> Any:
        found = None if self.devices is None else self.devices.of(cell)
        return self.place() if found is None else found

    def moved(self, source: Any, target: Any) -> Any:
        return None if self.devices is None else self.devices.moved(source, target)

    def begin(self, function: Any, leaves: list[Any], classes: Iterable[type]) -> None:
        """Discover the objects that a function can reach before it runs.

        Args:
            function: The function.
            leaves: The leaves of its arguments.
            classes: The classes of the containers among the arguments.
        """
        # The function may change a setting before it reads it.
        self.seen.update(map(Returned, settings.known))
        for each in (function, *leaves, *classes):
            self.reads_outside.discover(each)

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """A block in which reads outside are noted."""
        reads = self.reads_outside
        with reads.running():
            interception.run_imports(reads)
            keep_printed(reads)
            reads.paused = False
            world.tracing.add(self)
            try:
                yield
            finally:
                world.tracing.discard(self)
                reads.paused = True
                interception.stop_running_imports(reads)
                stop_keeping_printed(reads)

    def unwatched(self) -> contextlib.AbstractContextManager[None]:
        return self.reads_outside.unwatched()

    def refuse_chance(self) -> None:
        """Fail if the function has used a value that differs from call to call.

        Raises:
            CompileError: It has.
        """
        self.chance.meet_names(self.reads_outside.names)
        self.chance.refuse()

    def warn(self) -> None:
        """Warn of changes that the program does not follow."""
        if self.reads_outside.looks_into_script:
            errors.warn(
                "the compiled function looks into globals() by names that it computes, so its "
                "program depends on each global of the script, except tensors: one that changes "
                "between calls makes a program for each call. Put the values that the function "
                "looks up into a dictionary of its own"
            )
        if self.reads_outside.left_out:
            names = ", ".join(self.reads_outside.left_out)
            errors.warn(
                f"the compiled function finds more than {MANY} objects in {names}, and does not "
                "see later changes of attributes of those beyond that number. Pass the objects "
                "that it uses as arguments, or keep changing values in tensors"
            )

    def enter(self, module: Any, renewed: bool = False) -> None:
        """Note that ``module`` was called or, if ``renewed``, that it has changed for good."""
        with self.paused():
            if renewed:
                self.seen.renew(module)
                self.reads_outside.renew(module)
            elif self._is_made_inside(module):
                return
            else:
                self.reads_outside.discover(module)
            self.reads_outside.enter(module)

    def _is_made_inside(self, module: Any) -> bool:
        """Whether the function has made a module, as its members tell."""
        tables = [vars(module)[name] for name in ("_parameters", "_buffers", "_modules")]
        members = [each for table in tables for each in table.values()]
        is_own = any(isinstance(e, Tensor) and not self.is_outside(e) for e in members)
        return is_own or any(map(self.members.is_new, tables))

    def switch(self, module: Any) -> None:
        """Note that the function is about to set the training mode of ``module``."""
        if module not in self.switched:
            self.switched[module] = vars(module)["training"]
            if not self.reads_outside.has_read(module, "training"):
                self.free_modes.add(module)

    def before_pull(self, run: Any, node: Any, cotangents: list[Any]) -> None:
        """Note the cotangents of the next node, for checkpointed parts."""
        super().before_pull(run, node, cotangents)
        Progress.of(run).cotangents = cotangents

    def after_pull(self, run: Any, gradients: Any) -> Any:
        """Note the gradients of a node, for checkpointed parts."""
        return Progress.of(run).pulled(gradients)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        reads = self.reads_outside
        before, reads.paused = reads.paused, True
        try:
            yield
        finally:
            reads.paused = before

    def _prepare(self, place: Outside) -> None:
        """Note the value of ``place`` before it can change; a clock or an iterator is replaced."""
        other = self.numbers.replaced_at(place)
        if other is not None and other != place:
            # Another path to a number that has a stand-in.
            self.seen.take_as(place, other)
            self.numbers.replaced[place] = self.numbers.replaced[other]
            return
        if not self.seen.add(place, self.members.found):
            return
        value = self.seen.values[place]
        number = self.numbers.place_outside(place, value)
        # What is set before it is read may have been read on another thread.
        is_seen = not (self.chance.is_over or self.reads_outside.is_writing)
        if number is not None and is_seen:
            self._replace_number(place, value, number)
            return
        self._note_containers(value, place)
        if isinstance(place, Returned) or place.attributes[-1:] == ("__self__",):
            return  # The place cannot be set.
        if place.attributes and isinstance(place.holder().get(), type):
            # A stand-in in a class would not be bound as the function is.
            self.chance.meet(value)
        else:
            self.chance.look_at(place, value)

    def _replace_number(self, place: Outside, value: Any, number: int) -> None:
        """Put a stand-in in the place of a number, until the trace ends."""
        stand_in = self.numbers.number(number)
        self.numbers.replace(place, number)
        self.before.originals[id(stand_in)] = value
        self.chance.replace(place, value, stand_in)

    def read_entry(
        self, table: Any, key: Any, watch: tuple[int, Any], in_place: bool = False
    ) -> Any:
        place = Outside(table, key)
        value = place.get()
        if place in self._entries_set:
            return value
        self.entries_read.setdefault(place, (value, watch))
        number = self.numbers.place_outside(place, value)
        if number is None:
            return value
        if in_place:
            self._replace_number(place, value, number)
            return place.get()
        self.numbers.replace(place, number)
        return self.numbers.number(number)

    def set_entry(self, table: Any, key: Any) -> None:
        self.touch(table)
        self._entries_set.add(Outside(table, key))

    def sets_first(self, slot: Any) -> bool:
        """Whether the function has set a slot before anything has read it."""
        is_entry = slot in self._entries_set and slot not in self.entries_read
        # Another thread may have read it.
        is_entry = is_entry and not self.reads_outside.tells_stand_ins
        return is_entry or self.reads_outside.sets_first(slot)

    def restore_replaced(self) -> None:
        """Put the values back in whose place there are stand-ins, when the traced code has run."""
        gone = [
            slot for slot, stand_in in self.chance.overwritten() if isinstance(stand_in, Number)
        ]
        self._numbers_set.update([*gone, *(self._entries_set & self.numbers.replaced.keys())])
        self.chance.restore()

    def read_unchanged(self, changed: set[Any]) -> None:
        """Note a read of each number that the function has set to what it was.

        No snapshot tells such a number from one left alone, so it must be the same at each call.

        Args:
            changed: The `name_of` the slots whose values have changed.
        """
        for place in self._numbers_set:
            if name_of(place) not in changed:
                self.numbers.read(self.numbers.replaced[place])

    def settle_numbers(self, constants: set[int]) -> None:
        """Find the places of numbers on whose values the program does not depend.

        Args:
            constants: The identities of the constants of the jaxpr.
        """
        self.free_numbers = self.numbers.settle(constants)
        for place in self.free_numbers:
            if place in self.entries_read:
                self.watched.pop(self.entries_read[place][1], None)

    def _note_containers(self, value: Any, place: Outside) -> None:
        """Remember the content of the containers in ``value``, which is at ``place``."""
        waiting = [value]
        for each in waiting:
            if is_own(type(each)) or id(each) in self._containers:
                continue
            if isinstance(each, CHANGEABLE):
                self._containers[id(each)] = each, place
                self.before.note(each)
            elif isinstance(each, OF_MEMORY):
                raise TracedValueError(
                    f"the compiled function reads {place}, an object of class "
                    f"{type(each).__name__}, whose memory no program follows; copy it to a tensor "
                    "outside"
                )
            members = [*members_of(each)]
            self.chance.refuse_in(members)
            waiting += members

    def changed_containers(self) -> list[str]:
        """The places of the containers from outside whose content the function has changed."""
        return [
            str(place) for each, place in self._containers.values() if self.before.is_changed(each)
        ]

    def restore_containers(self) -> None:
        """Give the containers from outside their content back."""
        for each, _ in self._containers.values():
            self.before.put_back(each)

    def settle(self) -> None:
        """Choose the places that the guard compares, after the function or its backward has run."""
        self.reads_outside.settle()
        members = {
            place: module
            for place, module in self.reads_outside.members.items()
            if place not in self._settled
        }
        places = [place for place in self.reads_outside.places if place not in self._settled]
        self._settled.update(members, places)
        elsewhere = self.reads_outside.elsewhere
        free = {
            Outside(vars(module), "training")
            for module in self.free_modes
            if (id(module), "training") not in elsewhere
        }
        self.outside.take([place for place in places if place not in free], self.seen)
        self.outside.announced.update(
            place for place, module in members.items() if _announces(place, module)
        )
        for key, name in self.reads_outside.tables:
            self._watch_table(key, name)
        for module, hooks in self.reads_outside.hooks.values():
            self.watched[id(module), "hooks"] = module, functools.partial(hooks_of, module), hooks
        for module, kind in self.reads_outside.modules:
            self.watched[id(module), "__class__"] = module, _kind_of(module), kind
        # Members of Tensor that the function itself replaces are expected from now on.
        self.watched[id(Tensor), None] = Tensor, tensor_class.replaced, tensor_class.replaced()
        self.outside.states = self.reads_outside.named_states()

    def ignore(self, slot: Any) -> None:
        """Stop watching ``slot``."""
        self.outside.ignore([slot])
        if slot.key is not None:
            # The slot may be an entry of a dictionary that announces changes.
            self.watched.pop((id(slot.root), slot.key), None)
            self._replaced.setdefault(id(slot.root), set()).add(slot.key)
            for key, name in self.reads_outside.tables:
                if key == id(slot.root):
                    self._watch_table(key, name)

    def announces(self, slot: Any) -> bool:
        """Whether programs compare ``slot``, an attribute of a module, only after announcements."""
        holder = self.members.holders.get(id(slot.root))
        return holder is not None and is_module(holder) and _announces(slot, holder)

    def _watch_table(self, key: int, name: str) -> None:
        """Watch the content of a module's table, except members that the function sets."""
        module, content = self.reads_outside.tables[key, name]
        left_out = self._replaced.get(key, set())
        if left_out:
            content = [each for each in content if each[0] not in left_out]
        self.watched[id(module), name] = module, _reader_of(module, name, left_out), content

    def note_setting(self, read: Callable[[], Any]) -> None:
        with self.paused():
            self.reads_outside.note_setting(read)

    def note_results(self, results: Iterable[tuple[str, Callable[[], Any]]]) -> None:
        """Note functions, by names, that must return the same at each call."""
        for label, read in results:
            self.reads_outside.note_result(label, read)

    def watch(self, owner: Any, snapshot: Callable[[], Any], name: Any = None) -> bool:
        """See `Trace.watch`; hooks for all modules come from outside."""
        is_new = super().watch(owner, snapshot, name)
        if is_new and hasattr(type(owner), "announces_changes"):
            with self.paused():
                for registry in snapshot():
                    for _, hook in registry:
                        self.reads_outside.discover(hook)
        return is_new

    def note(self, tensor: Any) -> None:
        """Note that the function uses ``tensor``."""
        if self.devices is not None:
            self.devices.use(tensor)
        if tensor not in self.tensors and self.is_outside(tensor):
            tensor._follow_base()
            super().note(tensor)
            with self.paused():
                self.reads_outside.discover(tensor)

    def touch(self, table: Any) -> None:
        self.members.touch(table)

    def touch_hooks(self, table: Any) -> None:
        self.before.note(table)

    def touch_attributes(self, tensor: Tensor) -> None:
        """Remember the attributes of ``tensor`` before the user sets one."""
        if self.is_outside(tensor):
            self.members.touch_attributes(tensor)

    def show_attributes(self, tensor: Any) -> None:
        """See `Trace.show_attributes`; the stand-in of an argument gets the argument's."""
        if tensor in self.facts.given:
            self.facts.show(tensor)
        elif not self.reads_outside.paused and self.is_outside(tensor):
            with self.paused():
                self.reads_outside.note_attributes(tensor)

    def change_class(self, cls: type, name: str) -> None:
        """Note that the function itself replaces a member of a class of tensors."""
        with self.paused():
            self.reads_outside.note_of_class(cls, name)

    def ask(self, tensor: Tensor, question: Callable[..., Any], *args: Any) -> Any:
        if tensor in self.facts.given:
            return self.facts.ask(tensor, question, *args)
        if question is attribute and not self.reads_outside.paused and self.is_outside(tensor):
            with self.paused():
                self.reads_outside.note_absent(tensor, *args)
        return question(tensor, *args)

    def add_hook(self, tensor: Tensor, method: str, hooks: Any) -> None:
        node = tensor._grad_fn
        is_inside = node is not None and node.sequence >= self.first_sequence
        if not is_inside and (tensor in self.facts.given or self.is_outside(tensor)):
            self.note(tensor)
            self.hooks.note(tensor, method, hooks)

    def refuse_version(self, tensor: Tensor) -> None:
        super().refuse_version(
            self.facts.given[tensor][1] if tensor in self.facts.given else tensor
        )

    def reset(self) -> None:
        """Restore containers, attributes, hooks and generators."""
        self.chance.restore()
        self.before.put_all_back()
        self.chance.put_back()

    def tensors_elsewhere(self) -> set[int]:
        """The ids of the tensors in watched places, which are the same at each call."""
        values = [self.outside.values[place] for place in self.outside.entries]
        values += [value.value for _, _, value in self.watched.values() if isinstance(value, Same)]
        for (_, name), (module, _) in self.reads_outside.tables.items():
            content = self.watched[id(module), name][2]
            values += [each.value for _, each in content] if isinstance(content, list) else []
        leaves = leaves_in(values, left_out=self.members.tables)
        return {id(leaf) for leaf in leaves if isinstance(leaf, Tensor)}


def _kind_of(module: Any) -> Callable[[], type]:
    return lambda: type(module)


def _reader_of(module: Any, name: str, left_out: Container[str] = ()) -> Callable[[], Any]:
    return lambda: content_of(vars(module).get(name), left_out)


def _announces(place: Outside, module: Any) -> bool:
    """Whether each change of an attribute or a member of a module is announced.

    Python sets the plain attributes of the user's modules in other ways too.
    """
    is_plain = place.root is vars(module)
    return not is_plain or place.key == "training" or is_own(type(module))
