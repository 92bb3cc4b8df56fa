"""Errors for PyTorch's names that do not exist here.

A program that was written for PyTorch meets them one by one. The error is Python's own, and where
something else does the work, its message goes on to say what.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, NoReturn

from flambeau._names import ADVICE
from flambeau.core import naming


class Absent:
    """The ``__getattr__`` of a module, for names that it does not have.

    It is an object, not a function, since for a module with such a function type checkers believe
    in every name.

    Args:
        module: The module's name.
    """

    def __init__(self, module: str) -> None:
        self.module = module

    def __call__(self, name: str) -> NoReturn:
        """Fail: the module has no attribute ``name``."""
        raise absent(self.module, name)


def absent(module: str, name: str) -> AttributeError:
    """The error for a module of `flambeau` that has no attribute ``name``.

    >>> raise absent("flambeau.func", "functionalize")
    Traceback (most recent call last):
        ...
    AttributeError: module 'flambeau.func' has no attribute 'functionalize': functions may write ...
    """
    shown = f"{naming.package}{module.removeprefix('flambeau')}"
    message = f"module {shown!r} has no attribute {name!r}"
    # Python and its tools ask for many such names, which should cost nothing.
    if name.startswith("__"):
        return AttributeError(message)
    found = advice_for(f"{module}.{name}")
    if found is None:
        return AttributeError(message)
    # With the name alone, Python adds no guess of its own.
    return AttributeError(f"{message}: {found}", name=name)


def advice_for(name: str) -> str | None:
    """The advice for a name of `flambeau` that does not exist, if there is any."""
    return advice().get(name.removeprefix("flambeau."))


@functools.cache
def advice() -> dict[str, str]:
    """Advice by name, such as ``"nn.grad"``."""
    return {name: text for text, names in ADVICE.items() for name in names.split()}


class _Finder:
    """The finder that Python asks for a module that no other finder has.

    So ``import flambeau.hub`` and ``from flambeau import hub`` end with an advice too.
    """

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Find nothing.

        Raises:
            ModuleNotFoundError: There is an advice, and a module is being imported.
        """
        if not name.startswith("flambeau."):
            return
        # A caller that only asks, such as importlib.util.find_spec, is told that there is none.
        if sys._getframe(2).f_globals.get("__name__") != "importlib._bootstrap":
            return
        found = advice_for(name)
        if found is not None:
            # Of its own accord Python would pass over an error with this `name`, and say no more
            # than that the name cannot be imported.
            raise ModuleNotFoundError(f"there is no {name!r}: {found}")


sys.meta_path.append(_Finder)
