"""The guard: what a compiled program takes for granted, and whether it still holds.

A program depends on more than its inputs: on training flags, hooks, submodules and plain
attributes of the modules that its trace entered. Each change of these bumps one counter, so that
while the counter stands still the guard compares one integer. Plain attributes that can change
without assignment (lists, dictionaries, sets, NumPy arrays) are compared at every call.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from flambeau.compile.surroundings import Outside
from flambeau.core import world
from flambeau.core.pytree import TUPLES
from flambeau.core.trace import Trace

_BY_VALUE = (int, float, bool, complex, str, bytes, type(None), np.generic)
_MEMBERS = ("_parameters", "_buffers")
# Where the containers come from whose content is compared.
_PLAIN = ("builtins", "collections")

# Bytes of a NumPy array from which comparing it at each call takes longer than most calls.
_LARGE = 1 << 20

# Where in a module an attribute stands: "" for plain ones, or the registry; and its name.
Place = tuple[str, str]
TRAINING: Place = ("", "training")


class ModuleSnapshot:
    """The attributes of a module as a trace found them on entry.

    Args:
        module: The module; what stands in its ``__dict__`` is what is compared.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.cls = type(module)
        self.entries = _entries(module)
        self.values = {place: value_at(module, place) for place in self.entries}
        for (_, name), value in self.values.items():
            _warn_of_size(f"{self.cls.__name__}.{name}", value)
        self.ignored: set[Place] = set()
        # The registries of the module system bump the counter themselves; other containers do not.
        self.volatile = [
            (name, self.entries["", name])
            for name, value in vars(module).items()
            if ("", name) in self.entries
            and self.entries["", name][0] is not None
            and not getattr(value, "announces_changes", False)
            and name != "_non_persistent_buffers_set"
        ]

    def changed(self) -> list[Place]:
        """The places that no longer hold what they held."""
        now = _entries(self.module)
        return [
            place
            for place in {**self.entries, **now}
            if place not in now or place not in self.entries or now[place] != self.entries[place]
        ]

    def ignore(self, places: list[Place]) -> None:
        """Stop watching places that the traced function itself changes."""
        self.ignored.update(places)
        for place in places:
            self.entries.pop(place, None)
        self.volatile = [each for each in self.volatile if ("", each[0]) not in self.ignored]

    def holds(self) -> bool:
        """Whether the module is as it was."""
        if type(self.module) is not self.cls:
            return False
        now = _entries(self.module)
        for place in self.ignored:
            now.pop(place, None)
        return now == self.entries

    def volatile_holds(self) -> bool:
        """Whether the attributes that can change without being assigned are as they were."""
        attributes = vars(self.module)
        return all(
            name in attributes and freeze(attributes[name]) == frozen
            for name, frozen in self.volatile
        )


def value_at(module: Any, place: Place) -> Any:
    """What stands at ``place`` in a module, or ``None``."""
    kind, name = place
    return (vars(module)[kind] if kind else vars(module)).get(name)


def is_of_hooks(module: Any, place: Place) -> bool:
    """Whether ``place`` in a module is a registry of hooks, or says of which kind they are."""
    kind, name = place
    if kind or name == "_modules":
        return False
    return name == "_is_full_backward_hook" or hasattr(vars(module).get(name), "announces_changes")


def set_at(module: Any, place: Place, value: Any) -> None:
    """Put ``value`` at ``place`` in a module, past its ``__setattr__``."""
    kind, name = place
    (vars(module)[kind] if kind else vars(module))[name] = value


def remove_at(module: Any, place: Place) -> None:
    """Take away what stands at ``place`` in a module, past its ``__delattr__``."""
    kind, name = place
    (vars(module)[kind] if kind else vars(module)).pop(name, None)


def _entries(module: Any) -> dict[Place, Any]:
    entries: dict[Place, Any] = {}
    for name, value in vars(module).items():
        if name in _MEMBERS and isinstance(value, dict):
            for key, member in value.items():
                entries[name, key] = freeze(member)
        else:
            entries["", name] = freeze(value)
    return entries


