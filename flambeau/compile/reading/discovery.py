"""Objects from outside that a trace can reach, and how each of them is watched.

An object is outside if it was reached from outside: as an argument, a global of a function that
ran, a member of a closure or a container, or an attribute of another object from outside. Objects
that the traced function creates are never watched.
"""

from __future__ import annotations

import abc
import functools
import gc
import logging
import operator
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from itertools import pairwise
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from flambeau.compile.errors import CompileError
from flambeau.compile.guarding.freezing import has_content
from flambeau.compile.guarding.places import Outside, Returned, Variable, name_of
from flambeau.compile.ownership import (
    NO_STATE,
    is_module,
    is_of_library,
    is_of_library_class,
    is_of_library_module,
    is_own,
    module_of,
    state_of,
)
from flambeau.compile.reading import interception
from flambeau.compile.reading.caches import CACHED, results_of
from flambeau.compile.reading.chance import MODULES, Chance
from flambeau.compile.reading.own_state import OwnState
from flambeau.core.support import naming
from flambeau.core.support.identity import MISSING
from flambeau.core.values.before import Before
from flambeau.core.values.tensor import Tensor

CONTAINERS = (dict, list, tuple, set, frozenset, deque)
_PLAIN_TYPES = {
    int, float, bool, complex, str, bytes, type(None), range, slice, CodeType,
}  # fmt: skip
_USED_BY_PYTHON = ("__call__", "_call_impl", "__getattr__")
#: Inspect at most this many objects in a container.
MANY = 4096
# The packages of flambeau's objects, besides modules, whose attributes users read and set.
_TELLING_PACKAGES = ("flambeau.optim", "flambeau.distributions")
# Packages whose objects hold no state of the user's.
_MACHINERY = ("flambeau", "jax", "jaxlib", "numpy", "functools", "typing", "abc")


