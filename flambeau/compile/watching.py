"""A trace that notes the values outside of the function on which its program depends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

from flambeau.compile import errors, guard, interception
from flambeau.compile.arguments import have_many_places
from flambeau.compile.asking import Facts, HookSnapshot, attribute
from flambeau.compile.chance import Chance
from flambeau.compile.containers import Log, leaves_in
from flambeau.compile.contents import KINDS
from flambeau.compile.devices import Devices
from flambeau.compile.discovery import MANY
from flambeau.compile.guard import ModuleSnapshot, OutsideSnapshot
from flambeau.compile.members import MemberSnapshot
from flambeau.compile.ownership import is_own
from flambeau.compile.places import Member, Outside, Returned
from flambeau.compile.reads import Reads, content_of
from flambeau.compile.recomputation import Progress
from flambeau.core import settings, tensor_class, world
from flambeau.core.cell import Cell
from flambeau.core.identity import Same
from flambeau.core.tensor import Tensor
from flambeau.core.trace import Trace


class WatchingTrace(Trace):
    """A trace that notes reads outside of the function, with the value of the first read.

    It takes a snapshot of each module that is called.
    """

    def __init__(self, first_sequence: int) -> None:
        super().__init__(first_sequence)
        self.snapshots: dict[int, ModuleSnapshot] = {}
        self.members = MemberSnapshot(self.before)
        self.chance = Chance()
        self.reads_outside = Reads(self._prepare, self.members.know, self.before, self.chance)
        # The values at their first read; and the values that the guard compares.
        self.seen = OutsideSnapshot()
        self.outside = OutsideSnapshot()
        self.log = Log(self.before, self.chance.stand_in)
        self.facts = Facts()
        self.hooks = HookSnapshot(self.before)
        # Modules whose training mode the function has set, with the mode before; and those of them
        # whose mode it had not read by then, so that any will do.
        self.switched: dict[Any, bool] = {}
        self.free_modes: set[Any] = set()
        self._settled: set[Outside] = set()
        self.watch(Tensor, tensor_class.replaced)
        #: Where tensors lie, if this machine has several devices.
        self.devices: Devices | None = Devices() if have_many_places() else None

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
            reads.paused = False
            world.tracing.add(self)
            try:
                yield
            finally:
                world.tracing.discard(self)
                reads.paused = True
                interception.stop_running_imports(reads)

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
        # Several handles on a module share one dictionary.
        key = id(vars(module))
        if renewed or key not in self.snapshots:
            with self.paused():
                if renewed:
                    self.seen.renew(module)
                self.log.restore()
                snapshot = self.snapshots[key] = ModuleSnapshot(module)
                for place, holder in self.reads_outside.members.items():
                    if holder is module and place in self.seen.values:
                        name = place.attributes[0] if place.attributes else place.key
                        snapshot.amend(name, self.seen.values[place])
                self.log.replace_again()
                if module in self.free_modes:
                    snapshot.ignore([Member(module, guard.TRAINING)])
                self.reads_outside.enter(module)

    def switch(self, module: Any) -> None:
        """Note that the function is about to set the training mode of ``module``."""
        if module not in self.switched:
            self.switched[module] = vars(module)["training"]
            if not self._is_entered(module) and not self.reads_outside.has_read(module, "training"):
                self.free_modes.add(module)

    def before_pull(self, run: Any, node: Any, cotangents: list[Any]) -> None:
        """Note the cotangents of the next node, for checkpointed parts."""
        super().before_pull(run, node, cotangents)
        Progress.of(run).cotangents = cotangents

    def after_pull(self, run: Any, gradients: Any) -> Any:
        """Note the gradients of a node, for checkpointed parts."""
        return Progress.of(run).pulled(gradients)

    def is_of_entered(self, place: Outside) -> bool:
        """Whether ``place`` is an attribute of a module that has a snapshot of its own.

        The value there may be a tensor that `functional_call` lends the module.
        """
        module = self.reads_outside.members.get(place)
        return module is not None and self._is_entered(module)

    def _is_entered(self, module: Any) -> bool:
        return id(vars(module)) in self.snapshots

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        reads = self.reads_outside
        before, reads.paused = reads.paused, True
        try:
            yield
        finally:
            reads.paused = before

    def _prepare(self, place: Outside) -> None:
        """Note the value of ``place`` before it can change, and replace it by a stand-in."""
        if not self.seen.add(place):
            return
        value = self.seen.values[place]
        if isinstance(place, Returned) or place.attributes[-1:] == ("__self__",):
            # The place cannot be set; changes of the value are noted.
            if type(value) in KINDS:
                self.log.watch(value, place)
        elif place in self.reads_outside.members and place.attributes:
            # As a `Member`, as in the snapshot of the module.
            member = Member(place.root, ("", place.attributes[0]))
            self.log.look_at(member, member.get())
        elif place.attributes and isinstance(place.holder().get(), type):
            # A stand-in in a class would not be bound as the function is.
            self.chance.meet(value)
            if type(value) in KINDS:
                self.log.look_at(place, value)
        else:
            self.log.look_at(place, value)

    def settle(self) -> None:
        """Choose the places that the guard compares, after the function or its backward has run."""
        self.reads_outside.settle()
        names = self.reads_outside.names_in_modules()
        for key, snapshot in [*self.snapshots.items()]:
            # A module that was not reached from outside, and changed or has new tensors, was
            # created inside.
            is_new = snapshot.changed() or any(
                isinstance(each, Tensor) and not self.is_outside(each)
                for each in snapshot.values.values()
            )
            if is_new and not self.reads_outside.knows(snapshot.module):
                del self.snapshots[key]
            elif key in names:
                snapshot.restrict(names[key])
        members = {
            place: module
            for place, module in self.reads_outside.members.items()
            if place not in self._settled
        }
        places = [place for place in self.reads_outside.places if place not in self._settled]
        self._settled.update(members, places)
        self.outside.take([place for place in places if place not in members], self.seen)
        modules = {id(module): module for module in members.values()}
        entered = {each for each, module in modules.items() if self._is_entered(module)}
        for place, module in members.items():
            if id(module) not in entered:
                if module not in self.free_modes or place.attributes != ("training",):
                    self.outside.take([place], self.seen)
            elif not place.attributes:
                # Absent: only its name can appear without an announcement.
                self.outside.take([place], self.seen)
            elif place in self.seen.entries and self._can_change_silently(place, module):
                self.outside.members.append(place)
        for (_, name), (module, content) in self.reads_outside.tables.items():
            if not self._is_entered(module):
                self.watched[id(module), name] = module, _reader_of(module, name), content
        for module, kind in self.reads_outside.modules:
            if not self._is_entered(module):
                self.watched[id(module), "__class__"] = module, _kind_of(module), kind
        # Members of Tensor that the function itself replaces are expected from now on.
        self.watched[id(Tensor), None] = Tensor, tensor_class.replaced, tensor_class.replaced()
        self.outside.states = self.reads_outside.named_states()

    def _can_change_silently(self, place: Outside, module: Any) -> bool:
        """Whether an attribute of a module that was entered must be compared at each call."""
        # Flambeau's layers announce changes, and the function may switch the training mode.
        return place.attributes != ("training",) and not is_own(type(module))

    def ignore(self, slot: Any) -> None:
        """Stop watching ``slot``."""
        if isinstance(slot, Member):
            snapshot = self.snapshots.get(id(vars(slot.module)))
            if snapshot is not None:
                snapshot.ignore([slot])
            slot = Outside(slot.module, None, (slot.place[1],))
        self.outside.ignore([slot])
        if slot.key is not None:
            # The slot may be an entry of a dictionary that announces changes.
            self.watched.pop((id(slot.root), slot.key), None)

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

    def ignore_members(self) -> None:
        """Stop watching replaced members, whose tables remember the old values."""
        for slot in self.members.changed():
            self.ignore(slot)
            is_submodule = isinstance(slot, Member) and slot.place[0] == "_modules"
            if is_submodule and id(vars(slot.module)) in self.snapshots:
                self.members.ignore([slot])

    def reset(self) -> None:
        """Restore containers, attributes, hooks and generators."""
        self.log.restore()
        self.before.put_all_back()
        self.chance.put_back()

    def all_snapshots(self) -> list[ModuleSnapshot]:
        """The snapshots of all entered modules."""
        return [*self.snapshots.values()]

    def values_elsewhere(self, left_out: Set[Outside] = frozenset()) -> list[Any]:
        """The values in watched places, which are the same at each call, but for some places."""
        values: list[Any] = []
        for snapshot in self.all_snapshots():
            values += [snapshot.values[place] for place in snapshot.entries]
        outside = self.outside
        values += [outside.values[place] for place in outside.entries if place not in left_out]
        values += [value.value for _, _, value in self.watched.values() if isinstance(value, Same)]
        return values

    def tensors_elsewhere(self) -> set[int]:
        """The ids of the tensors in watched places, which are the same at each call."""
        leaves = leaves_in(self.values_elsewhere(), left_out=self.members.tables)
        return {id(leaf) for leaf in leaves if isinstance(leaf, Tensor)}


def _kind_of(module: Any) -> Callable[[], type]:
    return lambda: type(module)


def _reader_of(module: Any, name: str) -> Callable[[], Any]:
    return lambda: content_of(vars(module).get(name))
