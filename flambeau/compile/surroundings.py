"""What a function finds outside itself: globals, closures, attributes of the objects there.

A trace takes their values into the program. Where the code of the user's functions looks for them
is read off that code (`reading`); here each way is gone along the objects that there are. Functions
of the user's that are found so are looked at too; those of libraries are not.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import importlib.util
import sys
import sysconfig
import weakref
from collections import UserDict, UserList, deque
from collections.abc import Iterable, Mapping
from itertools import islice, pairwise
from types import (
    BuiltinFunctionType,
    BuiltinMethodType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

from flambeau.compile.errors import OWN_FOLDERS
from flambeau.compile.places import MISSING, Outside
from flambeau.compile.reading import RESULT, Call, Path, reading_of
from flambeau.core.tensor import Tensor

_FOLDERS = ("stdlib", "purelib", "platlib")
_LIBRARIES = (*OWN_FOLDERS, *map(sysconfig.get_path, _FOLDERS), "<frozen")
_CONTAINERS = (dict, list, tuple, set, frozenset, deque)
_METHODS = (FunctionType, staticmethod, classmethod)
_FUNCTIONS = (FunctionType, MethodType, functools.partial)
_USED_BY_PYTHON = ("__call__", "_call_impl", "__getattr__", "__getattribute__")
_PLAIN_VALUES = (int, float, complex, str, bytes, type(None))
# Of larger containers, the first members stand for all: this many.
_MANY = 64
# How many calls deep functions are looked at.
_DEEP = 40
_NO_STATE: dict[str, Any] = {}


Places = tuple[Outside, ...]


class _Scope:
    """A function, with what its arguments are as far as that is known."""

    def __init__(
        self,
        function: FunctionType,
        args: tuple[Places, ...],
        named: Mapping[str, Places],
        held: Mapping[str, Places],
    ) -> None:
        self.function = function
        self.args = args
        self.named = named
        self.held = held
        self.resolved: dict[Path, Places] = {}


class Surroundings:
    """What some functions find outside themselves.

    Attributes:
        places: Globals, what closures and partial functions hold, attributes of objects, classes.
        members: Attributes of modules that the functions ask for.
        states: Dictionaries of attributes that should not get others.
    """

    def __init__(self) -> None:
        self.places: dict[Outside, None] = {}
        self.members: dict[Outside, None] = {}
        self.states: list[Mapping[str, Any]] = []
        self._seen: dict[Any, Any] = {}
        self._depth = 0

    def explore(self, function: Any, arguments: Mapping[str, Any] | None = None) -> None:
        """Add what a function of the user's takes from outside.

        Args:
            function: A function, a method or a partial function; or an object that can be called.
            arguments: The objects among its arguments, by name, whose attributes it may ask for.
        """
        given = {name: (Outside(each, None),) for name, each in (arguments or {}).items()}
        self._call(Outside(function, None), (), given)

    def enter(self, module: Any) -> None:
        """Add what calling a module depends on besides the module itself."""
        cls = type(module)
        self._note(Outside(cls, None, ("forward",)))
        for each, base in pairwise(cls.__mro__):
            if not is_own(each):
                self._watch_names(each)
            elif "_call_impl" in vars(base):
                # Where flambeau defines the way in.
                self._note(Outside(each, None, ("__call__",)))
                self._note(Outside(each, None, ("_call_impl",)))
        if not is_own(cls):
            self.states.append(vars(module))
        forward = module.forward
        if is_own(cls) and isinstance(forward, MethodType):
            self._look_into_layer(cls, forward)

    def _watch_names(self, cls: type) -> None:
        """Watch whether a class of the user's gets more names, and how Python uses its objects."""
        if cls not in self._seen:
            self._seen[cls] = cls
            self.states.append(vars(cls))
            for name in _USED_BY_PYTHON:
                if name in vars(cls):
                    self._note(Outside(cls, None, (name,)))

    def _look_into_layer(self, cls: type, forward: Any) -> None:
        """Add the functions of modules, such as ``nn.functional``, that a layer calls by name."""
        code = getattr(forward, "__code__", None)
        if code is None or cls in self._seen:
            return
        self._seen[cls] = cls
        found = forward.__func__.__globals__
        for kind, name, steps in reading_of(code).paths:
            if kind == "global" and len(steps) == 1 and isinstance(found.get(name), ModuleType):
                self._attribute(Outside(found[name], None), steps[0])

    def _note(self, place: Outside) -> Outside:
        noted = place
        if place.attributes:
            *before, name = place.attributes
            holder = Outside(place.root, place.key, tuple(before)).get()
            # One place, however one gets there; but names of modules are not watched themselves.
            if not isinstance(holder, ModuleType | MethodType):
                noted = Outside(holder, None, (name,))
                noted.label = str(place)
        if noted not in self.places and not _is_steady(place.get()):
            self.places[noted] = None
        return place

    # Functions

    def _call(self, place: Outside, args: Iterable[Places], named: Mapping[str, Places]) -> None:
        """Look at what is called at ``place``, with arguments that are known in part."""
        if self._depth == _DEEP:
            return
        self._depth += 1
        try:
            self._call_value(place, place.get(), tuple(args), named)
        finally:
            self._depth -= 1

    def _call_value(
        self, place: Outside, value: Any, args: tuple[Places, ...], named: Mapping[str, Places]
    ) -> None:
        if isinstance(value, functools.partial):
            first = [(self._note(Outside(value, i)),) for i in range(len(value.args))]
            more = {name: (self._note(Outside(value, name)),) for name in value.keywords}
            self._call(Outside(value.func, None), (*first, *args), {**more, **named})
        elif isinstance(value, MethodType):
            function, itself = value.__func__, value.__self__
            self._call(Outside(function, None), ((Outside(itself, None),), *args), named)
            if isinstance(itself, type) and isinstance(function, FunctionType):
                self._call_back(itself, function)
        elif isinstance(value, FunctionType):
            self._enter_function(value, args, named)
        elif isinstance(value, type):
            self._call_of_class(value, "__init__", ((), *args), named)
        elif is_module(value):
            self._call(Outside(value, None, ("forward",)), args, named)
        elif "__wrapped__" in _state_of(value):
            self._call(place.at("__wrapped__"), args, named)
        elif value is builtins.getattr and len(args) > 1:
            for name in (each.get() for each in args[1]):
                for each in args[0] if isinstance(name, str) else ():
                    self._attribute(each, name)
        elif isinstance(value, BuiltinFunctionType):
            self._hand_over(args, named)
        else:
            self._call_of_class(type(value), "__call__", ((place,), *args), named)

    def _call_of_class(
        self, cls: type, name: str, args: Iterable[Places], named: Mapping[str, Places]
    ) -> None:
        """Look at a method that Python looks up on the class."""
        found = _in_class(cls, name)
        if isinstance(found, FunctionType) and not _is_of_library(found.__code__):
            self._note(Outside(cls, None, (name,)))
            self._call(Outside(found, None), args, named)
        elif found is not MISSING:
            self._hand_over(tuple(args), named)

    def _enter_function(
        self, function: FunctionType, args: tuple[Places, ...], named: Mapping[str, Places]
    ) -> None:
        code = function.__code__
        if _is_of_library(code):
            wrapped = getattr(function, "__wrapped__", None)
            if wrapped is not None:
                self._call(Outside(wrapped, None), args, named)
            self._hand_over(args, named)
            return
        count = code.co_argcount
        held = {**dict(zip(code.co_varnames[:count], args, strict=False)), **named}
        held = {name: places for name, places in held.items() if places}
        key = id(function), *((n, *map(_identity, places)) for n, places in held.items())
        if key in self._seen:
            return
        self._seen[key] = function, held
        self._note(Outside(function, None, ("__code__",)))
        last = range(len(function.__defaults__ or ()))
        keys: dict[str, int | str] = dict(
            zip(code.co_varnames[count - len(last) : count], last, strict=True)
        )
        keys.update({name: name for name in function.__kwdefaults__ or {}})
        by_default = {name: (self._note(Outside(function, key)),) for name, key in keys.items()}
        held = {**by_default, **held}
        scope = _Scope(function, args, named, held)
        reading = reading_of(code)
        for path in reading.paths:
            self._resolve(path, scope)
        for call in reading.calls:
            self._follow_call(call, scope)

    def _follow_call(self, call: Call, scope: _Scope) -> None:
        callees = self._resolve(call.callee, scope)
        if not callees:
            return
        args = tuple(self._resolve_all(each, scope) for each in call.args)
        count = len(args) - len(call.keywords)
        named: Mapping[str, Places] = dict(zip(call.keywords, args[count:], strict=True))
        if call.passes_on:
            args, named, count = scope.args, scope.named, len(scope.args)
        for callee in callees:
            for each in (callee,) if callable(callee.get()) else _with_members(callee):
                self._call(each, args[:count], named)

    def _call_back(self, cls: type, function: FunctionType) -> None:
        """Look at what a class method of a library may call: the methods of the user's class."""
        if is_own(cls) or not _is_of_library(function.__code__):
            return
        for each in cls.__mro__:
            if not is_own(each) and not _is_of_library_class(each):
                for name, found in vars(each).items():
                    if isinstance(found, _METHODS) and not name.startswith("__"):
                        self._watch_class(each, name)
                        self._call(Outside(getattr(found, "__func__", found), None), (), {})

    def _hand_over(self, args: Iterable[Places], named: Mapping[str, Places]) -> None:
        """Look at what is given to code that is not read: it may call it, or copy what it holds."""
        for place in (each for places in (*args, *named.values()) for each in places):
            value = place.get()
            if isinstance(value, _FUNCTIONS):
                self._call(place, (), {})
            elif isinstance(value, UserDict | UserList):
                self._note(place.at("data"))
            elif isinstance(value, SimpleNamespace) or (
                dataclasses.is_dataclass(value) and not isinstance(value, type)
            ):
                for name in _state_of(value):
                    self._attribute(place, name)

    # Ways

    def _resolve_all(self, paths: Iterable[Path], scope: _Scope) -> Places:
        return tuple(place for path in paths for place in self._resolve(path, scope))[:_MANY]

    def _resolve(self, path: Path, scope: _Scope) -> Places:
        """What is at the end of a way now."""
        places = scope.resolved.get(path)
        if places is None:
            if path.steps:
                *before, step = path.steps
                start = self._resolve(path._replace(steps=tuple(before)), scope)
                found = [each for place in start for each in self._go(place, step)]
                places = tuple(found[:_MANY])
            else:
                places = self._begin(path, scope)
            scope.resolved[path] = places
        return places

    def _begin(self, path: Path, scope: _Scope) -> Places:
        kind, name, _ = path
        function = scope.function
        if kind == "global":
            if name in function.__globals__:
                return (self._note(Outside(function.__globals__, name)),)
            return (Outside(vars(builtins), name),) if hasattr(builtins, name) else ()
        if kind == "local":
            return scope.held.get(name, ())
        if kind == "constant":
            return (Outside(name, None),)
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        if kind == "closure":
            return (self._note(Outside(cells[name], name)),) if name in cells else ()
        if kind == "import":
            if name.startswith("."):
                package = function.__globals__.get("__package__") or ""
                name = importlib.util.resolve_name(name, package) if package else ""
            return (Outside(sys.modules[name], None),) if name in sys.modules else ()
        if kind == "super" and "__class__" in cells:
            cls = cells["__class__"].cell_contents
            first = scope.held.get(function.__code__.co_varnames[0], ())
            fits = (place.get() for place in first)
            return tuple(Outside(super(cls, it), None) for it in fits if isinstance(it, cls))
        return ()

    def _go(self, place: Outside, step: str) -> Places:
        if step == RESULT:
            return self._result(place.get())
        starts = _with_members(place)
        return tuple(each for start in starts for each in self._attribute(start, step))

    def _result(self, value: Any) -> Places:
        """What calling ``value`` gives, as far as that is known without calling it."""
        if isinstance(value, type):
            # A new object finds its methods on its class.
            return (Outside(value, None),)
        if isinstance(value, MethodType | BuiltinMethodType) and _is_container(value.__self__):
            # What is in it, or another container with that.
            return (Outside(value.__self__, None),)
        referent = value() if type(value) is weakref.ref else None
        return () if referent is None else (Outside(referent, None),)

    def _attribute(self, place: Outside, name: str) -> Places:
        """What asking for an attribute gives, unless that would run code."""
        value: Any = place.get()
        kind: type = type(value)
        if isinstance(value, _PLAIN_VALUES) or value is MISSING:
            return ()
        if isinstance(value, Tensor):
            return (self._note(place.at(name)),) if name in value._user_attributes() else ()
        if isinstance(value, ModuleType):
            return self._module_attribute(value, place, name)
        if isinstance(value, type):
            return self._class_attribute(value, place, name)
        itself, state = place, _state_of(value)
        if kind is super:
            itself, state = Outside(value.__self__, None), _NO_STATE
            order = type(value.__self__).__mro__
            above = order[order.index(value.__thisclass__) + 1 :]
            kind = next((cls for cls in above if name in vars(cls)), object)
        is_layer = is_module(itself.get())
        if is_own(kind) and not is_layer:
            return ()
        found = _in_class(kind, name)
        if isinstance(found, property):
            self._watch_class(kind, name)
            self._call(Outside(found.fget, None), ((itself,),), {})
            return ()
        if name in state:
            return (self._member(value, name) if is_layer else self._note(place.at(name)),)
        if found is MISSING:
            return self._missing(place, value, state if is_layer else {}, name)
        if isinstance(found, _METHODS):
            self._watch_class(kind, name)
            if not is_layer and state is not _NO_STATE:
                self._note(Outside(state, name))
            return (place.at(name),)
        if hasattr(type(found), "__get__") and not isinstance(found, MemberDescriptorType):
            self._watch_class(kind, name)
            self._call_of_class(type(found), "__get__", ((Outside(found, None),), (itself,)), {})
            return ()
        is_shared = is_layer or itself is not place
        return (self._note(Outside(kind, None, (name,)) if is_shared else place.at(name)),)

    def _module_attribute(self, value: ModuleType, place: Outside, name: str) -> Places:
        if name not in vars(value):
            return ()
        place = place.at(name)
        # What libraries collect in containers is their own affair.
        if isinstance(vars(value)[name], _CONTAINERS) and _is_of_library_module(value.__name__):
            return ()
        return (self._note(place),)

    def _class_attribute(self, cls: type, place: Outside, name: str) -> Places:
        found = _in_class(cls, name)
        if found is MISSING and _in_class(type(cls), name) is not MISSING:
            return (self._note(place.at(name)),)
        if found is MISSING or is_own(cls):
            return (place.at(name),) if isinstance(found, _METHODS) else ()
        if isinstance(found, classmethod):
            self._note(place.at(name, "__func__"))
            return (place.at(name),)
        plain = isinstance(found, _METHODS) or not hasattr(type(found), "__get__")
        return (self._note(place.at(name)),) if plain else ()

    def _missing(self, place: Outside, value: Any, state: dict[str, Any], name: str) -> Places:
        """What `__getattr__` finds."""
        for table in ("_parameters", "_modules", "_buffers"):
            if name in state.get(table, ()):
                return (self._member(value, name),)
        self._call_of_class(type(value), "__getattr__", ((place,), (Outside(name, None),)), {})
        return ()

    def _watch_class(self, cls: type, name: str) -> None:
        if not _is_of_library_class(cls):
            found = _in_class(cls, name)
            more = ("__func__",) if isinstance(found, classmethod) else ()
            self._note(Outside(cls, None, (name, *more)))

    def _member(self, module: Any, name: str) -> Outside:
        place = Outside(module, None, (name,))
        value = place.get()
        if not _is_steady(value) and not hasattr(type(value), "announces_changes"):
            self.members[place] = None
        return place


