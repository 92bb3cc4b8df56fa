"""A trace that watches what its program will depend on."""

from __future__ import annotations

import pickle
import random
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.compile import errors, guard
from flambeau.compile.containers import Log, leaves_in
from flambeau.compile.guard import ModuleSnapshot, OutsideSnapshot
from flambeau.compile.members import MemberSnapshot
from flambeau.compile.places import AttributeSlot
from flambeau.compile.surroundings import Surroundings, is_module
from flambeau.core.pytree import is_tuple
from flambeau.core.tensor import Tensor
from flambeau.core.trace import Trace

# How deep in containers, and in how large ones, modules are looked for.
_DEEP = 3
_LARGE = 4096


class WatchingTrace(Trace):
    """A trace that takes a snapshot of each module on entry and of each tensor's history."""

    def __init__(self, first_sequence: int) -> None:
        self.snapshots: dict[int, ModuleSnapshot] = {}
        self.surroundings = Surroundings()
        # What the hooks of leaves find outside themselves, which run if backward does.
        self.of_leaves = Surroundings()
        # What is found before the function runs, and counts if code that asks for it runs.
        self.ahead = Surroundings()
        # What was there when it was first looked at; and what of this counts, once that is settled.
        self.seen = OutsideSnapshot()
        self.outside = OutsideSnapshot()
        self.has_begun = False
        self.log = Log()
        self.histories: dict[Tensor, tuple[Any, int, bool]] = {}
        self.members = MemberSnapshot()
        super().__init__(first_sequence)

    def begin(self, function: Any, named: dict[str, Any], leaves: list[Any]) -> None:
        """Look at all that a function may reach, before it runs.

        Only what is found now is surely outside: later, it may be the function's own.

        Args:
            function: The function.
            named: The objects among its arguments, by name.
            leaves: The leaves of its arguments.
        """
        self.surround(function, named)
        waiting = [function, getattr(function, "__self__", None), *leaves]
        known: set[int] = set()
        while waiting:
            for value in waiting:
                self._look_behind(value, known, 0)
            waiting = [value for value in self.seen.values.values() if id(value) not in known]
        self.has_begun = True

    def _look_behind(self, value: Any, known: set[int], depth: int) -> None:
        """Look at what the modules and hooks in ``value`` may reach when they are called."""
        if id(value) in known:
            return
        known.add(id(value))
        functions: list[Any] = []
        if is_module(value):
            self.log.restore()
            for module in value.modules():
                known.add(id(module))
                self.members.know(module)
                functions += _called_by(module)
                for name in [*vars(module)]:
                    self.log.look_at(AttributeSlot(module, ("", name)))
            self.log.replace_again()
        elif isinstance(value, Tensor):
            functions += [hook for hooks in value._leaf_hooks() for _, hook in hooks]
        elif _is_container(value) and depth < _DEEP and len(value) < _LARGE:
            for each in value.values() if isinstance(value, dict) else value:
                self._look_behind(each, known, depth + 1)
        for each in functions:
            if isinstance(each, Tensor) or is_module(each):
                self._look_behind(each, known, depth)
            else:
                self._explore(self.ahead, each)

    def enter(self, module: Any, anew: bool = False) -> None:
        """Note that ``module`` was called, or with ``anew`` that it has changed for good."""
        # Several handles on a module have one dictionary.
        key = id(vars(module))
        if anew or key not in self.snapshots:
            self.log.restore()
            snapshot = self.snapshots[key] = ModuleSnapshot(module)
            self.log.replace_again()
            if module in self.switched:
                # The function has chosen the mode itself.
                snapshot.ignore([AttributeSlot(module, guard.TRAINING)])
            self.surroundings.enter(module)
            for each in _called_by(module):
                self.surround(each)

    def surround(self, function: Any, named: dict[str, Any] | None = None) -> None:
        """Watch what ``function`` finds outside itself."""
        self._explore(self.surroundings, function, named)

    def _explore(self, found: Surroundings, function: Any, named: Any = None) -> None:
        self.log.restore()
        found.explore(function, named)
        places = self.seen.update((*found.places, *found.members))
        if not self.has_begun:
            for place in places:
                self.log.look_at(place)
        self.log.replace_again()

    def settle(self) -> None:
        """Decide what matters of all that was looked at, once the function has run."""
        for found in (self.surroundings, self.of_leaves) if self.grads else (self.surroundings,):
            self.outside.take(found.places, self.seen)
            for place in found.members:
                if id(vars(place.root)) not in self.snapshots and place.root not in self.switched:
                    self.outside.take([place], self.seen)
                elif place in self.seen.entries and place.attributes != ("training",):
                    # The mode is what a function may switch itself.
                    self.outside.members.append(place)
        self.outside.states = self.surroundings.states

    def ignore(self, slot: Any) -> None:
        """Stop watching ``slot`` as a whole."""
        if isinstance(slot, AttributeSlot):
            snapshot = self.snapshots.get(id(vars(slot.module)))
            if snapshot is not None:
                snapshot.ignore([slot])
        else:
            self.outside.ignore([slot])

    def watch(self, owner: Any, snapshot: Callable[[], Any], name: Any = None) -> bool:
        """See `Trace.watch`; what hooks find outside themselves is watched as well."""
        is_new = super().watch(owner, snapshot, name)
        if is_new and getattr(owner, "announces_changes", False):
            # Those are called for all modules, and the first is about to be called.
            self.has_begun = False
            for registry in snapshot():
                for _, hook in registry:
                    self.surround(hook)
            self.has_begun = True
        return is_new

    def note(self, tensor: Any) -> None:
        """Note that ``tensor`` took part."""
        if tensor not in self.tensors and self.is_outside(tensor):
            tensor._follow_base()
            super().note(tensor)
            self.histories[tensor] = (tensor._grad_fn, tensor._output_nr, tensor._requires_grad)
            for hooks in tensor._leaf_hooks():
                for _, hook in hooks:
                    self._explore(self.of_leaves, hook)

    def touch(self, table: Any) -> None:
        """See `Trace.touch`."""
        self.members.touch(table)

    def touch_attributes(self, tensor: Tensor) -> None:
        """Note that an attribute of ``tensor`` is about to be set by the user."""
        if self.is_outside(tensor):
            self.members.touch_attributes(tensor)

    def ignore_members(self) -> None:
        """Leave the members that modules were given to the tables, which know those before."""
        changed = self.members.changed()
        for slot in changed:
            if isinstance(slot, AttributeSlot):
                self.ignore(slot)
                if slot.place[0] == "_modules" and id(vars(slot.module)) in self.snapshots:
                    self.members.ignore([slot])

    def reset(self) -> None:
        """Leave members and attributes as they were before the trace."""
        self.members.put_back()

    def all_snapshots(self) -> list[ModuleSnapshot]:
        """The snapshots of the modules that were entered."""
        return [*self.snapshots.values()]

    def tensors_elsewhere(self) -> set[int]:
        """The ids of the tensors that stand in watched places, where they are always the same."""
        found: list[Any] = []
        for snapshot in self.all_snapshots():
            found += [snapshot.values[place] for place in snapshot.entries]
        found += [self.outside.values[place] for place in self.outside.entries]
        return {id(leaf) for leaf in leaves_in(found) if isinstance(leaf, Tensor)}


def _called_by(module: Any) -> list[Any]:
    """What calling a module may call: its `forward`, hooks and submodules."""
    found = [module.forward]
    for registry in vars(module).values():
        if hasattr(type(registry), "announces_changes"):
            found += registry.values()
    return found


def _is_container(value: Any) -> bool:
    return isinstance(value, dict | list | deque) or is_tuple(value)


def states_of_dice() -> dict[str, Any]:
    """The states of the random numbers that are not tensors'."""
    return {
        "random": random.getstate(),
        "numpy.random": pickle.dumps(np.random.get_state(legacy=False)),  # noqa: NPY002 (the user's)
    }


def warn_of_dice(before: dict[str, Any]) -> None:
    """Warn if something was drawn since then: the traced program has it as a constant."""
    after = states_of_dice()
    for name, state in before.items():
        if after[name] != state:
            warnings.warn(
                f"the compiled function draws from {name} while it is traced, and will find the "
                "same numbers at every call. Draw with flambeau, as in flambeau.rand(()) < 0.5, or "
                "outside, and pass the result as a tensor",
                errors.CompileWarning,
                stacklevel=2,
            )
