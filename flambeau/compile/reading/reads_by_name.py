"""Values that code reads by name: globals, closures, imports, and their attributes.

Reads of globals cannot be observed, so the names in code are looked up when it starts.
"""

from __future__ import annotations

import builtins
import functools
import itertools
import sys
from collections.abc import Iterable
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from flambeau.compile.guarding.places import Outside, Returned, name_of
from flambeau.compile.ownership import (
    in_class,
    is_module,
    is_of_library,
    is_of_library_class,
    is_of_library_module,
)
from flambeau.compile.reading import interception
from flambeau.compile.reading.discovery import (
    CONTAINERS,
    Discovery,
    functions_in,
    named_in,
)
from flambeau.compile.reading.names import Names, names_of
from flambeau.core.support import naming
from flambeau.core.support.identity import MISSING
from flambeau.core.support.tracebacks import line_in
from flambeau.core.values.tensor import Tensor

# Names of functions and methods that read attributes by computed names, or run code from text.
_COMPUTING = {
    "getattr", "hasattr", "vars", "dir", "eval", "exec", "attrgetter", "methodcaller", "__dict__",
    "__getattribute__", "copy", "deepcopy", "asdict", "replace", "fields", "format", "format_map",
}  # fmt: skip
_IMPORTING = {"__import__", "import_module", "modules"}
_OF_FUNCTIONS = {
    "__closure__", "__globals__", "__defaults__", "__kwdefaults__", "__code__", "signature",
    "getfullargspec",
}  # fmt: skip
_BY_TEXT = {"globals", "eval", "exec", "vars", "locals"}
_FEW = 256
# Flambeau's own objects with settings as attributes.
_WITH_SETTINGS = "flambeau.backends"
# Other globals of packages, such as functions, classes and tables, do not change.
_SETTINGS = (bool, int, float, complex, str, type(None))