def is_module(value: Any) -> bool:
    """Whether ``value`` is a module of layers, whose attributes are watched once it is entered."""
    return "_parameters" in _state_of(value)


def _is_steady(value: Any) -> bool:
    """Whether there is nothing to watch: Python's modules do not change, methods are made anew."""
    return isinstance(value, ModuleType | MethodType | BuiltinFunctionType)


def _is_container(value: Any) -> bool:
    is_of_modules = "_modules" in _state_of(value) and hasattr(type(value), "__getitem__")
    return is_of_modules or isinstance(value, _CONTAINERS)


def _members(container: Any) -> Iterable[Any]:
    if isinstance(container, dict):
        return dict.values(container)
    kinds: tuple[Any, ...] = tuple(each for each in _CONTAINERS if isinstance(container, each))
    return kinds[0].__iter__(container) if kinds else _state_of(container)["_modules"].values()


def _with_members(place: Outside) -> list[Outside]:
    """``place`` and, of a container, what is in it, and in those in it."""
    found, known = [place], set()
    for each in found:
        value = each.get()
        if id(value) not in known and _is_container(value) and len(found) < _MANY * _MANY:
            known.add(id(value))
            members = (e for e in _members(value) if not isinstance(e, _PLAIN_VALUES))
            found += [Outside(member, None) for member in islice(members, _MANY)]
    return found


def _state_of(value: Any) -> dict[str, Any]:
    """The attributes of an object; no code of the user's runs."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return _NO_STATE


def _identity(place: Outside) -> Any:
    """What tells the value at ``place`` from others."""
    value = place.get()
    is_method = isinstance(value, MethodType)
    return (id(value.__self__), id(value.__func__)) if is_method else id(value)


def _in_class(cls: type, name: str) -> Any:
    """What instances of ``cls`` find on their class."""
    for each in cls.__mro__:
        if name in vars(each):
            return vars(each)[name]
    return MISSING


def is_own(cls: type) -> bool:
    """Whether a class is flambeau's."""
    return cls.__module__.partition(".")[0] == "flambeau"


def _is_of_library(code: CodeType) -> bool:
    return code.co_filename.startswith(_LIBRARIES)


@functools.lru_cache(maxsize=1024)
def _is_of_library_module(name: str) -> bool:
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return name != "__main__" and name in sys.builtin_module_names
    return file.startswith(_LIBRARIES)


def _is_of_library_class(cls: type) -> bool:
    return _is_of_library_module(cls.__module__)
