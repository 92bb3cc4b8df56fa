"""Reads of a traced function outside itself, noted at the moment of the read.

The program depends on the values of globals, closures and attributes, so each is noted with its
value before the function could change it. Globals and closures are noted when a function starts
whose code names them. Attributes are noted when they are read if the object announces reads, and
otherwise by the names in the code that ran.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
import threading
from collections.abc import Callable, Container, Mapping
from types import FrameType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

from flambeau.compile.guarding.asking import names_of_attributes
from flambeau.compile.guarding.places import Outside, Returned, name_of
from flambeau.compile.of_class import of_class
from flambeau.compile.ownership import (
    definer_of,
    in_class,
    is_module,
    is_of_library,
    is_of_library_class,
    is_of_library_module,
    is_of_machinery,
    is_of_package,
    is_of_user_or_layers,
    is_own,
    state_of,
)
from flambeau.compile.reading import interception
from flambeau.compile.reading.chance import is_of_chance
from flambeau.compile.reading.discovery import is_steady
from flambeau.compile.reading.printing import stop_keeping_printed
from flambeau.compile.reading.reads_by_name import ReadsByName
from flambeau.core.support import naming
from flambeau.core.support.identity import MISSING, Same
from flambeau.core.support.tracebacks import user_line
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.tensor_class import is_own_frame

# Attributes that give the whole state of an object.
_WHOLE = ("__dict__", "__reduce__", "__reduce_ex__", "__getstate__", "__dir__")
# The methods of schedulers and distributions read for the user.
_READING = ("flambeau.optim.lr_scheduler", "flambeau.distributions")
# The code that starts a thread.
_STARTING = threading.Thread.start.__code__
# Descriptions of classes and functions, which cannot announce reads.
_DESCRIBING = {"__name__", "__qualname__", "__doc__", "__module__"}
_STABLE = (FunctionType, staticmethod, classmethod, property, MemberDescriptorType)
_TABLES = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")


class Reads(ReadsByName):
    """The reads of one trace outside. Arguments as for `Discovery`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        #: Whether the trace itself reads now.
        self.paused: bool = True
        #: Whether a place is noted because it is about to be set.
        self.is_writing: bool = False
        #: Attributes and members of modules, with the modules.
        self.members: dict[Outside, Any] = {}
        #: Modules' tables of members and hooks, by module and name, with their contents.
        self.tables: dict[tuple[int, str], tuple[Any, Any]] = {}
        #: The hooks of modules that were called, by the ids of their dictionaries.
        self.hooks: dict[int, tuple[Any, Any]] = {}
        self._entered: set[int] = set()
        # The names of attributes that were set before they were read, as `name_of` gives them.
        self._names_set: set[Any] = set()
        #: Attributes that were read in other threads, by the ids of their objects.
        self.elsewhere: set[tuple[int, str]] = set()
        self._done: set[Any] = set()

    def running(self) -> interception.Running:
        """A block in which the start of functions is noted."""
        kinds = is_of_user_or_layers, is_of_chance, is_of_package
        self._running = interception.Running(
            self.started, lambda file: any(each(file) for each in kinds)
        )
        return self._running

    def unwatched(self) -> contextlib.AbstractContextManager[None]:
        """A block in which only flambeau's own code runs, except layers."""
        return contextlib.nullcontext() if self._running is None else self._running.suspended()

    def started(self, frame: FrameType) -> None:
        """Note the globals and the closure of a function that starts."""
        code, namespace = frame.f_code, frame.f_globals
        if self.paused:
            return
        if is_of_chance(code.co_filename):
            if frame.f_back is not None and not is_of_library(frame.f_back.f_code):
                self._chance.meet_call(frame)
            return
        if code.co_name == "<module>" and "__name__" not in namespace and not self.knows(namespace):
            # Text that runs in a dictionary which the function has made.
            return
        is_known = (code, id(namespace)) in self._done
        is_forward = code.co_name == "forward" and is_of_library(code)
        if is_known and not is_forward:
            return
        self.paused = True
        try:
            self._done.add((code, id(namespace)))
            if is_forward:
                self._note_forward(frame)
            if is_known:
                return
            if is_of_library(code):
                self.tells_stand_ins = self.tells_stand_ins or code is _STARTING
                self._start_layer(code, namespace)
                if is_of_package(code.co_filename):
                    self._note_settings(code, namespace)
            elif not is_of_machinery(code, namespace):
                self._start(code, namespace)
        finally:
            self.paused = False

    def started_again(self, frame: FrameType) -> None:
        """Note what a function reads by name from modules that it has imported by now."""
        self._done.discard((frame.f_code, id(frame.f_globals)))
        self.started(frame)

    def before_read(self, value: Any, name: str) -> None:
        """Note that the attribute ``name`` of an object is about to be read or deleted."""
        if id(value) not in self._known or (id(value), name) in self._done:
            return
        self.paused = True
        try:
            self._read(value, name)
        finally:
            self.paused = False

    def before_write(self, value: Any, name: str) -> None:
        """Note that the attribute ``name`` of an object is about to be set."""
        if id(value) not in self._known:
            return
        own_name = name_of(Outside(value, None, (name,)))
        if own_name not in self.lines:
            self.lines[own_name] = user_line()
        if (id(value), name) in self._done:
            return
        self.paused = self.is_writing = True
        try:
            if _is_watched_elsewhere(type(value)) and not is_module(value) and _is_own_read():
                # For example the state of an optimizer, which is watched by itself.
                return
            self._done.add((id(value), name))
            is_first = own_name not in self._names_read and not _sets_itself(type(value))
            if is_module(value):
                self._note_member(value, name)
            elif name in (state := state_of(value)) or not hasattr(value, "__dict__"):
                self._note_at(value, name)
            else:
                self._note(Outside(state, name, (), self._label(value, name)))
            if is_first:
                self._names_read.discard(own_name)
                self._names_set.add(own_name)
        finally:
            self.paused = self.is_writing = False

    def sets_first(self, slot: Any) -> bool:
        """Whether the function has set an attribute before anything has read it."""
        name = name_of(slot)
        return name in self._names_set and name not in self._names_read

    def has_read(self, value: Any, name: str) -> bool:
        """Whether the function has read or set the attribute ``name`` of an object by now."""
        return name_of(Outside(value, None, (name,))) in self._names_read | self._names_set

    def note_absent(self, tensor: Tensor, name: str) -> None:
        """Note the read of an attribute of ``tensor`` that the user has not set."""
        self._note(Outside(vars(tensor), name, (), f"{type(tensor).__name__}.{name}"))

    def note_attributes(self, tensor: Tensor) -> None:
        """Note all attributes that the user has set on ``tensor``."""
        self._note(Returned(functools.partial(names_of_attributes, tensor)))
        for name in names_of_attributes(tensor):
            self._note_and_discover(Outside(tensor, None, (name,)))

    def note_setting(self, read: Callable[[], Any]) -> None:
        """Note the read of a setting of the process."""
        self.note_result(f"{getattr(read, '__name__', read)}()", read)

    def note_result(self, label: str, read: Callable[[], Any]) -> None:
        """Note that ``read`` must return the same at each call."""
        self._note(Returned(read, label=label))

    def enter(self, module: Any) -> None:
        """Note the values besides those that it reads on which the call of a module depends."""
        # Several handles on a module share one dictionary.
        if id(vars(module)) in self._entered:
            return
        self._entered.add(id(vars(module)))
        cls = type(module)
        self._note(Outside(cls, None, ("forward",)))
        self._know_kind(cls)
        self._note_way_in(cls)
        is_known = self.knows(module)
        if is_known:
            self.discover(module.forward)
        found = hooks_of(module)
        for _, hooks in found:
            for _, hook in hooks:
                self.discover(hook.value)
        if is_known:
            self.hooks[id(vars(module))] = module, found
            self._note_member(module, "_is_full_backward_hook")

    def renew(self, module: Any) -> None:
        """Take the present content of the tables of a module, which has changed for good."""
        for key, (other, _) in [*self.tables.items()]:
            if other is module:
                self.tables[key] = module, content_of(state_of(module).get(key[1], {}))

    def finish(self) -> None:
        """Restore the classes that were changed, and Python's hooks."""
        self.paused = True
        if self._running is not None:
            self._running.stop()
        for cls in self._told:
            interception.stop_telling(cls, self)
        for module in self._told_of:
            interception.stop_telling_of_module(module, self)
        interception.stop_running_imports(self)
        stop_keeping_printed(self)

    def settle(self) -> None:
        """Add places that became known late, and drop others, after the function has run."""
        for owner, name in [*self.elsewhere]:
            value, _ = self._known.get(owner, (None, ""))
            if is_module(value) and (owner, name) not in self._done:
                self._done.add((owner, name))
                self._note_member(value, name)
            self._names_read.add(name_of(Outside(value, None, (name,))))
        for place, value in self._settings.items():
            if place.get() is not value:
                # The package counts in it.
                self.places.pop(place, None)
        for code, functions in self._functions.items():
            # Code may have looked for attributes of functions, by computed names also of those
            # that ran.
            if code not in self._ran or self._computes_names:
                self.states.update({id(each): vars(each) for each in functions})
            if code not in self._ran:
                for cls, name in self._of_class.get(code, ()):
                    if name in self.names:
                        self.note_of_class(cls, name)
        described = [*self._classes, *itertools.chain.from_iterable(self._functions.values())]
        for name in _DESCRIBING & self.names:
            for each in described:
                self._note(Outside(each, None, (name,), f"{each.__name__}.{name}"))
        if "__annotations__" in self.names:
            for each in described:
                read = functools.partial(getattr, each, "__annotations__")
                self._note(Returned(read, label=f"{each.__name__}.__annotations__"))
        if "__subclasses__" in self.names:
            for cls in self._classes:
                self._note(Returned(functools.partial(type.__subclasses__, cls)))

    def _read(self, value: Any, name: str) -> None:
        kind, state = type(value), state_of(value)
        is_layer = is_module(value)
        if _is_watched_elsewhere(kind) and not is_layer and _is_own_read():
            return
        if is_layer and name in _WHOLE and _is_own_read():
            return
        is_of_library = isinstance(value, ModuleType) and is_of_library_module(value.__name__)
        if is_of_library and _is_library_read():
            return
        self._done.add((id(value), name))
        if isinstance(value, ModuleType) and in_class(kind, name) is MISSING:
            self._read_of_module(value, name, state)
        elif name in _WHOLE:
            if isinstance(value, ModuleType):
                self._find_by_name(value, self._known[id(value)][1])
                if name == "__dict__":
                    self._note_all_globals(state)
            else:
                self._read_whole(value, state)
        elif is_layer and (name in _TABLES or name in state or _is_member(state, name)):
            self._note_member(value, name)
        elif not (name.startswith("__") and name.endswith("__")):
            self._read_plain(value, name, kind, state, is_layer)

    def _read_of_module(self, module: ModuleType, name: str, state: dict[str, Any]) -> None:
        self._note_of_module(module, name, self._label(module, name))
        if name not in state and "__getattr__" in state:
            self._note_and_discover(Outside(state, "__getattr__"))

    def _read_plain(
        self, value: Any, name: str, kind: type, state: dict[str, Any], is_layer: bool
    ) -> None:
        definer = definer_of(kind, name)
        member = MISSING if definer is None else vars(definer)[name]
        self.discover(member)
        if definer is None:
            pass
        elif is_of_library_class(definer):
            if not _is_library_read():
                self._note_of_class(kind, name)
        else:
            more = ("__func__",) if isinstance(member, classmethod) else ()
            is_plain = not hasattr(type(member), "__get__")
            if not is_plain and not isinstance(member, _STABLE):
                # The descriptor returns a new value at each read.
                self._note(Returned(functools.partial(in_class, kind, name)))
            if not (is_plain and name in state):
                place = Outside(kind, None, (name, *more), f"{kind.__name__}.{name}")
                self._note_and_discover(place)
        is_of_thread = issubclass(kind, threading.local)
        if is_of_thread or name in state or (member is not MISSING and _is_slot(member)):
            self._note_at(value, name)
        elif hasattr(value, "__dict__"):
            place = Outside(state, name, (), self._label(value, name))
            if is_layer:
                self.members[place] = value
                if member is MISSING:
                    for table in _TABLES[:3]:
                        self._note_member(value, table)
            self._note(place)
        elif member is MISSING:
            self._note_at(value, name)

    def _read_whole(self, value: Any, state: dict[str, Any]) -> None:
        self.states[id(value)] = state
        slots = (n for cls in type(value).__mro__ for n, e in vars(cls).items() if _is_slot(e))
        for name in (*state, *slots):
            if not name.startswith("__"):
                self._done.add((id(value), name))
                (self._note_member if is_module(value) else self._note_at)(value, name)

    def _note_at(self, value: Any, name: str) -> None:
        place = Outside(value, None, (name,), self._label(value, name))
        container = place.get()
        self._note_and_discover(place)
        if is_own(type(value)) and isinstance(container, list | dict):
            # Flambeau's own containers are compared by identity: their members are watched.
            self._note(Returned(functools.partial(len, container), label=f"len({place})"))

    def _note_member(self, module: Any, name: str) -> None:
        """Note the read or write of a member or a plain attribute of a module."""
        state = state_of(module)
        if name in _TABLES or hasattr(type(state.get(name)), "announces_changes"):
            self._note_table(module, name)
            return
        tables = [state.get(each) or {} for each in _TABLES[:3]]
        holder = next((each for each in (state, *tables) if name in each), state)
        place = Outside(holder, name, (), f"{type(module).__name__}.{name}")
        value = place.get()
        if not is_steady(value):
            self.members[place] = module
            self._note(place)
        self.discover(value, place.label)

    def _note_table(self, module: Any, name: str) -> None:
        """Note the content of a table of members or hooks."""
        table = state_of(module).get(name, {})
        if (id(table), name) not in self._done:
            self._done.add((id(table), name))
            self.tables[id(table), name] = module, content_of(table)
            for each in [*table.values()] if isinstance(table, dict) else ():
                self.discover(each)

    def _label(self, value: Any, name: str) -> str:
        label = self._known[id(value)][1] or type(value).__name__
        return f"{label}.{name}"


