"""Whose code a function, a class or a module is: the user's, a library's or flambeau's."""

from __future__ import annotations

import builtins
import contextlib
import functools
import os
import sys
import sysconfig
import threading
from pathlib import Path
from types import CodeType, MemberDescriptorType
from typing import Any

from flambeau.compile.errors import OWN_FOLDERS
from flambeau.core import naming
from flambeau.core.identity import MISSING

# Where packages are installed: a user's own folder, or one that a .pth file names, may be others
# than those of the environment.
_INSTALLED = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")} | {
    each for each in sys.path if Path(each).name in ("site-packages", "dist-packages")
}
_PACKAGES = tuple(os.path.join(each, "") for each in _INSTALLED)
# Folders of Python's own library.
STANDARD = tuple(
    {os.path.join(each, "") for each in (sysconfig.get_path("stdlib"), Path(os.__file__).parent)}
)
_LIBRARIES = (*OWN_FOLDERS, *STANDARD, *_PACKAGES, "<frozen")
# Packages that programs are made with, and that hold no settings of the user's.
_MACHINERY = ("absl", "chex", "flambeau", "jax", "jaxlib", "ml_dtypes", "numpy", "optax", "scipy")
_LAYERS = os.path.join(OWN_FOLDERS[0], "nn", "")
# Of classes that can be changed, which Python's own cannot.
_HEAP = 1 << 9
#: The attributes of objects that have none.
NO_STATE: dict[str, Any] = {}


def is_of_user_or_layers(file: str) -> bool:
    """Whether code in a file is the user's, or that of flambeau's layers."""
    return not file.startswith(_LIBRARIES) or file.startswith(_LAYERS)


def is_of_package(file: str) -> bool:
    """Whether code in a file is part of an installed package that may have settings."""
    folder = next((each for each in _PACKAGES if file.startswith(each)), None)
    return folder is not None and file[len(folder) :].partition(os.sep)[0] not in _MACHINERY


def is_of_machinery(code: CodeType, namespace: dict[str, Any]) -> bool:
    """Whether code with these globals is a method that Python wrote for a dataclass of JAX's, say.

    No file says whose the code is.
    """
    home = str(namespace.get("__name__", "")).partition(".")[0]
    return code.co_filename == "<string>" and home in _MACHINERY


def is_of_library(code: CodeType) -> bool:
    """Whether code is part of an installed package, of Python or of flambeau."""
    return code.co_filename.startswith(_LIBRARIES)


@functools.lru_cache(maxsize=1024)
def is_of_library_module(name: str) -> bool:
    """Whether the module of this name is part of an installed package, Python or flambeau."""
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return name != "__main__" and name in sys.builtin_module_names
    return file.startswith(_LIBRARIES)


def is_of_library_class(cls: type) -> bool:
    """Whether a class is defined in an installed package, Python or flambeau."""
    return is_of_library_module(module_of(cls))


@functools.lru_cache(maxsize=1024)
def module_of(cls: type) -> str:
    """The name of the module that defines a class; "" for code that runs outside of a module.

    Code run by ``exec``, for one, finds the name "builtins" for itself.
    """
    name = naming.module_of(cls)
    if name == "builtins" and cls.__flags__ & _HEAP:
        return name if vars(builtins).get(cls.__name__) is cls else ""
    return name


@functools.lru_cache(maxsize=1024)
def is_own(cls: type) -> bool:
    """Whether a class is flambeau's."""
    return naming.module_of(cls).partition(".")[0] == "flambeau"


def is_module(value: Any) -> bool:
    """Whether ``value`` is an ``nn.Module``, whose attributes are watched once it is entered.

    Other objects may have an attribute ``_parameters`` too.
    """
    kind = type(value)
    return "_parameters" in state_of(value) and in_class(kind, "_compiled_call_impl") is not MISSING


def state_of(value: Any) -> dict[str, Any]:
    """The attributes of an object; no code of the user's runs."""
    try:
        if issubclass(type(value), threading.local):
            # Those of the thread that asks.
            return vars(value)
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return NO_STATE


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes of an object, those in slots included; no code of the user's runs."""
    found = {}
    for cls in type(value).__mro__:
        for name, each in vars(cls).items():
            if isinstance(each, MemberDescriptorType) and name != "__dict__":
                with contextlib.suppress(AttributeError):
                    found[name] = each.__get__(value)
    return {**found, **state_of(value)}


def in_class(cls: type, name: str) -> Any:
    """What instances of ``cls`` find on their class."""
    definer = definer_of(cls, name)
    return MISSING if definer is None else vars(definer)[name]


def definer_of(cls: type, name: str) -> type | None:
    """The class on which instances of ``cls`` find an attribute, if any defines it."""
    for each in cls.__mro__:
        if name in vars(each):
            return each
    return None
