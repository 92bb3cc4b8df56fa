"""The guard: the conditions outside of the arguments under which a program may run.

A program depends on the hooks, submodules and attributes of modules that its trace has read. Each
change of these increments one counter, so the guard compares one integer as long as nothing
changes. Values that can change without the counter are compared at every call: the objects at
places outside, classes, and the contents of lists, dictionaries, sets and NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from flambeau.compile.guarding.freezing import freeze, sharing_in
from flambeau.compile.guarding.numbers import have_changed
from flambeau.compile.guarding.places import Outside, Returned, Sizes, check_of
from flambeau.compile.ownership import is_own
from flambeau.compile.source import Page
from flambeau.core.support import world
from flambeau.core.support.identity import MISSING, Same
from flambeau.core.support.warning import warn
from flambeau.core.values.view import view_key

# After this many equal-but-not-identical replacements, compare all places at each call.
_RENEWALS = 8

# Warn of NumPy arrays from this size in bytes: comparing them takes longer than most calls.
_LARGE = 1 << 20


def _warn_of_size(name: str, value: Any) -> None:
    if value.nbytes >= _LARGE:
        warn(
            f"a compiled function uses the NumPy array {name}, of {value.nbytes / 1e6:.0f} MB, "
            "which is compared at every call, since its elements may change; pass it as an "
            "argument, or make it a Tensor outside, with flambeau.from_numpy()",
        )


def _freeze_plain(value: Any) -> tuple[Any, Any]:
    """`freeze`, except that flambeau's own containers, which announce changes, are one object."""
    kind = type(value)
    own = issubclass(kind, dict | list | set) and is_own(kind)
    try:
        return (None, Same(value)) if own else freeze(value)
    except RecursionError:
        # The container contains itself.
        return None, Same(value)


class _Members:
    """The identities of the members of containers, which are quick to compare.

    Args:
        containers: A container, and all containers in it.
    """

    def __init__(self, containers: list[Any]) -> None:
        # Held, so that no other object gets the id of a member.
        self.held = [(each, _members_of(each)) for each in containers]
        self.ids = [(each, [*map(id, members)]) for each, members in self.held]

    @staticmethod
    def of(value: Any) -> _Members | None:
        """The members of ``value``; ``None`` if it may change while its members stay."""
        containers: dict[int, Any] = {}
        waiting = [value]
        for each in waiting:
            if type(each) is tuple:
                waiting += each
            elif type(each) in (dict, list, set):
                if id(each) not in containers:
                    containers[id(each)] = each
                    waiting += _members_of(each)
            elif freeze(each)[0] is not None:
                return None
        return _Members([*containers.values()])

    def are_same(self) -> bool:
        """Whether each container has the same members as before."""
        for container, ids in self.ids:
            if type(container) is dict:
                if [*map(id, container), *map(id, container.values())] != ids:
                    return False
            elif [*map(id, container)] != ids:
                return False
        return True


def _members_of(container: Any) -> list[Any]:
    return [*container, *container.values()] if type(container) is dict else [*container]


