"""A trace that watches what its program will depend on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

from flambeau.compile import errors, guard
from flambeau.compile.asking import Facts, HookSnapshot, attribute
from flambeau.compile.chance import Chance
from flambeau.compile.containers import Log, leaves_in
from flambeau.compile.contents import KINDS
from flambeau.compile.discovery import MANY
from flambeau.compile.guard import ModuleSnapshot, OutsideSnapshot
from flambeau.compile.members import MemberSnapshot
from flambeau.compile.ownership import is_own
from flambeau.compile.places import Member, Outside, Returned
from flambeau.compile.reads import Reads, content_of
from flambeau.compile.recomputation import Progress
from flambeau.core import settings, tensor_class, world
from flambeau.core.identity import Same
from flambeau.core.tensor import Tensor
from flambeau.core.trace import Trace


class WatchingTrace(Trace):
    """A trace that notes what the function reads outside itself, with the values found first.

    Of each module that is called it takes a snapshot.
    """

    def __init__(self, first_sequence: int) -> None:
        super().__init__(first_sequence)
        self.snapshots: dict[int, ModuleSnapshot] = {}
        self.members = MemberSnapshot(self.before)
        self.chance = Chance()
        self.reads_outside = Reads(self._prepare, self.members.know, self.before, self.chance)
        # Values at their first read; and those of them that the guard compares.
        self.seen = OutsideSnapshot()
        self.outside = OutsideSnapshot()
        self.log = Log(self.before)
        self.facts = Facts()
        self.hooks = HookSnapshot(self.before)
        # Modules that were put into training or evaluation mode, with the mode before.
        self.switched: dict[Any, bool] = {}
        self.watch(Tensor, tensor_class.replaced)

    def begin(self, function: Any, leaves: list[Any], classes: Iterable[type]) -> None:
        """Look at the objects that a function can reach before it runs.

        Args:
            function: The function.
            leaves: The leaves of its arguments.
            classes: The classes of the containers among these.
        """
        # The function may change a setting before it asks for it.
        self.seen.update(map(Returned, settings.known))
        for each in (function, *leaves, *classes):
            self.reads_outside.discover(each)

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """A block in which reads outside are noted."""
        reads = self.reads_outside
        with reads.running():
            reads.paused = False
            world.tracing.add(self)
            try:
                yield
            finally:
                world.tracing.discard(self)
                reads.paused = True

    def unwatched(self) -> contextlib.AbstractContextManager[None]:
        """See `Trace.unwatched`."""
        return self.reads_outside.unwatched()

    def warn(self) -> None:
        """Warn of side effects that the program repeats, and of changes that it does not see."""
        self.chance.warn()
        if self.reads_outside.looks_into_script:
            errors.warn(
                "the compiled function looks into globals() by names that it computes, so that "
                "each global of the script counts, but for tensors: one that changes between "
                "calls makes a program for each call. Put what the function looks up into a "
                "dictionary of its own"
            )
        if self.reads_outside.left_out:
            names = ", ".join(self.reads_outside.left_out)
            errors.warn(
                f"the compiled function finds more than {MANY} objects in {names}, and does not "
                "see later changes of attributes of those beyond that number. Pass the objects "
                "that it uses as arguments, or keep what changes in tensors"
            )

    def enter(self, module: Any, renewed: bool = False) -> None:
        """Note that ``module`` was called, or with ``renewed`` that it has changed for good."""
        # Several handles on a module have one dictionary.
        key = id(vars(module))
        if renewed or key not in self.snapshots:
            with self._paused():
                if renewed:
                    self.seen.renew(module)
                self.log.restore()
                snapshot = self.snapshots[key] = ModuleSnapshot(module)
                for place, holder in self.reads_outside.members.items():
                    if holder is module and place in self.seen.values:
                        name = place.attributes[0] if place.attributes else place.key
                        snapshot.amend(name, self.seen.values[place])
                self.log.replace_again()
                if module in self.switched:
                    # The function has chosen the mode itself.
                    snapshot.ignore([Member(module, guard.TRAINING)])
                self.reads_outside.enter(module)

    def switch(self, module: Any, mode: bool) -> None:
        """Note that ``module`` is about to leave ``mode``, training (true) or evaluation."""
        self.switched.setdefault(module, mode)

    def before_pull(self, run: Any, node: Any, cotangents: list[Any]) -> None:
        """Note how far backward has come, for checkpointed parts."""
        super().before_pull(run, node, cotangents)
        Progress.of(run).cotangents = cotangents

    def after_pull(self, run: Any, gradients: Any) -> Any:
        """Note the gradients that a node gave."""
        return Progress.of(run).pulled(gradients)

    def is_of_entered(self, place: Outside) -> bool:
        """Whether ``place`` is an attribute of a module that has a snapshot of its own.

        The function may have read a tensor there that `functional_call` lends the module.
        """
        module = self.reads_outside.members.get(place)
        return module is not None and self._is_entered(module)

    def _is_entered(self, module: Any) -> bool:
        return id(vars(module)) in self.snapshots

    @contextlib.contextmanager
    def _paused(self) -> Iterator[None]:
        reads = self.reads_outside
        before, reads.paused = reads.paused, True
        try:
            yield
        finally:
            reads.paused = before

    def _prepare(self, place: Outside) -> None:
        """Take the value of ``place`` before it can change, and let a stand-in take its place."""
        if not self.seen.add(place):
            return
        value = self.seen.values[place]
        if isinstance(place, Returned) or place.attributes[-1:] == ("__self__",):
            # Nothing can be put there; but what changes in it is noticed.
            if type(value) in KINDS:
                self.log.watch(value, place)
        elif place in self.reads_outside.members and place.attributes:
            # By the name that the snapshot of the module gives it.
            member = Member(place.root, ("", place.attributes[0]))
            self.log.look_at(member, member.get())
        else:
            self.log.look_at(place, value)

    def settle(self) -> None:
        """Choose the places that matter among all that were read, once the function has run."""
        self.reads_outside.settle()
        for key, snapshot in [*self.snapshots.items()]:
            # A module that no place outside has led to, and that has changed, was made inside.
            if not self.reads_outside.knows(snapshot.module) and snapshot.changed():
                del self.snapshots[key]
        members = self.reads_outside.members
        places = self.reads_outside.places
        self.outside.take([place for place in places if place not in members], self.seen)
        modules = {id(module): module for module in members.values()}
        entered = {each for each, module in modules.items() if self._is_entered(module)}
        for place, module in members.items():
            if id(module) not in entered and module not in self.switched:
                self.outside.take([place], self.seen)
            elif place in self.seen.entries and self._can_change_silently(place, module):
                self.outside.members.append(place)
        for (_, name), (module, content) in self.reads_outside.tables.items():
            if not self._is_entered(module):
                self.watched[id(module), name] = module, _reader_of(module, name), content
        for module, kind in self.reads_outside.modules:
            if not self._is_entered(module):
                self.watched[id(module), "__class__"] = module, _kind_of(module), kind
        # Members that the function itself replaces count from now on.
        self.watched[id(Tensor), None] = Tensor, tensor_class.replaced, tensor_class.replaced()
        self.outside.states = [*self.reads_outside.states.values()]

    def _can_change_silently(self, place: Outside, module: Any) -> bool:
        """Whether an attribute of a module that was entered must be compared at each call."""
        # Flambeau's layers announce changes; the training mode may be switched by the function.
        return place.attributes not in ((), ("training",)) and not is_own(type(module))

    def ignore(self, slot: Any) -> None:
        """Stop watching ``slot`` as a whole."""
        if isinstance(slot, Member):
            snapshot = self.snapshots.get(id(vars(slot.module)))
            if snapshot is not None:
                snapshot.ignore([slot])
            slot = Outside(slot.module, None, (slot.place[1],))
        self.outside.ignore([slot])
        if slot.key is not None:
            # An entry of a dictionary that announces its changes.
            self.watched.pop((id(slot.root), slot.key), None)

    def note_setting(self, read: Callable[[], Any]) -> None:
        """See `Trace.note_setting`."""
        with self._paused():
            self.reads_outside.note_setting(read)

    def watch(self, owner: Any, snapshot: Callable[[], Any], name: Any = None) -> bool:
        """See `Trace.watch`; hooks for all modules come from outside."""
        is_new = super().watch(owner, snapshot, name)
        if is_new and hasattr(type(owner), "announces_changes"):
            with self._paused():
                for registry in snapshot():
                    for _, hook in registry:
                        self.reads_outside.discover(hook)
        return is_new

    def note(self, tensor: Any) -> None:
        """Note that ``tensor`` took part."""
        if tensor not in self.tensors and self.is_outside(tensor):
            tensor._follow_base()
            super().note(tensor)
            with self._paused():
                self.reads_outside.discover(tensor)

    def touch(self, table: Any) -> None:
        """See `Trace.touch`."""
        self.members.touch(table)

    def touch_hooks(self, table: Any) -> None:
        """See `Trace.touch_hooks`."""
        self.before.note(table)

    def touch_attributes(self, tensor: Tensor) -> None:
        """Note that an attribute of ``tensor`` is about to be set by the user."""
        if self.is_outside(tensor):
            self.members.touch_attributes(tensor)

    def show_attributes(self, tensor: Any) -> None:
        """See `Trace.show_attributes`; the stand-in of an argument gets what that has."""
        if tensor in self.facts.given:
            self.facts.show(tensor)
        elif not self.reads_outside.paused and self.is_outside(tensor):
            with self._paused():
                self.reads_outside.note_attributes(tensor)

    def change_class(self, cls: type, name: str) -> None:
        """Note that the function itself replaces a member of a class of tensors."""
        with self._paused():
            self.reads_outside.note_of_class(cls, name)

    def ask(self, tensor: Tensor, question: Callable[..., Any], *args: Any) -> Any:
        """See `Trace.ask`."""
        if tensor in self.facts.given:
            return self.facts.ask(tensor, question, *args)
        if question is attribute and not self.reads_outside.paused and self.is_outside(tensor):
            with self._paused():
                self.reads_outside.note_absent(tensor, *args)
        return question(tensor, *args)

    def add_hook(self, tensor: Tensor, method: str, hooks: Any) -> None:
        """See `Trace.add_hook`."""
        node = tensor._grad_fn
        is_inside = node is not None and node.sequence >= self.first_sequence
        if not is_inside and (tensor in self.facts.given or self.is_outside(tensor)):
            self.note(tensor)
            self.hooks.note(tensor, method, hooks)

    def refuse_version(self, tensor: Tensor) -> None:
        """See `Trace.refuse_version`."""
        super().refuse_version(
            self.facts.given[tensor][1] if tensor in self.facts.given else tensor
        )

    def ignore_members(self) -> None:
        """Leave the members that modules were given to the tables, which know those before."""
        changed = self.members.changed()
        for slot in changed:
            if isinstance(slot, Member):
                self.ignore(slot)
                if slot.place[0] == "_modules" and id(vars(slot.module)) in self.snapshots:
                    self.members.ignore([slot])
            else:
                self.ignore(slot)

    def reset(self) -> None:
        """Leave containers, attributes, hooks and generators as they were before the trace."""
        self.log.restore()
        self.before.put_all_back()
        self.chance.put_back()

    def all_snapshots(self) -> list[ModuleSnapshot]:
        """The snapshots of the modules that were entered."""
        return [*self.snapshots.values()]

    def values_elsewhere(self, left_out: Set[Outside] = frozenset()) -> list[Any]:
        """What stands in watched places, but for those left out, where it is always the same."""
        found: list[Any] = []
        for snapshot in self.all_snapshots():
            found += [snapshot.values[place] for place in snapshot.entries]
        values = self.outside.values
        found += [values[place] for place in self.outside.entries if place not in left_out]
        found += [value.value for _, _, value in self.watched.values() if isinstance(value, Same)]
        return found

    def tensors_elsewhere(self) -> set[int]:
        """The ids of the tensors that stand in watched places, where they are always the same."""
        found = self.values_elsewhere()
        leaves = leaves_in(found, left_out=self.members.tables)
        return {id(leaf) for leaf in leaves if isinstance(leaf, Tensor)}


def _kind_of(module: Any) -> Callable[[], type]:
    return lambda: type(module)


def _reader_of(module: Any, name: str) -> Callable[[], Any]:
    return lambda: content_of(vars(module).get(name))