class _Same:
    """Compares by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def freeze(value: Any) -> tuple[Any, Any]:
    """A value in a form that compares and that later changes of it do not reach.

    Returns:
        The type of a container, ``None`` for anything else; and the content.
    """
    if isinstance(value, _BY_VALUE):
        return None, (type(value), value)
    if isinstance(value, dict):
        return dict, tuple((key, freeze(each)) for key, each in value.items())
    if isinstance(value, list | tuple | deque) and type(value) not in TUPLES:
        frozen = tuple(map(freeze, value))
        fixed = isinstance(value, tuple) and all(kind is None for kind, _ in frozen)
        return None if fixed else type(value), frozen
    if isinstance(value, set | frozenset):
        return set, frozenset(value)
    if isinstance(value, np.ndarray):
        return np.ndarray, (value.dtype, value.shape, value.tobytes())
    return None, _Same(value)


def _warn_of_size(name: str, value: Any) -> None:
    if isinstance(value, np.ndarray) and value.nbytes >= _LARGE:
        warnings.warn(
            f"a compiled function uses the NumPy array {name}, of {value.nbytes / 1e6:.0f} MB, "
            "which is compared at every call, since its elements may change; pass it as an "
            "argument, or make it a Tensor outside, with flambeau.from_numpy()",
            stacklevel=2,
        )


def _freeze_plain(value: Any) -> tuple[Any, Any]:
    """`freeze`, with containers of classes of their own as one object."""
    own = isinstance(value, dict | list | set) and type(value).__module__ not in _PLAIN
    return (None, _Same(value)) if own else freeze(value)


class _Members:
    """The members of a list or dictionary, for a quick look whether they are the same objects.

    Args:
        value: The container.
    """

    def __init__(self, value: Any) -> None:
        # Held, so that no other object can take the place of one of them.
        self.held = [*value, *value.values()] if isinstance(value, dict) else [*value]
        self.ids = [*map(id, self.held)]

    @staticmethod
    def of(value: Any, frozen: tuple[Any, Any]) -> _Members | None:
        """The members of a container that has no containers in it."""
        kind, content = frozen
        if kind is dict and type(value) is dict:
            plain = all(each[0] is None for _, each in content)
        else:
            plain = kind is list and type(value) is list and all(e[0] is None for e in content)
        return _Members(value) if plain else None

    def are_those_of(self, value: Any) -> bool:
        """Whether ``value`` has the same members."""
        if type(value) is dict:
            return [*map(id, value), *map(id, value.values())] == self.ids
        return [*map(id, value)] == self.ids


class OutsideSnapshot:
    """What functions found outside themselves, as a trace took it into the program."""

    def __init__(self) -> None:
        self.entries: dict[Any, tuple[Outside, tuple[Any, Any]]] = {}
        #: What the trace found at each place.
        self.values: dict[Any, Any] = {}

    def update(self, places: Mapping[Any, Outside]) -> list[Outside]:
        """Add the values of those ``places`` that are new, and give these."""
        added = []
        for key, place in places.items():
            if key not in self.entries:
                value = place.get()
                _warn_of_size(str(place), value)
                self.entries[key] = place, _freeze_plain(value)
                self.values[key] = value
                added.append(place)
        return added

    def take(self, places: Iterable[Any], other: OutsideSnapshot) -> None:
        """Take over from ``other`` the values of those ``places`` that are new."""
        for key in places:
            if key not in self.entries and key in other.entries:
                self.entries[key], self.values[key] = other.entries[key], other.values[key]

    def merge(self, other: OutsideSnapshot) -> None:
        """Add what ``other`` watches."""
        for key, entry in other.entries.items():
            self.entries.setdefault(key, entry)
            self.values.setdefault(key, other.values[key])

    def changed(self) -> list[Outside]:
        """The places that no longer hold what they held."""
        return [p for p, frozen in self.entries.values() if _freeze_plain(p.get()) != frozen]

    def ignore(self, places: Iterable[Outside]) -> None:
        """Stop watching places that the traced function itself changes."""
        for place in places:
            self.entries.pop(place.identity(), None)
            self.values.pop(place.identity(), None)

    def settle(self) -> None:
        """Prepare to be asked at every call."""
        self.expected = [
            (place.get, place.get(), frozen, _Members.of(place.get(), frozen))
            for place, frozen in self.entries.values()
        ]

    def holds(self) -> bool:
        """Whether all is as it was."""
        for get, value, frozen, members in self.expected:
            now = get()
            # A container may have changed although it is the same.
            same = now is value and (frozen[0] is None or (members and members.are_those_of(now)))
            if not same and _freeze_plain(now) != frozen:
                return False
        return True


class Guard:
    """Decides whether a program may be used for a call.

    Args:
        trace: The finished trace.
        modules: Snapshots of the modules that it entered.
        outside: What the functions in it found outside themselves.
    """

    def __init__(
        self, trace: Trace, modules: list[ModuleSnapshot], outside: OutsideSnapshot
    ) -> None:
        self.modules = modules
        self.outside = outside
        outside.settle()
        # A flag of ``None``: the program sets it before it matters.
        self.tensors = [
            (tensor, None if tensor in trace.free else flag, cell, tensor._leaf_hooks())
            for tensor, (flag, cell) in trace.tensors.items()
        ]
        self.watched: list[tuple[Callable[[], Any], Any]] = [
            (snapshot, value) for _, snapshot, value in trace.watched.values()
        ]
        grads = trace.grads_read.items()
        #: Tensors that must not have a gradient.
        self.without_grad = [tensor for tensor, grad in grads if grad is None]
        self.with_grad = [(tensor, grad) for tensor, grad in grads if grad is not None]
        self.volatile = [each for each in modules if each.volatile]
        # What the trace itself changed after it was looked at counts from the next call on.
        unchanged = all(snapshot() == value for snapshot, value in self.watched)
        unchanged = unchanged and all(module.holds() for module in modules)
        self.version = world.version if unchanged and not (trace.switched or trace.flags) else -1
        self.gradients = -1

    def holds(self) -> bool:
        """Whether everything that the trace read is as it was."""
        if self.gradients != world.gradients:
            now = world.gradients
            if not self._gradients_hold():
                return False
            self.gradients = now
        for module in self.volatile:
            if not module.volatile_holds():
                return False
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
            # A gradient of its own is looked up at each call; a view is bound to its base.
            if grad is None or (expected._view is not None and grad is not expected):
                return False
        return all(tensor._grad is None for tensor in self.without_grad)

    def _holds_whole(self) -> bool:
        return (
            all(
                (flag is None or tensor._requires_grad is flag)
                and tensor._cell is cell
                and tensor._leaf_hooks() == hooks
                for tensor, flag, cell, hooks in self.tensors
            )
            and all(snapshot() == value for snapshot, value in self.watched)
            and all(module.holds() for module in self.modules)
        )