class ReadsByName(Discovery):
    """The reads of one trace outside, by the names in code. Arguments as for `Discovery`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        #: Whether code reads globals of the script by computed names.
        self.looks_into_script = False
        #: Whether code of the script or of a package may tell a stand-in from a number, or starts a
        #: thread, whose reads are not seen.
        self.tells_stand_ins = False
        # Numbers and strings among the globals of packages, with their first values.
        self._settings: dict[Outside, Any] = {}
        #: The lines that set globals and attributes, by `name_of` their places.
        self.lines: dict[Any, str] = {}
        # The names in the code that ran, and whether it may have computed others.
        self.names: set[str] = set()
        self._computes_names = False

    def _start(self, code: CodeType, namespace: dict[str, Any]) -> None:
        if code not in self._ran:
            self._ran[code] = None
            for function in self._functions.get(code, ()):
                self._note_function(function)
            for cls, name in self._of_class.get(code, ()):
                self.note_of_class(cls, name)
        if namespace.get("__name__", "").startswith("namedtuple_"):
            # Code that `collections.namedtuple` generates has no file.
            return
        names = names_of(code)
        for name, line in names.stores:
            place = name_of(Outside(namespace, name))
            self.lines.setdefault(place, line_in(code.co_filename, line))
        self._note_globals(names, namespace)
        self._note_uncommon(names, namespace)

    def _note_globals(self, names: Names, namespace: dict[str, Any]) -> None:
        """Note the globals and imports that code names, and their attributes in its chains."""
        self.tells_stand_ins = self.tells_stand_ins or names.tells_stand_ins
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
            module = self._root(root, namespace, root in names.imports)
            if isinstance(module, ModuleType):
                self.discover(module, root)
                if not _COMPUTING.isdisjoint(names.attributes):
                    # getattr(flambeau, name)
                    self._let_tell(module, root)

    def _note_uncommon(self, names: Names, namespace: dict[str, Any]) -> None:
        """Note values that code may read by computed names, or past the objects themselves."""
        if not _BY_TEXT.isdisjoint(names.globals):
            for name in names.attributes:
                if name.isidentifier() and not hasattr(builtins, name):
                    self._note_and_discover(Outside(namespace, name))
        if names.computes_globals and not is_of_library_module(namespace.get("__name__", "")):
            self._note_all_globals(namespace)
        new = names.attributes - self.names
        if new:
            self.names |= new
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
            if "__name__" in names.globals and "__name__" in namespace:
                self._note_and_discover(Outside(sys.modules, namespace["__name__"]))
        if not _OF_FUNCTIONS.isdisjoint(names.attributes):
            self._looks_into_functions = True
            for function in [*itertools.chain.from_iterable(self._functions.values())]:
                self._note_function(function)
                known = self.names.intersection(function.__globals__)
                self._note_all(Outside(function.__globals__, name) for name in known)

    def _note_all_globals(self, namespace: dict[str, Any]) -> None:
        """Note all globals of a module, which code may read by computed names."""
        is_script = namespace.get("__name__") == "__main__"
        self.states[id(namespace)] = namespace
        for name, value in [*namespace.items()]:
            # A script assigns tensors and losses at each step.
            if not (name.startswith("__") or (is_script and isinstance(value, Tensor))):
                self._note_and_discover(Outside(namespace, name))
        self.looks_into_script = self.looks_into_script or is_script

    def _find_builtin(self, name: str) -> None:
        # `interception` and `printing` replace these during the trace.
        if name not in ("__import__", "print"):
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

    def _note_forward(self, frame: FrameType) -> None:
        """Note the ``forward`` of a library's layer when it starts."""
        code = frame.f_code
        module = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if is_module(module):
            kind = type(module)
            self._note(Outside(kind, None, ("forward",)))
            for cls in kind.__mro__:
                if getattr(vars(cls).get("forward"), "__code__", None) is code:
                    self._note(Outside(cls, None, ("forward",)))

    def _note_settings(self, code: CodeType, namespace: dict[str, Any]) -> None:
        """Note the numbers and strings among the globals that code of a package names."""
        names = names_of(code)
        self.tells_stand_ins = self.tells_stand_ins or names.tells_stand_ins
        for name in names.globals:
            value = namespace.get(name, MISSING)
            if isinstance(value, _SETTINGS):
                place = Outside(namespace, name)
                self._settings.setdefault(place, value)
                self._note(place)

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
        """Note the attributes of modules, classes and functions along ``steps``."""
        for name in steps:
            label = f"{label}.{name}"
            if isinstance(value, ModuleType):
                self._note_of_module(value, name, label)
            elif isinstance(value, FunctionType) and not is_of_library(value.__code__):
                self._note_and_discover(Outside(vars(value), name, (), label))
            elif isinstance(value, type) and not is_of_library_class(value):
                self._note_and_discover(Outside(value, None, (name,), label))
            elif isinstance(value, type) and interception.can_tell(value):
                self._note_of_class(value, name)
            elif naming.module_of(type(value)).startswith(_WITH_SETTINGS):
                self._note(Outside(value, None, (name,), label))
                return
            else:
                return
            value = in_class(value, name) if isinstance(value, type) else vars(value).get(name)

    def _note_of_class(self, cls: type, name: str) -> None:
        """Note the attribute ``name`` of a class or a class above it."""
        member = in_class(cls, name)
        if member is not MISSING and not issubclass(cls, Tensor):
            more = ("__func__",) if isinstance(member, classmethod) else ()
            place = Outside(cls, None, (name, *more), f"{cls.__name__}.{name}")
            self._note_and_discover(place)

    def _note_of_module(self, module: ModuleType, name: str, label: str) -> None:
        value = vars(module).get(name, MISSING)
        if isinstance(value, CONTAINERS) and is_of_library_module(module.__name__):
            # Large containers of libraries are caches and tables.
            if len(value) <= _FEW:
                self._note(Returned(functools.partial(getattr, module, name), label=label))
            return
        if value is MISSING and is_of_library_module(module.__name__):
            if in_class(type(module), name) is not MISSING and not name.startswith("__"):
                # A property of a module whose class is not Python's.
                self._note(Outside(module, None, (name,), label))
            return
        self._note_and_discover(Outside(vars(module), name, (), label))

    def _note_named(self, value: Any, label: str, names: frozenset[str] | None = None) -> None:
        """Note the attributes of an object that cannot announce reads."""
        state = named_in(value)
        read: Iterable[str] = (self.names if names is None else names).intersection(state)
        if self._computes_names and not isinstance(value, ModuleType):
            read = [*state]
        for name in read:
            if name.startswith("__") and name.endswith("__"):
                continue
            if isinstance(value, ModuleType):
                self._note_of_module(value, name, f"{label}.{name}")
            elif not isinstance(value, type) or not functions_in(state[name]):
                name_of_place = f"{label}.{name}" if label else ""
                self._note_and_discover(Outside(value, None, (name,), name_of_place))