def content_of(table: Any, left_out: Container[str] = ()) -> Any:
    """The content of a table of members, to be compared by identity, except some names."""
    if isinstance(table, dict):
        # `Same` holds a member, so that no other object gets its id.
        return [(name, Same(each)) for name, each in table.items() if name not in left_out]
    return sorted(table or ())


def hooks_of(module: Any) -> list[tuple[str, Any]]:
    """The hooks of a module: the tables that are not empty, each with its content."""
    return [
        (name, content_of(table))
        for name, table in vars(module).items()
        if hasattr(type(table), "announces_changes") and name not in _TABLES and table
    ]


def _is_member(state: Mapping[str, Any], name: str) -> bool:
    parameters, buffers, modules = map(state.get, _TABLES[:3], ((), (), ()))
    return name in parameters or name in buffers or name in modules


def _is_slot(member: Any) -> bool:
    return type(member).__name__ == "member_descriptor"


def _sets_itself(kind: type) -> bool:
    """Whether a class has a ``__setattr__`` of the user's, which may read the old value."""
    own = (cls for cls in kind.__mro__ if interception.own_method(cls, "__setattr__") is not None)
    return not all(map(is_of_library_class, own))


@of_class
def _is_watched_elsewhere(kind: type) -> bool:
    """Whether reads of these objects by flambeau's own code need no note."""
    return any(
        is_own(cls) and not naming.module_of(cls).startswith(_READING) for cls in kind.__mro__
    )


def _is_own_read() -> bool:
    """Whether flambeau's code reads the attribute that is being noted."""
    frame = _reading(sys._getframe(3))
    return frame is None or is_own_frame(frame)


def _is_library_read() -> bool:
    """Whether code of any library reads the attribute that is being noted."""
    frame = _reading(sys._getframe(3))
    return frame is None or is_of_library(frame.f_code)


def _reading(frame: FrameType | None) -> FrameType | None:
    """The innermost frame, from this one outwards, of the traced code."""
    while frame is not None and (
        frame.f_globals.get("__name__") in (interception.__name__, __name__)
        # `dir` calls the ``__dir__`` of a module.
        or frame.f_code.co_name == "__dir__"
    ):
        frame = frame.f_back
    return frame
