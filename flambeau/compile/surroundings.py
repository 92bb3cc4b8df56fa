"""What a function finds outside itself: globals, closures, attributes of the objects there.

A trace takes their values into the program. They are read off the function's code: which names it
loads from outside, and which attributes it then asks for. Functions of the user's that it finds in
this way are looked at too; those of libraries are not.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sysconfig
from collections import deque
from collections.abc import Iterator, Mapping
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

from flambeau.compile.errors import OWN_FOLDERS
from flambeau.core.tensor import Tensor

_FOLDERS = ("stdlib", "purelib", "platlib")
_LIBRARIES = (*OWN_FOLDERS, *map(sysconfig.get_path, _FOLDERS), "<frozen")
# What classes have that gives the same at each look, and runs no code of the user's.
_STEADY = (FunctionType, staticmethod, classmethod, MemberDescriptorType)
# Where modules keep their members.
_MEMBERS = ("_parameters", "_buffers", "_modules")
#: Stands for what is not there.
MISSING = object()


class Outside:
    """A value that a function finds outside itself, a slot.

    Args:
        root: Where the way to it begins: a dictionary, a closure cell, a partial function or a
            function with defaults, or the first object.
        key: Its name or position there; ``None`` for the object itself.
        attributes: The attributes that lead on from there.
    """

    __slots__ = ("attributes", "key", "root")

    def __init__(self, root: Any, key: Any, attributes: tuple[str, ...] = ()) -> None:
        self.root = root
        self.key = key
        self.attributes = attributes

    def get(self) -> Any:
        """The value now; `MISSING` if there is none."""
        root = self.root
        if self.key is None:
            value = root
        elif type(root) is dict:
            value = root.get(self.key, MISSING)
        elif type(root) is CellType:
            try:
                value = root.cell_contents
            except ValueError:
                return MISSING
        else:
            value = _find_bound(root, self.key)
        for name in self.attributes:
            value = getattr(value, name, MISSING)
        return value

    def set(self, value: Any) -> None:
        """Put another value there; `MISSING` takes away what is there."""
        root = self.root
        if value is MISSING and not self.attributes:
            if type(root) is dict:
                root.pop(self.key, None)
            elif self.get() is not MISSING:
                del root.cell_contents
        elif self.attributes:
            holder = Outside(root, self.key, self.attributes[:-1]).get()
            _set_attribute(holder, self.attributes[-1], value)
        elif type(root) is dict:
            root[self.key] = value
        elif type(root) is CellType:
            root.cell_contents = value
        else:
            _set_bound(root, self.key, value)

    def identity(self) -> Any:
        """What tells it from others."""
        return id(self.root), self.key, self.attributes

    def __str__(self) -> str:
        name = self.key
        if not isinstance(name, str):
            name = getattr(self.root, "__name__", type(self.root).__name__)
        return ".".join((name, *self.attributes))


def _find_bound(function: Any, key: int | str) -> Any:
    """An argument that ``function``, a partial one or one with defaults, is given by itself."""
    positional, named = _bound(function)
    return named.get(key, MISSING) if isinstance(key, str) else positional[key]


def _set_bound(function: Any, key: int | str, value: Any) -> None:
    positional, named = _bound(function)
    if isinstance(key, str):
        named[key] = value
        return
    changed = (*positional[:key], value, *positional[key + 1 :])
    if isinstance(function, functools.partial):
        state = (function.func, changed, function.keywords, vars(function) or None)
        function.__setstate__(state)  # pyright: ignore[reportAttributeAccessIssue]
    else:
        function.__defaults__ = changed


def _bound(function: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(function, functools.partial):
        return function.args, function.keywords
    return function.__defaults__ or (), function.__kwdefaults__ or {}


def _set_attribute(holder: Any, name: str, value: Any) -> None:
    """Put ``value`` where ``holder`` has its attribute ``name``, past its ``__setattr__``."""
    attributes = getattr(holder, "__dict__", {})
    if isinstance(holder, type):
        type.__setattr__(holder, name, value)
    elif name in attributes:
        attributes[name] = value
    else:
        owner = next((cls for cls in type(holder).__mro__ if name in vars(cls)), None)
        if owner is None or isinstance(vars(owner)[name], MemberDescriptorType):
            object.__setattr__(holder, name, value)
        else:
            setattr(owner, name, value)


def is_module(value: Any) -> bool:
    """Whether ``value`` is a module of layers, whose attributes are watched once it is entered."""
    return "_parameters" in getattr(value, "__dict__", ())


class Surroundings:
    """What some functions find outside themselves.

    Attributes:
        places: Globals, what closures and partial functions hold, attributes of plain objects.
        members: Attributes of modules that the functions ask for by name.
    """

    def __init__(self) -> None:
        self.places: dict[Any, Outside] = {}
        self.members: dict[Any, Outside] = {}
        self._seen: set[Any] = set()

    def explore(self, function: Any, arguments: Mapping[str, Any] | None = None) -> None:
        """Add what a function of the user's takes from outside.

        Args:
            function: A function, a method, a partial function, or an object that can be called;
                others have nothing to add.
            arguments: The objects among its arguments, by name, whose attributes it may ask for.
        """
        positional: tuple[Any, ...] = ()
        held: dict[str, Any] = dict(arguments or {})
        while isinstance(function, functools.partial):
            self._note_bound(function)
            positional = (*function.args, *positional)
            held = {**function.keywords, **held}
            function = function.func
        if not isinstance(function, FunctionType) and "__wrapped__" in getattr(
            function, "__dict__", ()
        ):
            function = function.__wrapped__
        own_call = inspect.getattr_static(type(function), "__call__", None)
        if isinstance(function, MethodType) and isinstance(function.__func__, FunctionType):
            positional = (function.__self__, *positional)
            function = function.__func__
        elif not isinstance(function, FunctionType) and isinstance(own_call, FunctionType):
            positional = (function, *positional)
            function = own_call
        if not isinstance(function, FunctionType):
            return
        code = function.__code__
        held = {**dict(zip(code.co_varnames[: code.co_argcount], positional, strict=False)), **held}
        key = id(code), id(function.__closure__), tuple(map(id, held.values()))
        if key in self._seen or code.co_filename.startswith(_LIBRARIES):
            return
        self._seen.add(key)
        self._note_bound(function)
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        for kind, name, attributes in _loads(code):
            if kind == "global" and name in function.__globals__:
                self._follow(Outside(function.__globals__, name), attributes)
            elif kind == "closure" and name in cells:
                self._follow(Outside(cells[name], name), attributes)
            elif kind == "local" and name in held:
                self._follow(Outside(held[name], None), attributes)

    def _note_bound(self, function: Any) -> None:
        """Note the arguments that ``function`` is given by itself, and that can change inside."""
        positional, named = _bound(function)
        for key, value in (*enumerate(positional), *named.items()):
            if isinstance(value, list | dict | deque):
                self._note(Outside(function, key), value)

    def _follow(self, place: Outside, attributes: tuple[str, ...]) -> None:
        """Go from a name along the attributes that code asks for, as far as objects hold them."""
        value = place.get()
        if place.key is not None:
            self._note(place, value)
        for name in attributes:
            if not _holds(value, name):
                break
            member = Outside(value, None, (name,)) if is_module(value) else None
            place = Outside(place.root, place.key, (*place.attributes, name))
            value = place.get()
            if member is None:
                self._note(place, value)
            elif not _is_steady(value):
                self.members.setdefault(member.identity(), member)
        if callable(value) and not is_module(value):
            self.explore(value)

    def _note(self, place: Outside, value: Any) -> None:
        if not _is_steady(value):
            self.places.setdefault(place.identity(), place)


def _is_steady(value: Any) -> bool:
    """Whether there is nothing to watch: Python's modules do not change, methods are made anew."""
    return isinstance(value, ModuleType | MethodType | BuiltinFunctionType)


