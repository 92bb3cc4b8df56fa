"""What a traced function reads outside itself, noted at the moment when it is read.

A trace takes the values of globals, closures and attributes into its program, so each of them is
noted with the value that it had before the function could change it. Globals and closures are noted
when a function starts whose code names them; attributes when somebody asks for them, if the object
can tell, and otherwise by the names in the code that ran.
"""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Mapping
from itertools import pairwise
from types import CodeType, FrameType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

from flambeau.compile import interception
from flambeau.compile.asking import names_of_attributes
from flambeau.compile.chance import is_of_chance
from flambeau.compile.discovery import (
    CONTAINERS,
    Discovery,
    functions_in,
    is_steady,
    labelled,
    named_in,
)
from flambeau.compile.names import Names, names_of
from flambeau.compile.ownership import (
    in_class,
    is_module,
    is_of_library,
    is_of_library_class,
    is_of_library_module,
    is_of_package,
    is_of_user_or_layers,
    is_own,
    state_of,
)
from flambeau.compile.places import MISSING, Outside, Returned
from flambeau.core.identity import Same
from flambeau.core.tensor import Tensor
from flambeau.core.tensor_class import is_own_frame

# Attributes that give the whole state of an object, for a copy or a table of it.
_WHOLE = ("__dict__", "__reduce__", "__reduce_ex__", "__getstate__", "__dir__")
# What finds attributes by names that are computed, globals by text, and runs code given as text.
_COMPUTING = {
    "getattr", "hasattr", "vars", "dir", "eval", "exec", "attrgetter", "methodcaller", "__dict__",
    "__getattribute__", "copy", "deepcopy", "asdict", "replace", "fields", "format", "format_map",
}  # fmt: skip
_IMPORTING = {"__import__", "import_module", "modules"}
# What their methods read is what users ask for.
_SCHEDULERS = "flambeau.optim.lr_scheduler"
_OF_FUNCTIONS = {
    "__closure__", "__globals__", "__defaults__", "__kwdefaults__", "__code__", "signature",
    "getfullargspec",
}  # fmt: skip
# What describes classes and functions, and is looked up on them without asking them.
_DESCRIBING = {"__name__", "__qualname__", "__doc__", "__module__"}
_BY_TEXT = {"globals", "eval", "exec", "vars", "locals"}
_FEW = 256
# Packages keep functions, classes and tables in their globals, which stay as they are.
_SETTINGS = (bool, int, float, complex, str, type(None))
_STABLE = (FunctionType, staticmethod, classmethod, property, MemberDescriptorType)
_TABLES = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")