class OutsideSnapshot:
    """The values that a program has taken from places outside."""

    def __init__(self) -> None:
        self.entries: dict[Outside, tuple[Any, Any]] = {}
        #: The value that the trace found at each place.
        self.values: dict[Outside, Any] = {}
        #: Places whose changes are announced, so that they are compared only after one.
        self.announced: set[Outside] = set()
        #: Dictionaries that must keep their names, with the names of the objects that have them.
        self.states: list[tuple[str, Mapping[str, Any]]] = []
        #: Frozen values of places that are compared at each call, since their objects often change.
        self.unsteady: dict[Outside, tuple[Any, Any]] = {}
        self._exchanged: set[Outside] = set()
        self._renewals = 0

    def update(self, places: Iterable[Outside]) -> list[Outside]:
        """Add the values of new ``places``; return these places."""
        return [place for place in places if self.add(place)]

    def add(self, place: Outside, find: Callable[[Outside], Any] = Outside.get) -> bool:
        """Add the value of a place; return whether the place is new and can be compared."""
        if place in self.entries:
            return False
        value = find(place)
        # A dictionary or a closure gives the same object again.
        again = place.get() if place.attributes or place.key is None else value
        frozen = _freeze_plain(value)
        if again is not value and frozen != _freeze_plain(again):
            return False  # Each read creates an object, which cannot be compared.
        if issubclass(type(value), np.ndarray):
            _warn_of_size(str(place), value)
        self.entries[place], self.values[place] = frozen, value
        return True

    def renew(self, holder: Any) -> None:
        """Take the present values of the attributes and members of ``holder``."""
        state = vars(holder)
        of_holder = [
            place
            for place in self.entries
            if (place.attributes and place.holder().get() is holder)
            or any(place.root is each for each in (state, *state.values()))
        ]
        for place in of_holder:
            del self.entries[place]
            self.add(place)

    def take(self, places: Iterable[Outside], other: OutsideSnapshot) -> None:
        """Watch those of ``places`` that ``other`` watches."""
        for place in places:
            if place in other.entries:
                self.entries[place], self.values[place] = other.entries[place], other.values[place]

    def take_as(self, place: Outside, other: Outside) -> None:
        """Watch a place that holds what ``other`` held."""
        self.entries[place], self.values[place] = self.entries[other], self.values[other]

    def changed(self) -> list[Outside]:
        """The places whose values have changed."""
        places = []
        for place, frozen in self.entries.items():
            now = place.get()
            is_same = now is self.values[place]
            # Another container of equal content is another one, but for what a call returns.
            is_slot = not (place.attributes or isinstance(place, Returned))
            may_equal = frozen[0] in (None, tuple) or not is_slot
            if (is_same or may_equal) and _freeze_plain(now) == frozen:
                continue
            if self.values[place] is MISSING and isinstance(now, ModuleType):
                # An import is done once, as in eager code; later calls find the module.
                self.entries[place], self.values[place] = _freeze_plain(now), now
            else:
                places.append(place)
        return places

    def before(self, place: Outside) -> Any:
        """The value that the trace found at a place."""
        return self.values[place]

    @staticmethod
    def found_at(place: Outside) -> tuple[Any, Any]:
        """The value at a place now, frozen."""
        return _freeze_plain(place.get())

    def ignore(self, places: Iterable[Outside]) -> None:
        """Stop watching places that the traced function itself changes."""
        for place in places:
            self.entries.pop(place, None)

    def settle(self) -> None:
        """Prepare the check of every call."""
        # The content of a container changes without an announcement.
        self.announced = {e for e in self.announced & self.entries.keys() if not self.entries[e][0]}
        self.watched = {e: frozen for e, frozen in self.entries.items() if e not in self.announced}
        for size in Sizes.of_all(self.states):
            self.watched[size] = freeze(size.get())
        #: Places of containers, and the identities of these containers.
        self.holders = [place for place, frozen in self.watched.items() if frozen[0] is not None]
        self.sharing: tuple[int, ...] = self._sharing()
        self._look()

    def _look(self) -> None:
        steady = {
            place: frozen for place, frozen in self.watched.items() if place not in self.unsteady
        }
        self.expected = [(place, place.get(), frozen) for place, frozen in steady.items()]
        self.contents = [
            (value, frozen, _Members.of(value), len(sharing_in([value])) > 1)
            for _, value, frozen in self.expected
            if frozen[0] is not None
        ]
        #: The page on which the check is written; see `Program.source`.
        self.page: Page = Page()
        objects = ((place, value) for place, value, _ in self.expected)
        self.are_same = check_of(objects, self.page)

    def announced_hold(self) -> bool:
        """Whether the values at places that announce changes are unchanged."""
        return all(
            (now := place.get()) is self.values[place] or _freeze_plain(now) == self.entries[place]
            for place in self.announced
        )

    def holds(self) -> bool:
        """Whether no other value has changed."""
        if not self.are_same() and not self._are_equal():
            return False
        exchanged = False
        for place, frozen in self.unsteady.items():
            if _freeze_plain(place.get()) != frozen:
                return False
            exchanged = exchanged or frozen[0] is not None
        # The same container may have changed.
        for value, frozen, members, holds_containers in self.contents:
            if members is None or not members.are_same():
                if _freeze_plain(value) != frozen:
                    return False
                exchanged = exchanged or holds_containers
        return not exchanged or self._sharing() == self.sharing

    def _sharing(self) -> tuple[int, ...]:
        """The identities of containers, since code may compare them by ``is``."""
        return sharing_in([place.get() for place in self.holders])

    def _are_equal(self) -> bool:
        """Whether the present objects equal the expected ones; if so, they become the expected."""
        present = [(place, place.get(), value, frozen) for place, value, frozen in self.expected]
        for _, now, value, frozen in present:
            is_same = now is value and frozen[0] is None
            if not is_same and _freeze_plain(now) != frozen:
                return False
        if self._sharing() != self.sharing:
            return False
        self._renewals += 1
        exchanged = {place for place, now, value, _ in present if now is not value}
        if self._renewals == _RENEWALS:
            self.unsteady = dict(self.watched)
        for place in exchanged & self._exchanged:
            self.unsteady[place] = self.watched[place]
        self._exchanged |= exchanged
        self._look()
        return True


