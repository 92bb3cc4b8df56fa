"""Assignments in modules' tables of members, optimizers' state, and tensors' attributes.

``module.weight = Parameter(...)``, `register_buffer` and ``optimizer.state[param]["mean"] = value``
change a table, and ``tensor.note = value`` changes a tensor. A trace remembers the old values, and
each call sets the new ones.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import Any

from flambeau.compile.guarding.asking import attribute
from flambeau.compile.guarding.contents import is_of_trace
from flambeau.compile.guarding.places import Outside
from flambeau.compile.ownership import state_of
from flambeau.core.support.identity import MISSING
from flambeau.core.support.modes import modes
from flambeau.core.values.attributes import OWN_FIELDS, dictionary_of
from flambeau.core.values.before import Before
from flambeau.core.values.tensor import Tensor

_TABLES = ("_parameters", "_buffers", "_modules")


class MemberSnapshot:
    """The tables, and the attributes of tensors, before a trace changed them.

    Args:
        before: Remembers their content.
    """

    def __init__(self, before: Before) -> None:
        self._before = before
        # The tables of modules that existed before the trace, by id: the module and the name.
        self.known: dict[int, tuple[Any, str]] = {}
        self.tables: dict[int, Any] = {}
        # Tables that were empty, mostly of modules that the trace has created.
        self.fresh: list[Any] = []
        # Modules and other objects of the user's, by the ids of their attributes' dictionaries.
        self.holders: dict[int, Any] = {}
        self.attributes: dict[Tensor, None] = {}
        self.ignored: set[Any] = set()

    def know(self, module: Any) -> None:
        """Note that ``module`` existed before the trace."""
        self.know_attributes(module)
        for name in _TABLES:
            table = vars(module).get(name)
            if table is not None:
                self.known.setdefault(id(table), (module, name))

    def know_attributes(self, value: Any) -> None:
        """Note that ``value`` existed before the trace, with its attributes."""
        state = state_of(value)
        if type(state) is dict and not isinstance(value, type | ModuleType | FunctionType):
            self.holders.setdefault(id(state), value)
            self._before.note(value, state_of)

    def touch_attributes(self, tensor: Tensor) -> None:
        """Remember the attributes of a tensor from outside before one is set."""
        self.attributes[tensor] = None
        self._before.note(tensor, dictionary_of)

    def touch(self, table: Any) -> None:
        """Remember the content of a table before it changes."""
        if id(table) not in self.tables:
            if not table and id(table) not in self.known:
                self.fresh.append(table)
            self.tables[id(table)] = table
            self._before.note(table)

    def is_new(self, table: Any) -> bool:
        """Whether a table was empty, and of no module that is known, before it was filled."""
        return id(table) not in self.known and any(each is table for each in self.fresh)

    def changed(self) -> list[Any]:
        """The slots whose values have changed."""
        fresh = {*map(id, self.fresh)}
        slots: list[Any] = []
        for table in self.tables.values():
            if id(table) not in fresh:
                names = self._before.changed_names(table)
                slots += [self._slot(table, name) for name in names]
        for tensor in self.attributes:
            slots += [
                Outside(tensor, None, (name,), f"{type(tensor).__name__}.{name}")
                for name in self._before.changed_names(tensor, dictionary_of)
            ]
        for holder in self.holders.values():
            slots += [
                Outside(state_of(holder), name, (), f"{type(holder).__name__}.{name}")
                for name in self._before.changed_names(holder, state_of)
            ]
        return [slot for slot in slots if slot not in self.ignored]

    def _slot(self, table: Any, name: str) -> Any:
        if id(table) in self.known:
            module, _ = self.known[id(table)]
            return Outside(table, name, (), f"{type(module).__name__}.{name}")
        return Outside(table, name)

    def found(self, place: Outside) -> Any:
        """The value at a place before the trace: the function may have lent the module another."""
        if id(place.root) in self.tables and not place.attributes:
            return self._before.of(place.root).get(place.key, MISSING)
        return place.get()

    def before(self, slot: Any) -> Any:
        """The value before the trace."""
        if slot.attributes:
            before = self._before.of(slot.root, dictionary_of)
            return before.get(slot.attributes[0], MISSING)
        if id(slot.root) in self.holders:
            before = self._before.of(self.holders[id(slot.root)], state_of)
            return before.get(slot.key, MISSING)
        return self._before.of(slot.root).get(slot.key, MISSING)

    def ignore(self, slots: Iterable[Any]) -> None:
        """Stop watching slots that the traced function itself changes."""
        self.ignored.update(slots)

    def drop_tracers(self) -> None:
        """Remove values of the trace from tables that were empty."""
        for table in self.fresh:
            for name in [name for name, value in table.items() if is_of_trace(value)]:
                del table[name]


def notice_attributes(trace: Any) -> None:
    """Report attributes that users set on tensors and read from them, while ``trace`` lasts.

    Only then Tensor has a ``__setattr__`` of its own, which would slow down all other code.
    """
    with _lock:
        _noticing.add(trace)
        Tensor.__setattr__, Tensor.__delattr__ = _set_attribute, _delete_attribute
        Tensor.__getattr__ = _get_attribute


def stop_noticing_attributes(trace: Any) -> None:
    """Undo `notice_attributes`, even if an interrupt ended it."""
    with _lock:
        _noticing.discard(trace)
        if not _noticing:
            for name in ("__setattr__", "__delattr__", "__getattr__"):
                if name in vars(Tensor):
                    delattr(Tensor, name)


_lock = threading.Lock()
# The traces that are active.
_noticing: set[Any] = set()


def _get_attribute(self: Tensor, name: str) -> Any:
    # Python calls this only for missing attributes: the stand-in of an argument has none.
    trace = modes.trace
    if trace is not None and name not in OWN_FIELDS:
        value = trace.ask(self, attribute, name)
        if value is not MISSING:
            return value
    return object.__getattribute__(self, name)


def _set_attribute(self: Tensor, name: str, value: Any) -> None:
    if modes.trace is not None and name not in OWN_FIELDS:
        modes.trace.touch_attributes(self)
    object.__setattr__(self, name, value)


def _delete_attribute(self: Tensor, name: str) -> None:
    if modes.trace is not None and name not in OWN_FIELDS:
        modes.trace.touch_attributes(self)
    object.__delattr__(self, name)
