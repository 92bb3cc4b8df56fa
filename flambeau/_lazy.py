"""Names of the public namespace, and methods of Tensor, that are imported on first use.

Most programs need none of them, and importing them would slow down every start. The table is in
`_names`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from flambeau._absent import absent
from flambeau._names import HOMES, IN_PLACE, MODULES
from flambeau.core.values.tensor import Tensor

_MODULES = frozenset(MODULES.split())
_METHODS = frozenset(IN_PLACE.split())
_HOMES = {name: home for home, names in HOMES.items() for name in names.split() if name[0] != "."}


class _Misspelt(AttributeError):
    """An AttributeError with the suggestion that Python makes for modules of fewer names."""

    def __str__(self) -> str:
        text = super().__str__()
        import difflib

        wanted = text.rpartition(" ")[2].strip("'")
        near = difflib.get_close_matches(wanted, __dir__(), n=1, cutoff=0.75)
        return f"{text}. Did you mean: {near[0]!r}?" if near else text

    def __reduce__(self) -> Any:
        return AttributeError, (str(self),)


_Misspelt.__name__ = _Misspelt.__qualname__ = "AttributeError"
_Misspelt.__module__ = "builtins"


def __getattr__(name: str) -> Any:
    """The attribute ``name`` of `flambeau`, from the module that has it."""
    if name in _MODULES:
        return import_module(f"flambeau.{name}")
    if name in _HOMES:
        found = getattr(import_module(f"flambeau.{_HOMES[name]}"), name)
    elif name in _METHODS:
        found = getattr(Tensor, name)
    elif name.startswith("_foreach_"):
        found = import_module("flambeau.rare.foreach").foreach(name.removeprefix("_foreach_"))
    else:
        error = absent("flambeau", name)
        # An error with a name is one with advice.
        raise error if error.name else _Misspelt(*error.args)
    setattr(sys.modules["flambeau"], name, found)
    return found


def __dir__() -> list[str]:
    """The names of `flambeau`, including those that are not yet imported."""
    return sorted({*vars(sys.modules["flambeau"]), *_MODULES, *_HOMES, *_METHODS})


def _defer(name: str, home: str) -> None:
    """Add a stub to Tensor that imports the method's module, which replaces the stub."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        import_module(home)
        return getattr(self, name)(*args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"See `{home}`, which is imported at the first call."
    setattr(Tensor, name, method)


for _home, _names in HOMES.items():
    for _name in _names.split():
        if _name[0] == "." and f"flambeau.{_home}" not in sys.modules:
            _defer(_name[1:], f"flambeau.{_home}")
