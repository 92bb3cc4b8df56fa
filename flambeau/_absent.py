"""PyTorch's names without code here: some are created from a table, others raise an error.

The exception has Python's own type; where flambeau has a replacement, the message names it.
"""

from __future__ import annotations

import functools
import sys
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any, ClassVar

from flambeau import _answers
from flambeau._answers import ANSWERS, Call, Refusal
from flambeau._names import ADVICE
from flambeau.core.support import naming


class Absent:
    """The ``__getattr__`` of a module, for names that its file does not define.

    It is an object instead of a function, since type checkers accept any attribute of a module that
    defines ``__getattr__`` as a function.

    Args:
        module: The module's name.
    """

    def __init__(self, module: str) -> None:
        self.module = module

    def __call__(self, name: str) -> Any:
        """Make the attribute ``name`` from the table, or raise an error."""
        key = self.module.removeprefix("flambeau.")
        if key in ANSWERS and name in _entries(key):
            return _add(sys.modules[_home(key)], key, name)
        raise absent(self.module, name)


def absent(module: str, name: str) -> AttributeError:
    """The error for a module of `flambeau` that has no attribute ``name``.

    >>> from flambeau._absent import absent
    >>> raise absent("flambeau.func", "functionalize")
    Traceback (most recent call last):
        ...
    AttributeError: module 'flambeau.func' has no attribute 'functionalize': functions may write ...
    """
    shown = f"{naming.package}{module.removeprefix('flambeau')}"
    message = f"module {shown!r} has no attribute {name!r}"
    # Python and its tools probe many dunder names, so this path must be cheap.
    if name.startswith("__"):
        return AttributeError(message)
    found = advice_for(f"{module}.{name}")
    if found is None:
        return AttributeError(message)
    # Passing only the name keeps Python from appending its own suggestion.
    return AttributeError(f"{message}: {found}", name=name)


def advice_for(name: str) -> str | None:
    """The advice for a name that `flambeau` does not have, or ``None``."""
    return advice().get(name.removeprefix("flambeau."))


@functools.cache
def advice() -> dict[str, str]:
    """Advice by name, such as ``"nn.grad"``."""
    return {name: text for text, names in ADVICE.items() for name in names.split()}


@functools.cache
def _entries(key: str) -> dict[str, tuple[str, Any]]:
    """The names of a row of the table, each with its declaration and its answer."""
    return _apart(ANSWERS[key])


def _apart(row: dict[str, Any]) -> dict[str, tuple[str, Any]]:
    found: dict[str, tuple[str, Any]] = {}
    for declared, answer in row.items():
        kind = declared.partition(" ")[0]
        if kind == "from":
            for each in answer.split():
                name, _, theirs = each.partition("=")
                found[name] = declared, theirs or name
            continue
        prefix = "class " if kind == "class" else ""
        for each in declared.removeprefix(prefix).split(";"):
            found[each.strip().partition("(")[0]] = f"{prefix}{each.strip()}", answer
    return found


def _add(module: ModuleType, key: str, name: str) -> Any:
    """Add a name of the table to its module."""
    declared, answer = _entries(key)[name]
    kind, _, home = declared.partition(" ")
    if kind == "from":
        value = getattr(import_module(_home(home)), answer)
    elif kind == "class":
        value = _class(module, name, answer)
    elif "(" in declared:
        value = _function(module, declared, answer)
    else:
        value = answer(module, {}) if isinstance(answer, Call) else answer
    if name == "__class__":
        module.__class__ = value
    else:
        # Past the checks of the module's class; another thread may have been faster.
        value = vars(module).setdefault(name, value)
    if naming.package != "flambeau":
        import_module("flambeau.as_torch.class_names").rename(module)
    return value


def _class(module: ModuleType, name: str, answer: Any) -> type:
    members: dict[str, Any] = {"__module__": module.__name__, "__doc__": "See `flambeau._answers`."}
    if isinstance(answer, Refusal):

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            raise NotImplementedError(answer.format(function=name))

        return type(name, (), {**members, "__init__": __init__})
    if isinstance(answer, dict):
        for method, (declared, result) in _apart(answer).items():
            members[method] = _function(module, declared.replace("(", "(self, "), result)
        return type(name, (), members)
    return type(name, (getattr(module, answer) if isinstance(answer, str) else answer,), members)


def _function(module: ModuleType, declared: str, answer: Any) -> Any:
    name, _, parameters = declared.partition("(")

    def answered(given: dict[str, Any]) -> Any:
        if isinstance(answer, Refusal):
            raise NotImplementedError(answer.format(function=name, **given))
        return answer(module, given) if isinstance(answer, Call) else answer

    code = compile(f"lambda {parameters[:-1]}: _answered(locals())", _answers.__file__, "eval")
    value = eval(code, {"_answered": answered, "__name__": module.__name__})
    value.__name__ = value.__qualname__ = name
    value.__doc__ = "See `flambeau._answers`."
    if isinstance(answer, Call) and answer.is_setting:
        return import_module("flambeau.core.support.settings").setting(value)
    return value


def _home(key: str) -> str:
    """The name of the module for a row of the table."""
    return f"flambeau.{'as_torch.private.' if key.startswith('_') else ''}{key}"


class AnswerFinder(Loader):
    """A meta path finder, and the loader, of the modules that consist of a row of the table."""

    modules: ClassVar = {_home(key): key for key in ANSWERS}

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of a module that has a row and no file."""
        key = cls.modules.get(name)
        file = None if key is None else PathFinder.find_spec(name, path)
        if key is None or (file is not None and file.origin is not None):
            return None
        return spec_from_loader(
            name, cls(), origin=_answers.__file__, is_package=bool(_children(key))
        )

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module with the names of its row."""
        key = self.modules[module.__name__]
        given: Any = module
        given.__file__ = _answers.__file__
        given.__getattr__ = Absent(f"flambeau.{key}")
        given.__all__ = [name for name in _entries(key) if not name.startswith("_")]
        for name in _entries(key):
            _add(module, key, name)
        for child in _children(key):
            import_module(child)


def _children(key: str) -> list[str]:
    return [_home(each) for each in ANSWERS if each.rpartition(".")[0] == key]


class _Finder:
    """A meta path finder that raises the advice for a missing module.

    It covers ``import flambeau.x`` and ``from flambeau import x``.
    """

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Find nothing.

        Raises:
            ModuleNotFoundError: A module that has an advice is being imported.
        """
        if not name.startswith("flambeau."):
            return
        # A caller that only probes, such as importlib.util.find_spec, gets None.
        if sys._getframe(2).f_globals.get("__name__") != "importlib._bootstrap":
            return
        found = advice_for(name)
        if found is not None:
            # Without this path, Python discards the error and reports only that the name cannot be
            # imported.
            raise ModuleNotFoundError(f"there is no {name!r}: {found}")


# Before Python's own finder, which takes an empty folder for a package.
sys.meta_path.insert(0, AnswerFinder)
sys.meta_path.append(_Finder)