def _holds(value: Any, name: str) -> bool:
    """Whether asking ``value`` for an attribute finds it where it was put, and runs no code."""
    kind = type(value)
    own = kind.__module__.partition(".")[0] == "flambeau" and not is_module(value)
    if own or isinstance(value, Tensor):
        return False
    if kind is ModuleType and (getattr(value, "__file__", None) or "<frozen").startswith(
        _LIBRARIES
    ):
        return False
    for cls in kind.__mro__:
        if name in vars(cls):
            found = vars(cls)[name]
            return isinstance(found, _STEADY) or not hasattr(type(found), "__get__")
    attributes = getattr(value, "__dict__", {})
    if not is_module(value):
        return name in attributes
    return name in attributes or any(name in attributes.get(each, ()) for each in _MEMBERS)


class _Load(NamedTuple):
    """A name that code loads or stores, and the attributes that it then asks for or sets."""

    kind: str
    name: str
    attributes: tuple[str, ...]


@functools.lru_cache(maxsize=1024)
def _loads(code: CodeType) -> tuple[_Load, ...]:
    """What ``code``, and the functions defined inside it, load."""
    return tuple(dict.fromkeys(_loads_of(code, frozenset(code.co_freevars))))


def _loads_of(code: CodeType, free: frozenset[str]) -> Iterator[_Load]:
    kind, name, attributes = "", "", []
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR") and kind:
            attributes.append(instruction.argval)
            continue
        if instruction.opname == "COPY" and kind:
            # As in ``x.count += 1``.
            continue
        if kind:
            yield _Load(kind, name, tuple(attributes))
        kind, name, attributes = "", instruction.argval, []
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL"):
            kind = "global"
        elif instruction.opname in ("LOAD_DEREF", "LOAD_CLASSDEREF", "STORE_DEREF"):
            kind = "closure" if name in free else "local"
        elif instruction.opname.startswith("LOAD_FAST"):
            kind = "local"
            # Newer Pythons load two locals at once; what follows is asked of the second.
            name = name[-1] if isinstance(name, tuple) else name
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _loads_of(constant, free)