class Guard:
    """Decides whether a program may run for a call.

    Args:
        trace: The finished trace.
    """

    def __init__(self, trace: Any) -> None:
        self.outside: OutsideSnapshot = trace.outside
        self.outside.ignore(trace.free_numbers)
        self.outside.settle()
        #: Entries of optimizers' dictionaries, with their values.
        self.entries_read = [(place, value) for place, (value, _) in trace.entries_read.items()]
        #: The modules that the trace has found, for names.
        self.modules = [module for module, _ in trace.reads_outside.modules]
        # A flag is ``None`` if the program sets it before it reads it.
        self.tensors = [
            (
                tensor,
                None if tensor in trace.free else trace.flags.get(tensor, before.requires_grad),
                tensor._grad_fn is None, before.cell, view_key(tensor._view),
                tensor._leaf_hooks(),
            )
            for tensor, before in trace.tensors.items()
        ]  # fmt: skip
        #: The properties of tensors whose elements were not read.
        self.looked_at = [
            (tensor, face_of(tensor, tensor in trace.free))
            for tensor in trace.looked_at
            if tensor not in trace.tensors
        ]
        for tensor in (*trace.tensors, *trace.looked_at):
            tensor._watched = True
        #: Other objects, with a function that gives their state, and the state during the trace.
        self.watched = [*trace.watched.values()]
        self.parts: list[Any] = [part for _, part in trace.watched]
        grads = [each for each in trace.grads_read.items() if trace.is_outside(each[0])]
        #: Tensors that must not have a gradient.
        self.without_grad = [tensor for tensor, grad in grads if grad is None]
        self.with_grad = [(tensor, grad) for tensor, grad in grads if grad is not None]
        # If the trace itself changed something, the next call compares everything.
        unchanged = all(snapshot() == value for _, snapshot, value in self.watched)
        unchanged = unchanged and self.outside.announced_hold()
        self.version = world.version if unchanged and not (trace.switched or trace.flags) else -1
        self.gradients: int = -1

    def changed_numbers(self) -> set[Outside]:
        """The places of the user's at which numbers have become others of their class."""
        found = [*self.outside.values.items(), *self.entries_read]
        return {place for place, before in found if have_changed(place, before, place.get())}

    def holds(self) -> bool:
        """Whether everything that the trace read is unchanged."""
        if self.gradients != world.gradients:
            now = world.gradients
            if not self._gradients_hold():
                return False
            self.gradients = now
        if not self.outside.holds():
            return False
        if self.version == world.version:
            return True
        version = world.version
        if not self._holds_whole():
            return False
        self.version = version
        return True

    def _gradients_hold(self) -> bool:
        for tensor, expected in self.with_grad:
            grad = tensor._grad
            # The program looks up a gradient at each call, unless it is a view, which is bound.
            if grad is None or (expected._view is not None and grad is not expected):
                return False
        return all(tensor._grad is None for tensor in self.without_grad)

    def _holds_whole(self) -> bool:
        return (
            all(
                flag in (None, tensor._requires_grad)
                and (tensor._grad_fn is None) == is_leaf
                and tensor._cell is cell
                and view_key(tensor._view) == view
                and tensor._leaf_hooks() == hooks
                for tensor, flag, is_leaf, cell, view, hooks in self.tensors
            )
            and all(face_of(tensor, face[0] is None) == face for tensor, face in self.looked_at)
            and all(snapshot() == value for _, snapshot, value in self.watched)
            and self.outside.announced_hold()
        )


#: The names of the properties that `face_of` returns.
FACE = ("requires_grad", "is_leaf", "retains_grad", "shape", "dtype")


def face_of(tensor: Any, has_any_flag: bool) -> tuple[Any, ...]:
    """The properties of a tensor that a function can see, except its elements."""
    flag = None if has_any_flag else tensor.requires_grad
    retains = tensor.retains_grad
    return flag, tensor.grad_fn is None, retains, tuple(tensor.shape), tensor.dtype
