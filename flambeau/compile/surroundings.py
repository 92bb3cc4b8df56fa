"""What a function finds outside itself: globals, closures, attributes of the objects there.

A trace takes their values into the program. They are read off the function's code: which names it
loads from outside, and which attributes it then asks for. Functions of the user's that it finds in
this way are looked at too; those of libraries are not.
"""

from __future__ import annotations

import dis
import functools
import sysconfig
from collections.abc import Iterator, Mapping
from types import (
    BuiltinFunctionType,
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
_MISSING = object()


class Outside:
    """A value that a function finds outside itself.

    Args:
        root: The dictionary, closure cell or object where the way to it begins.
        key: Its name there; ``None`` for the object itself.
        attributes: The attributes that lead on from there.
    """

    __slots__ = ("attributes", "key", "root")

    def __init__(self, root: Any, key: str | None, attributes: tuple[str, ...] = ()) -> None:
        self.root = root
        self.key = key
        self.attributes = attributes

    def find(self) -> Any:
        """The value now; a mark of its own if there is none."""
        root = self.root
        if self.key is None:
            value = root
        elif type(root) is dict:
            value = root.get(self.key, _MISSING)
        else:
            try:
                value = root.cell_contents
            except ValueError:
                return _MISSING
        for name in self.attributes:
            value = getattr(value, name, _MISSING)
        return value

    def identity(self) -> Any:
        """What tells it from others."""
        return id(self.root), self.key, self.attributes

    def __str__(self) -> str:
        first = type(self.root).__name__ if self.key is None else self.key
        return ".".join((first, *self.attributes))


class Surroundings:
    """What some functions find outside themselves."""

    def __init__(self) -> None:
        self.places: dict[Any, Outside] = {}
        self._seen: set[Any] = set()

    def explore(self, function: Any, arguments: Mapping[str, Any] | None = None) -> None:
        """Add what a function of the user's takes from outside.

        Args:
            function: A function, a method or a partial function; others have nothing to add.
            arguments: The objects among its arguments, by name, whose attributes it may ask for.
        """
        while isinstance(function, functools.partial):
            function = function.func
        held: Any = arguments or {}
        if isinstance(function, MethodType) and isinstance(function.__func__, FunctionType):
            names = function.__func__.__code__.co_varnames
            held = {**held, **dict(zip(names[:1], [function.__self__], strict=False))}
            function = function.__func__
        if not isinstance(function, FunctionType):
            return
        code = function.__code__
        key = id(code), id(function.__closure__), tuple(map(id, held.values()))
        if key in self._seen or code.co_filename.startswith(_LIBRARIES):
            return
        self._seen.add(key)
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        for kind, name, attributes in _loads(code):
            if kind == "global" and name in function.__globals__:
                self._follow(Outside(function.__globals__, name), attributes)
            elif kind == "closure" and name in cells:
                self._follow(Outside(cells[name], name), attributes)
            elif kind == "local" and name in held:
                self._follow(Outside(held[name], None), attributes)

    def _follow(self, place: Outside, attributes: tuple[str, ...]) -> None:
        """Go from a name along the attributes that code asks for, as far as objects hold them."""
        value = place.find()
        if place.key is not None:
            self._note(place, value)
        for name in attributes:
            if not _holds(value, name):
                break
            # The attributes of a module are watched in their own way.
            is_module = "_parameters" in vars(value) if hasattr(value, "__dict__") else False
            place = Outside(place.root, place.key, (*place.attributes, name))
            value = place.find()
            if not is_module:
                self._note(place, value)
        if isinstance(value, FunctionType | MethodType | functools.partial):
            self.explore(value)

    def _note(self, place: Outside, value: Any) -> None:
        # Python's modules do not change, and methods are made anew at each look.
        if not isinstance(value, ModuleType | MethodType | BuiltinFunctionType):
            self.places.setdefault(place.identity(), place)


def _holds(value: Any, name: str) -> bool:
    """Whether asking ``value`` for an attribute finds it where it was put, and runs no code."""
    kind = type(value)
    if isinstance(value, Tensor) or kind.__module__.partition(".")[0] == "flambeau":
        return False
    if kind is ModuleType and (getattr(value, "__file__", None) or "<frozen").startswith(
        _LIBRARIES
    ):
        return False
    for cls in kind.__mro__:
        if name in vars(cls):
            found = vars(cls)[name]
            return isinstance(found, _STEADY) or not hasattr(type(found), "__get__")
    return name in getattr(value, "__dict__", ())


class _Load(NamedTuple):
    """A name that code loads, and the attributes that it then asks for."""

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
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and kind:
            attributes.append(instruction.argval)
            continue
        if instruction.opname == "COPY" and kind:
            # As in ``x.count += 1``.
            continue
        if kind:
            yield _Load(kind, name, tuple(attributes))
        kind, name, attributes = "", instruction.argval, []
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            kind = "global"
        elif instruction.opname in ("LOAD_DEREF", "LOAD_CLASSDEREF"):
            kind = "closure" if name in free else "local"
        elif instruction.opname.startswith("LOAD_FAST"):
            kind = "local"
            # Newer Pythons load two locals at once; what follows is asked of the second.
            name = name[-1] if isinstance(name, tuple) else name
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _loads_of(constant, free)