class Discovery:
    """The objects from outside that one trace has reached.

    Args:
        prepare: Notes the value of a place before the function can change it.
        know: Called with each module; ``know_attributes`` with each other object of the user's.
        before: Remembers the content of objects.
        chance: Watches generators, iterators and files.
    """

    def __init__(
        self,
        prepare: Callable[[Outside], None],
        know: Callable[[Any], None],
        know_attributes: Callable[[Any], None],
        before: Before,
        chance: Chance,
    ) -> None:
        self._prepare = prepare
        self._know, self._know_attributes = know, know_attributes
        self._chance = chance
        #: The state of flambeau's own objects, except modules.
        self.own = OwnState(before)
        #: The places that were read or set.
        self.places: dict[Outside, None] = {}
        # The names of those that were read, as `name_of` gives them.
        self._names_read: set[Any] = set()
        #: Modules, with the class that each had when it was found.
        self.modules: list[tuple[Any, type]] = []
        #: Containers that were inspected in part.
        self.left_out: dict[str, None] = {}
        #: Dictionaries to which the function should add no names.
        self.states: dict[int, Mapping[str, Any]] = {}
        # The objects, by id, each with the name of its place.
        self._known: dict[int, tuple[Any, str]] = {}
        self._told: list[type] = []
        self._told_of: list[ModuleType] = []
        self._running: interception.Running | None = None
        # Objects that announce reads, and whether code that ran may read them unannounced.
        self._telling: list[tuple[Any, str]] = []
        self._passes_by = False
        self._classes: dict[type, None] = {}
        self._functions: dict[CodeType, list[FunctionType]] = {}
        self._of_class: dict[CodeType, list[tuple[type, str]]] = {}
        # Whether code that ran may inspect functions without calling them.
        self._looks_into_functions = False
        # The code of the functions that ran.
        self._ran: dict[CodeType, None] = {}
        # Objects whose attributes are found by the names in that code.
        self._named: list[tuple[Any, str]] = []

    def knows(self, value: Any) -> bool:
        """Whether ``value`` was reached from outside."""
        return id(value) in self._known

    def named_states(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The dictionaries in `states`, each with the name of the object that has it."""
        named: list[tuple[str, Mapping[str, Any]]] = []
        for key, state in self.states.items():
            value, label = self._known.get(key, (None, "an object"))
            named.append((label or type(value).__name__, state))
        return named

    def discover(self, value: Any, label: str = "") -> None:
        """Note that ``value`` and the objects in it come from outside."""
        waiting = [(value, label)]
        for each, name in waiting:
            if type(each) in _PLAIN_TYPES or id(each) in self._known:
                continue
            check_class(each)
            self._known[id(each)] = each, name
            inner = [m for m in self._inside(each, name) if type(m) not in _PLAIN_TYPES]
            if not inner:
                continue
            room = MANY - len(waiting)
            if len(inner) > room and not all(map(_is_plain_tensor, inner[room:])):
                self.left_out[name or type(each).__name__] = None
            waiting += [(member, "") for member in inner[: max(room, 0)]]

    def _inside(self, value: Any, label: str) -> Iterable[Any]:
        """The objects that are reached from ``value``."""
        kind = type(value)
        if isinstance(value, Tensor):
            if value._user_attributes():
                self._find_by_name(value, label)
            return [hook for hooks in value._leaf_hooks() for _, hook in hooks]
        if isinstance(value, FunctionType):
            return self._know_function(value, label)
        if isinstance(value, MethodType):
            return value.__func__, value.__self__
        if isinstance(value, functools.partial):
            held = [*range(len(value.args)), *value.keywords]
            self._note_all(Outside(value, key) for key in held)
            self.states[id(value.keywords)] = value.keywords
            self._find_by_name(value, label)
            self._chance.meet(value.func)
            return [value.func]
        if isinstance(value, operator.attrgetter | operator.methodcaller):
            self._expect_names()
            return ()
        if isinstance(value, BuiltinFunctionType):
            if not isinstance(value.__self__, ModuleType):
                # For example a method of a container, bound under another name.
                self._note_and_discover(Outside(value, None, ("__self__",)))
            return ()
        if isinstance(value, functools.partialmethod):
            return value.func, *value.args, *value.keywords.values()
        if isinstance(value, ModuleType):
            if not is_of_library_module(value.__name__) or value in MODULES:
                self._let_tell(value, label)
                self._telling.append((value, label))
                if self._passes_by:
                    self._find_by_name(value, label)
            return ()
        if isinstance(value, type):
            self._chance.meet_class(value)
            return self._know_class(value)
        if isinstance(value, weakref.ref):
            self._note_and_discover(Returned(value))
            return ()
        if kind in weakref.ProxyTypes:
            # A proxy hides its referent, but its methods are bound to the referent.
            return [Outside(value, None, ("__setattr__", "__self__")).get()]
        if isinstance(value, ContextVar):
            self._note_and_discover(Variable(value.get, label=value.name))
            return ()
        if isinstance(value, np.ndarray):
            members = value.flat if value.dtype == object else ()
            return [*members, *(self._know_object(value, kind, label) if state_of(value) else ())]
        members = _members(value)
        if module_of(kind) in ("builtins", "collections") and members is not None:
            return members
        return [*(members or ()), *self._know_object(value, kind, label)]

    def _let_tell(self, module: ModuleType, label: str) -> None:
        """Make a Python module announce reads of its attributes."""
        if module not in self._told_of:
            self._known.setdefault(id(module), (module, label))
            self._told_of.append(module)
            interception.tell_of_module(module, self)

    def _know_object(self, value: Any, kind: type, label: str) -> Iterable[Any]:
        if issubclass(kind, logging.StreamHandler) and is_of_library_class(kind):
            # Its file moves when it is written to, as by `print`.
            return ()
        self._chance.discover(value)
        if is_module(value):
            self.modules.append((value, kind))
            self._note_way_in(kind)
            self._know(value)
        if kind is CACHED and not is_of_library_module(value.__module__):
            # Its earlier results may be objects that the function reads.
            results = [*results_of(value)]
            self._know_containers(results, f"the cache of {value.__name__}()")
            return [value.__wrapped__, *results]
        if is_own(kind) and not is_module(value):
            self.own.know(value)
            if naming.module_of(kind).startswith(_TELLING_PACKAGES):
                if hasattr(kind, "step"):
                    # Users derive from optimizers and schedulers, and replace their methods.
                    self._note(Outside(kind, None, ("step",)))
                    self._note_class(value, kind, label)
                self._tell(value, kind, label)
            return [*state_of(value).values()]
        if not is_own(kind):
            self._know_kind(kind)
            if not is_module(value):
                self._know_attributes(value)
        if naming.module_of(kind).partition(".")[0] in _MACHINERY and not is_module(value):
            return ()
        if interception.can_tell(kind):
            if not is_module(value):
                self._note_class(value, kind, label)
            self._tell(value, kind, label)
        elif state_of(value) is not NO_STATE:
            self._find_by_name(value, label)
        else:
            # For example an iterator or a generator, with the object that it iterates over.
            return [e for e in gc.get_referents(value) if not isinstance(e, ModuleType)]
        return ()

    def _know_containers(self, values: list[Any], label: str) -> None:
        """Note the values with content among ``values`` and inside them."""
        waiting, known = [*values], set[int]()
        for each in waiting:
            if id(each) not in known and has_content(each):
                known.add(id(each))
                self._note(Returned(functools.partial(_itself, each), label=label))
                waiting += (_members(each) or ())[: max(MANY - len(waiting), 0)]

    def _note_way_in(self, kind: type) -> None:
        """Note the methods by which modules of a class are called, where flambeau defines them."""
        for cls, base in pairwise(kind.__mro__):
            if is_own(cls) and "_call_impl" in vars(base):
                self._note(Outside(cls, None, ("__call__",)))
                self._note(Outside(cls, None, ("_call_impl",)))

    def _tell(self, value: Any, kind: type, label: str) -> None:
        if kind not in self._told:
            self._told.append(kind)
            interception.tell(kind, self)
        self._telling.append((value, label))
        if self._passes_by:
            self._find_by_name(value, label)

    def _note_class(self, value: Any, kind: type, label: str) -> None:
        # Python finds operators on the class without asking the object.
        self._note(Outside(value, None, ("__class__",), f"{label or kind.__name__}.__class__"))

    def _know_function(self, function: FunctionType, label: str) -> Iterable[Any]:
        code = function.__code__
        wrapped = [state_of(function)["__wrapped__"]] if "__wrapped__" in state_of(function) else []
        if "registry" in state_of(function):
            # Implementations that were registered with `functools.singledispatch`.
            self._note_and_discover(Outside(function, None, ("registry",)))
        if is_of_library(code):
            held = (Outside(cell, "").get() for cell in function.__closure__ or ())
            read = [os.environ] if function is os.getenv else []
            return [*wrapped, *read, *(each for each in held if callable(each))]
        self._functions.setdefault(code, []).append(function)
        for place in defaults_of(function):
            # Once the function has started it is too late.
            self._prepare(place)
        if state_of(function):
            self._find_by_name(function, label or function.__name__)
        if code in self._ran or self._looks_into_functions:
            self._note_function(function)
        return wrapped

    def _know_class(self, cls: type) -> Iterable[Any]:
        if is_own(cls) or is_of_library_class(cls):
            return ()
        self._know_kind(cls)
        if isinstance(cls, abc.ABCMeta):
            # The token changes when a class is registered.
            self._note(Returned(abc.get_cache_token))
        return [type(cls)] if type(cls) is not type else ()

    def _know_kind(self, kind: type) -> None:
        """Watch the methods that ``kind`` and the classes above it define."""
        for cls in kind.__mro__:
            if cls in self._classes or is_own(cls) or is_of_library_class(cls):
                continue
            self._classes[cls] = None
            self._find_by_name(cls, cls.__name__)
            self._note(Outside(cls, None, ("__bases__",)))
            for name in _USED_BY_PYTHON:
                if name in vars(cls):
                    self._note(Outside(cls, None, (name,)))
            for name in interception.METHODS:
                if name in vars(cls):
                    own = functools.partial(interception.own_method, cls, name)
                    self._note(Returned(own, label=f"{cls.__name__}.{name}"))
            for name, found in [*vars(cls).items()]:
                for function in functions_in(found):
                    self._known.setdefault(id(function), (function, name))
                    self._know_function(function, f"{cls.__name__}.{name}")
                    if name not in interception.METHODS:
                        self._of_class.setdefault(function.__code__, []).append((cls, name))
                        if function.__code__ in self._ran:
                            self.note_of_class(cls, name)

    def _find_by_name(self, value: Any, label: str) -> None:
        """Watch those attributes of an object that code names, as it cannot announce reads."""
        self._named.append((value, label))
        if isinstance(value, threading.local):
            # Each thread has a dictionary of its own.
            self._note(Returned(functools.partial(_names_in, value), label=f"names in {label}"))
        elif not isinstance(value, Tensor):
            self.states[id(value)] = named_in(value)
        self._note_named(value, label)

    def _note(self, place: Outside) -> None:
        self.places[place] = None
        self._names_read.add(name_of(place))
        self._prepare(place)

    def _note_all(self, places: Iterable[Outside]) -> None:
        for place in places:
            self._note_and_discover(place)

    def _note_and_discover(self, place: Outside) -> None:
        value = place.get()
        check_class(value)
        if not is_steady(value):
            self._note(place)
        if value is not MISSING:
            self.discover(value, str(place))

    def _note_function(self, function: FunctionType) -> None:
        code = function.__code__
        self._note(Outside(function, None, ("__code__",)))
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        self._note_all(Outside(cell, name) for name, cell in cells)
        self._note_all(defaults_of(function))

    def note_of_class(self, cls: type, name: str) -> None:
        """Note an attribute that the class itself defines."""
        member = vars(cls).get(name)
        more = ("__func__",) if isinstance(member, classmethod) else ()
        self._note(Outside(cls, None, (name, *more), f"{cls.__name__}.{name}"))

    def _note_named(self, value: Any, label: str, names: frozenset[str] | None = None) -> None:
        """Note the attributes of an object whose names are in code that ran."""
        raise NotImplementedError(f"{type(self).__name__} does not know names")

    def _expect_names(self) -> None:
        """Assume that code may read any name."""
        raise NotImplementedError(f"{type(self).__name__} does not know names")


def _itself(value: Any) -> Any:
    return value


def _members(value: Any) -> list[Any] | None:
    for kind in CONTAINERS:
        if isinstance(value, kind):
            own: Any = kind
            keys = [*own.__iter__(value)]
            return [*keys, *dict.values(value)] if isinstance(value, dict) else keys
    return None


def _is_plain_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) and not value._user_attributes()


def named_in(value: Any) -> Mapping[str, Any]:
    """The attributes of an object that cannot announce reads."""
    return value._user_attributes() if isinstance(value, Tensor) else state_of(value)


def _names_in(value: Any) -> tuple[str, ...]:
    return tuple(state_of(value))


def defaults_of(function: FunctionType) -> list[Outside]:
    """The places of a function's default arguments."""
    keys = [*range(len(function.__defaults__ or ())), *(function.__kwdefaults__ or {})]
    return [Outside(function, key) for key in keys]


def functions_in(found: Any) -> list[FunctionType]:
    """The functions behind a member of a class, such as a method or a property."""
    if isinstance(found, FunctionType):
        return [found]
    names = ("__func__", "fget", "fset", "func", "__wrapped__")
    parts = [] if isinstance(found, type) else [getattr(found, each, None) for each in names]
    return [each for each in parts if isinstance(each, FunctionType)]


def check_class(value: Any) -> None:
    """Fail if ``value.__class__`` is not readable, since `isinstance` needs it.

    Raises:
        CompileError: Its ``__getattribute__`` raises, or returns no class.
    """
    kind = type(value)
    if type(kind.__getattribute__) is not FunctionType:
        return
    try:
        cls = value.__class__
    except Exception:  # noqa: BLE001 (the user's method may raise anything)
        cls = None
    if not issubclass(type(cls), type):
        raise CompileError(
            f"the __getattribute__ of {kind.__name__} does not give __class__, so its objects "
            "cannot be watched; let it return object.__getattribute__(self, name) for this name"
        )


def is_steady(value: Any) -> bool:
    """Whether a place that holds ``value`` needs no watch, as it holds a library's module."""
    return isinstance(value, ModuleType) and is_of_library_module(value.__name__)
