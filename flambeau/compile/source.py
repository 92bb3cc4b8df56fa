"""Python functions that are generated for one program, line by line instead of as a loop."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Sequence
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

# Packages whose functions and classes keep their names.
_OWN = ("builtins", "collections", "copy", "flambeau", "itertools")

#: The file name of generated functions in tracebacks, in a folder of flambeau's.
FILE = str(Path(__file__).with_name("<generated>"))

# Variables of the lines, besides those of a letter and a number.
_TAKEN = {
    "arrays", "check", "done", "found", "leaves", "look", "make", "node", "outputs", "residuals",
    "results", "write", "x",
}  # fmt: skip


class Page:
    """Generated functions, and the objects that their lines name.

    Attributes:
        objects: The objects by their names.
        texts: The functions, as text.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.texts: list[str] = []
        self._names: dict[int, str] = {}

    def name(self, value: Any, prefix: str = "k") -> str:
        """The name of an object, which is held from now on."""
        name = self._names.get(id(value))
        if name is None:
            name = _own_name(value)
            if name is None or name in self.objects:
                name = f"{prefix}{len(self.objects)}"
            self._names[id(value)] = name
            self.objects[name] = value
        return name

    def function(self, head: str, lines: Sequence[str]) -> Callable[..., Any]:
        """The function with this ``head``, such as ``"look(leaves)"``, and these lines."""
        body = [f"    {each}" for each in lines or ["pass"]]
        text = "\n".join([f"def {head}:", *body])
        self.texts.append(text)
        # The objects are variables of a function around it, which are faster than globals.
        around = [f"def make({', '.join(self.objects)}):", *text.splitlines()]
        name = head.partition("(")[0]
        namespace: dict[str, Any] = {}
        code = compile("\n    ".join([*around, f"return {name}"]), FILE, "exec")
        exec(code, namespace)
        return namespace["make"](**self.objects)


def _own_name(value: Any) -> str | None:
    """The name of a function, class or module of flambeau's or Python's, if it has one."""
    if isinstance(value, ModuleType):
        home, name = value.__name__, value.__name__.rpartition(".")[2]
    elif isinstance(value, type | FunctionType | BuiltinFunctionType):
        home, name = value.__module__ or "", value.__name__
    else:
        return None
    is_plain = name.isidentifier() and not keyword.iskeyword(name)
    is_plain = is_plain and name not in _TAKEN and not name[1:].isdecimal()
    return name if is_plain and home.partition(".")[0] in _OWN else None
