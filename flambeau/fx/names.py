"""Names of nodes, functions and types in graphs and generated code."""

from __future__ import annotations

import builtins
import inspect
import keyword
import re
import types
from importlib import import_module
from typing import Any

from flambeau.core.support import naming
from flambeau.core.values.tensor import Tensor

#: Names of globals that generated code always has, besides those of the package.
STANDING_NAMES = ("inf", "nan", "NoneType", "device", "fx_pytree", "pytree")

_RESERVED: dict[str, Any] = {
    **{name: object() for name in (*keyword.kwlist, *STANDING_NAMES, "torch", "flambeau")},
    **vars(builtins),
}
# A name without its numeric suffix.
_parts = re.compile(r"([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d+))?").fullmatch
_not_in_names = re.compile("[^0-9a-zA-Z_]+")
_words = re.compile("(?<=[a-z])([A-Z])")

# The namespaces of public functions, in search order.
_NAMESPACES = ("", "nn.functional", "nn.init", "linalg", "fft", "special")
# PyTorch's names of functions in these include the namespace: `fft_fft`.
_PREFIXED = ("linalg", "fft", "special")


class Namespace:
    """Assigns each object a unique Python identifier that shadows no builtin."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._used: set[str] = set()
        # The last suffix that was tried for each name.
        self._counts: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any) -> str:
        """An unused name: ``candidate`` itself, or with a numeric suffix.

        Args:
            candidate: The base of the name.
            obj: The object that the name is associated with, if any.
        """
        if obj is not None and obj in self._names:
            return self._names[obj]
        parts = _parts(candidate)
        if parts is None:
            candidate = _not_in_names.sub("_", candidate) or "_unnamed"
            if candidate[0].isdigit():
                candidate = f"_{candidate}"
            parts = _parts(candidate)
            assert parts is not None
        base, digits = parts.groups()
        if digits is None or candidate in self._used:
            number = self._counts.get(base, 0)
            if _RESERVED.get(candidate, obj) is not obj:
                number += 1
                candidate = f"{base}_{number}"
        else:
            number = int(digits)
        while candidate in self._used:
            number += 1
            candidate = f"{base}_{number}"
        self._used.add(candidate)
        self._counts[base] = number
        if obj is not None:
            self._names[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Associate ``obj`` with a name that was created without an object."""
        self._names[obj] = name


def snake_case(text: str) -> str:
    """``text`` in snake case: ``MaxPool2d`` becomes ``max_pool2d``."""
    return _words.sub(r"_\1", text).lower()


def public_path(target: Any) -> tuple[str, str] | None:
    """The namespace in which a function or class is public, and its name there.

    >>> import flambeau
    >>> from flambeau.fx.names import public_path
    >>> public_path(flambeau.nn.functional.softmax), public_path(flambeau.softmax)
    (('nn.functional', 'softmax'), ('', 'softmax'))
    """
    called = getattr(target, "__name__", None)
    if not isinstance(called, str) or not is_own(target):
        return None
    for home in _NAMESPACES:
        namespace = import_module(f"flambeau.{home}" if home else "flambeau")
        name = called.removeprefix(f"{home}_") if home else called
        if getattr(namespace, name, None) is target:
            return home, name
    return None


def is_own(target: Any) -> bool:
    """Whether a function or class is defined in this package."""
    module = naming.module_of(target)
    return isinstance(module, str) and module.partition(".")[0] == "flambeau"


def is_method(function: Any) -> bool:
    """Whether a function of this package is public as a method of Tensor only."""
    name = getattr(function, "__name__", "")
    return getattr(Tensor, name, None) is function and public_path(function) is None


def name_of_target(target: Any) -> str:
    """The base of the name of a node that calls ``target``.

    >>> import flambeau
    >>> from flambeau.fx.names import name_of_target
    >>> name_of_target(flambeau.relu), name_of_target("__getitem__"), name_of_target("bn1.ReLU")
    ('relu', 'getitem', 'bn1.re_lu')
    """
    if isinstance(target, str):
        is_magic = target.startswith("__") and target.endswith("__")
        return snake_case(target[2:-2] if is_magic else target)
    name = snake_case(target.__name__)
    home = (public_path(target) or ("", ""))[0]
    return f"{home}_{name}" if home in _PREFIXED and not name.startswith(f"{home}_") else name


def qualified_name(target: Any) -> str:
    """The name by which a function or class is importable.

    >>> from flambeau.fx.names import qualified_name
    >>> import flambeau, operator
    >>> qualified_name(flambeau.nn.functional.relu), qualified_name(operator.add)
    ('flambeau.nn.functional.relu', '_operator.add')
    """
    name = target.__name__
    if getattr(builtins, name, None) is target:
        return name
    if is_own(target):
        public = public_path(target)
        if public is not None:
            return ".".join(filter(None, (naming.package, *public)))
        if getattr(Tensor, name, None) is target:
            return f"{naming.package}.Tensor.{name}"
        inside = naming.module_of(target).removeprefix("flambeau")
        return f"{naming.package}{inside}.{target.__qualname__}"
    if name == "<lambda>":
        # It may be importable by the name that it was assigned to.
        try:
            name = inspect.getsource(target).split("=")[0].strip()
        except (OSError, TypeError) as error:
            raise RuntimeError(
                f"cannot write {target} as code, since it has no name; define it as a function"
            ) from error
    if target.__module__ is None:
        raise RuntimeError(f"cannot find the module of {target}, which generated code needs")
    return f"{target.__module__}.{name}"


def is_reachable(target: Any) -> bool:
    """Whether code can reach ``target`` from the package's global."""
    return is_own(target) and "<" not in getattr(target, "__qualname__", "<")


def shown_target(target: Any) -> str:
    """A target in printed graphs: ``operator.add``, ``flambeau.relu``, ``conv1``."""
    if isinstance(target, str):
        return target
    module, name = getattr(target, "__module__", None), getattr(target, "__name__", None)
    if name is None:
        return repr(target)
    if module == "builtins":
        return f"builtins.{name}"
    if module == "_operator":
        return f"operator.{name}"
    return qualified_name(target)


def type_text(kind: Any) -> str:
    """The annotation of a type."""
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        if kind.__module__ == "builtins":
            return kind.__qualname__
        if public_path(kind) is not None:
            return qualified_name(kind)
        return f"{kind.__module__}.{kind.__qualname__}"
    if kind is ...:
        return "..."
    if isinstance(kind, types.UnionType):
        texts = map(type_text, kind.__args__)
        return " | ".join("None" if text == "NoneType" else text for text in texts)
    if isinstance(kind, types.GenericAlias):
        return f"{type_text(kind.__origin__)}[{', '.join(map(type_text, kind.__args__))}]"
    return kind.__name__ if isinstance(kind, types.FunctionType) else repr(kind)