class Reads(Discovery):
    """What one trace has read outside.

    Takes what `Discovery` takes.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        #: While this is true, what is read is read by the trace itself.
        self.paused = True
        #: Attributes of modules, of which the guard compares all if they are called.
        self.members: dict[Outside, Any] = {}
        #: Tables of members of modules, by module and name, with what was in them.
        self.tables: dict[tuple[int, str], tuple[Any, Any]] = {}
        self._done: set[Any] = set()
        # Numbers and texts among the globals of packages, with what they were.
        self._settings: dict[Outside, Any] = {}
        # The names in the code that ran, and whether this may have computed others.
        self._names: set[str] = set()
        self._computes_names = False

    # The events

    def running(self) -> interception.Running:
        """A block in which functions are noted when they start."""
        kinds = is_of_user_or_layers, is_of_chance, is_of_package
        return interception.Running(self.started, lambda file: any(each(file) for each in kinds))

    def started(self, frame: FrameType) -> None:
        """Note what a function that starts finds in its globals and its closure."""
        code, namespace = frame.f_code, frame.f_globals
        if self.paused:
            return
        if is_of_chance(code.co_filename):
            if frame.f_back is not None and not is_of_library(frame.f_back.f_code):
                self._chance.meet_call(frame)
            return
        if (code, id(namespace)) in self._done:
            return
        self.paused = True
        try:
            self._done.add((code, id(namespace)))
            if is_of_library(code):
                self._start_layer(code, namespace)
                if is_of_package(code.co_filename):
                    self._note_settings(code, namespace)
            else:
                self._start(code, namespace)
        finally:
            self.paused = False

    def before_read(self, value: Any, name: str) -> None:
        """Note that the attribute ``name`` of an object is about to be read."""
        if id(value) not in self._known or (id(value), name) in self._done:
            return
        self.paused = True
        try:
            self._read(value, name)
        finally:
            self.paused = False

    def before_write(self, value: Any, name: str) -> None:
        """Note that the attribute ``name`` of an object is about to be set or deleted."""
        if id(value) not in self._known or (id(value), name) in self._done:
            return
        self.paused = True
        try:
            if _keeps_to_itself(type(value)) and not is_module(value) and _is_asked_by_own_code():
                # An optimizer, say, whose state is watched where it is used.
                return
            self._done.add((id(value), name))
            if is_module(value):
                self._note_member(value, name)
            elif name in (state := state_of(value)) or not hasattr(value, "__dict__"):
                self._note_at(value, name)
            else:
                self._note(labelled(Outside(state, name), self._label(value, name)))
        finally:
            self.paused = False

    def note_absent(self, tensor: Tensor, name: str) -> None:
        """Note that ``tensor`` was asked for an attribute that the user has not set."""
        self._note(labelled(Outside(vars(tensor), name), f"{type(tensor).__name__}.{name}"))

    def note_attributes(self, tensor: Tensor) -> None:
        """Note all that the user has set on ``tensor``."""
        self._note(Returned(functools.partial(names_of_attributes, tensor)))
        for name in names_of_attributes(tensor):
            self._note_and_discover(Outside(tensor, None, (name,)))

    def enter(self, module: Any) -> None:
        """Note what calling a module depends on besides the module itself."""
        cls = type(module)
        self._note(Outside(cls, None, ("forward",)))
        self._know_kind(cls)
        for each, base in pairwise(cls.__mro__):
            if is_own(each) and "_call_impl" in vars(base):
                # Where flambeau defines the way in.
                self._note(Outside(each, None, ("__call__",)))
                self._note(Outside(each, None, ("_call_impl",)))
        if not is_own(cls):
            self.states[id(module)] = vars(module)
        if self.knows(module):
            self.discover(module.forward)
        for registry in vars(module).values():
            if hasattr(type(registry), "announces_changes"):
                for hook in registry.values():
                    self.discover(hook)

    def finish(self) -> None:
        """Take back what was done to classes."""
        self.paused = True
        while self._told:
            interception.stop_telling(self._told.pop())
        while self._told_of:
            interception.stop_telling_of_module(self._told_of.pop())

    def settle(self) -> None:
        """Decide what else matters, and what does not, once the function has run."""
        for place, value in self._settings.items():
            if place.get() is not value:
                # The package counts something.
                self.places.pop(place, None)
        for code, functions in self._functions.items():
            # Those that did not run: somebody may have looked for their attributes.
            if code not in self._ran:
                self.states.update({id(each): vars(each) for each in functions})
                for cls, name in self._of_class.get(code, ()):
                    if name in self._names:
                        self.note_of_class(cls, name)
        described = [
            *self._classes,
            *(each for found in self._functions.values() for each in found),
        ]
        for name in _DESCRIBING & self._names:
            for each in described:
                self._note(labelled(Outside(each, None, (name,)), f"{each.__name__}.{name}"))
        if "__subclasses__" in self._names:
            for cls in self._classes:
                self._note(Returned(functools.partial(type.__subclasses__, cls)))

    # Code that runs

    def _start(self, code: CodeType, namespace: dict[str, Any]) -> None:
        if code not in self._ran:
            self._ran[code] = None
            for function in self._functions.get(code, ()):
                self._note_function(function)
            for cls, name in self._of_class.get(code, ()):
                self.note_of_class(cls, name)
        if namespace.get("__name__", "").startswith("namedtuple_"):
            # Python's own, although no file says so.
            return
        names = names_of(code)
        self._note_globals(names, namespace)
        self._note_uncommon(names, namespace)

    def _note_globals(self, names: Names, namespace: dict[str, Any]) -> None:
        """Note the globals that code names, what it imports, and their attributes in its chains."""
        for name in names.globals:
            if name in namespace:
                self._note_and_discover(Outside(namespace, name))
            else:
                self._note(Outside(namespace, name))
                self._find_builtin(name)
        self._note_all(
            Outside(sys.modules, name)
            for name in names.imports
            if name not in sys.modules or not is_of_library_module(name)
        )
        for root, steps in names.chains:
            self._follow(self._root(root, namespace, root in names.imports), root, steps)
        for root in names.bare:
            found = self._root(root, namespace, root in names.imports)
            if isinstance(found, ModuleType):
                self.discover(found, root)

    def _note_uncommon(self, names: Names, namespace: dict[str, Any]) -> None:
        """Note what code may find by names that it has as text, or past the objects themselves."""
        if not _BY_TEXT.isdisjoint(names.globals):
            # Globals, and names in source code, that are asked for by a text.
            for name in names.attributes:
                if name.isidentifier() and not hasattr(builtins, name):
                    self._note_and_discover(Outside(namespace, name))
        new = names.attributes - self._names
        if new:
            self._names |= new
            for value, label in [*self._named]:
                self._note_named(value, label, new)
        if not _COMPUTING.isdisjoint(names.attributes):
            self._expect_names()
        if "__getattribute__" in names.attributes and not self._passes_by:
            self._passes_by = True
            for value, label in [*self._telling]:
                self._find_by_name(value, label)
        if not _IMPORTING.isdisjoint(names.attributes):
            self._note_all(Outside(sys.modules, name) for name in names.attributes)
        if not _OF_FUNCTIONS.isdisjoint(names.attributes):
            self._looks_into_functions = True
            for function in [each for found in self._functions.values() for each in found]:
                self._note_function(function)
                found = self._names.intersection(function.__globals__)
                self._note_all(Outside(function.__globals__, name) for name in found)

    def _find_builtin(self, name: str) -> None:
        found = getattr(builtins, name, MISSING)
        self._chance.meet(found)
        if found is MISSING or getattr(found, "__module__", None) != "builtins":
            self._note_and_discover(Outside(vars(builtins), name))

    def _expect_names(self) -> None:
        if not self._computes_names:
            self._computes_names = True
            for value, label in [*self._named]:
                self._note_named(value, label)

    def _start_layer(self, code: CodeType, namespace: dict[str, Any]) -> None:
        """Note the functions of modules, such as ``nn.functional``, that a layer calls by name."""
        if code.co_name == "forward":
            for root, steps in names_of(code).chains:
                if isinstance(namespace.get(root), ModuleType):
                    self._follow(namespace[root], root, steps[:1])

    def _note_settings(self, code: CodeType, namespace: dict[str, Any]) -> None:
        """Note the numbers and texts among the globals that code of an installed package names."""
        for name in names_of(code).globals:
            value = namespace.get(name, MISSING)
            if isinstance(value, _SETTINGS):
                place = Outside(namespace, name)
                self._settings.setdefault(place, value)
                self._note(place)

    def _run_ahead(self, function: FunctionType) -> bool:
        """Take ``function`` for one that runs, and the functions that it calls by name too.

        Returns:
            Whether they ask objects for attributes, which are only known when they run.
        """
        waiting, seen, asks = [function], set(), False
        for each in waiting:
            code, namespace = each.__code__, each.__globals__
            if is_of_library(code) or code in seen:
                continue
            seen.add(code)
            names = names_of(code)
            roots = [self._root(r, namespace, r in names.imports) for r, _ in names.chains]
            is_plain = not names.asks_others and all(isinstance(r, ModuleType) for r in roots)
            asks = asks or not is_plain
            if code not in self._ran:
                self._functions.setdefault(code, []).append(each)
                self._start(code, namespace)
            found = (namespace.get(name) for name in names.globals)
            waiting += [value for value in found if isinstance(value, FunctionType)]
        return asks

    def _root(self, name: str, namespace: dict[str, Any], is_import: bool) -> Any:
        if not is_import:
            return namespace.get(name)
        package = namespace.get("__package__") or ""
        while name not in sys.modules and package:
            if f"{package}.{name}" in sys.modules:
                return sys.modules[f"{package}.{name}"]
            package = package.rpartition(".")[0]
        return sys.modules.get(name)

    def _follow(self, value: Any, label: str, steps: tuple[str, ...]) -> None:
        """Note the attributes of modules, classes and functions that ``steps`` lead through."""
        for name in steps:
            label = f"{label}.{name}"
            if isinstance(value, ModuleType):
                self._note_of_module(value, name, label)
            elif isinstance(value, FunctionType) and not is_of_library(value.__code__):
                self._note_and_discover(labelled(Outside(vars(value), name), label))
            elif isinstance(value, type) and not is_of_library_class(value):
                self._note_and_discover(labelled(Outside(value, None, (name,)), label))
            else:
                self._chance.meet_date(value, name)
                return
            value = in_class(value, name) if isinstance(value, type) else vars(value).get(name)

    def _note_of_module(self, module: ModuleType, name: str, label: str) -> None:
        found = vars(module).get(name, MISSING)
        if isinstance(found, CONTAINERS) and is_of_library_module(module.__name__):
            # What libraries collect in large ones is their own affair.
            if len(found) <= _FEW:
                place = Returned(functools.partial(getattr, module, name))
                self._note(labelled(place, label))
            return
        if found is MISSING and is_of_library_module(module.__name__):
            return
        self._note_and_discover(labelled(Outside(vars(module), name), label))

    def _read(self, value: Any, name: str) -> None:
        kind, state = type(value), state_of(value)
        is_layer = is_module(value)
        if _keeps_to_itself(kind) and not is_layer and _is_asked_by_own_code():
            return
        self._done.add((id(value), name))
        if isinstance(value, ModuleType) and in_class(kind, name) is MISSING:
            self._read_of_module(value, name, state)
        elif name in _WHOLE:
            if isinstance(value, ModuleType):
                self._find_by_name(value, self._known[id(value)][1])
            elif not is_layer or not _is_asked_by_own_code():
                self._read_whole(value, state)
        elif is_layer and (name in _TABLES or name in state or _is_member(state, name)):
            self._note_member(value, name)
        elif not (name.startswith("__") and name.endswith("__")):
            self._read_plain(value, name, kind, state)

    def _read_of_module(self, module: ModuleType, name: str, state: dict[str, Any]) -> None:
        self._note_of_module(module, name, self._label(module, name))
        if name not in state and "__getattr__" in state:
            self._note_and_discover(Outside(state, "__getattr__"))

    def _read_plain(self, value: Any, name: str, kind: type, state: dict[str, Any]) -> None:
        found = in_class(kind, name)
        self.discover(found)
        if found is not MISSING and not is_of_library_class(_definer(kind, name)):
            more = ("__func__",) if isinstance(found, classmethod) else ()
            is_plain = not hasattr(type(found), "__get__")
            if not is_plain and not isinstance(found, _STABLE):
                # What the class gives is made each time.
                self._note(Returned(functools.partial(in_class, kind, name)))
            if not (is_plain and name in state):
                place = labelled(Outside(kind, None, (name, *more)), f"{kind.__name__}.{name}")
                self._note_and_discover(place)
        if name in state or (found is not MISSING and _is_slot(found)):
            self._note_at(value, name)
        elif hasattr(value, "__dict__"):
            place = labelled(Outside(state, name), self._label(value, name))
            if is_module(value):
                self.members[place] = value
                if found is MISSING:
                    for table in _TABLES[:3]:
                        self._note_member(value, table)
            self._note(place)
        elif found is MISSING:
            self._note_at(value, name)

    def _read_whole(self, value: Any, state: dict[str, Any]) -> None:
        self.states[id(value)] = state
        slots = (n for cls in type(value).__mro__ for n, e in vars(cls).items() if _is_slot(e))
        for name in (*state, *slots):
            if not name.startswith("__"):
                self._done.add((id(value), name))
                (self._note_member if is_module(value) else self._note_at)(value, name)

    def _note_at(self, value: Any, name: str) -> None:
        place = labelled(Outside(value, None, (name,)), self._label(value, name))
        found = place.get()
        self._note_and_discover(place)
        if is_own(type(value)) and isinstance(found, list | dict):
            # Flambeau's own containers are compared by identity, and watched where it uses them.
            self._note(labelled(Returned(functools.partial(len, found)), f"len({place})"))

    def _note_member(self, module: Any, name: str) -> None:
        """Note that a member or a plain attribute of a module is read or set."""
        if name in _TABLES:
            table = state_of(module).get(name, {})
            self.tables.setdefault((id(module), name), (module, content_of(table)))
            for each in table.values() if isinstance(table, dict) else ():
                self.discover(each)
            return
        place = labelled(Outside(module, None, (name,)), f"{type(module).__name__}.{name}")
        value = place.get()
        if not is_steady(value) and not hasattr(type(value), "announces_changes"):
            self.members[place] = module
            self._note(place)
        self.discover(value, place.label)

    def _note_named(self, value: Any, label: str, names: frozenset[str] | None = None) -> None:
        """Note the attributes of an object that cannot tell which are read."""
        state = named_in(value)
        all_of_it = self._computes_names and not isinstance(value, ModuleType)
        for name in (
            [*state] if all_of_it else (self._names if names is None else names).intersection(state)
        ):
            if name.startswith("__") and name.endswith("__"):
                continue
            if isinstance(value, ModuleType):
                self._note_of_module(value, name, f"{label}.{name}")
            elif not isinstance(value, type) or not functions_in(state[name]):
                place = Outside(value, None, (name,))
                self._note_and_discover(labelled(place, f"{label}.{name}" if label else ""))

    def _label(self, value: Any, name: str) -> str:
        label = self._known[id(value)][1] or type(value).__name__
        return f"{label}.{name}"


def content_of(table: Any) -> Any:
    """A table of members in a form that compares by identity."""
    if isinstance(table, dict):
        # Held, so that no other object can take the place of one of them.
        return [(name, Same(each)) for name, each in table.items()]
    return sorted(table or ())


def _is_member(state: Mapping[str, Any], name: str) -> bool:
    return any(name in state.get(table, ()) for table in _TABLES[:3])


def _is_slot(found: Any) -> bool:
    return type(found).__name__ == "member_descriptor"


def _keeps_to_itself(kind: type) -> bool:
    """Whether what flambeau's own code reads of such objects is watched elsewhere."""
    return any(is_own(cls) and not cls.__module__.startswith(_SCHEDULERS) for cls in kind.__mro__)


def _is_asked_by_own_code() -> bool:
    """Whether flambeau's code, not the user's, has asked for the attribute that is being noted."""
    frame = sys._getframe(3)
    while frame is not None and (
        frame.f_globals.get("__name__") in (interception.__name__, __name__)
        # Python's `dir` calls the module's own.
        or frame.f_code.co_name == "__dir__"
    ):
        frame = frame.f_back
    return frame is None or is_own_frame(frame)


def _definer(kind: type, name: str) -> type:
    return next(cls for cls in kind.__mro__ if name in vars(cls))
