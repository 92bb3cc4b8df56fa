"""The owner of a function, a class or a module: the user, a library or flambeau."""

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

from flambeau.compile.of_class import of_class
from flambeau.core.support import naming
from flambeau.core.support.identity import MISSING
from flambeau.core.support.tracebacks import OWN_FOLDERS

# Folders of installed packages: those of the environment, of the user, and of .pth files.
_INSTALLED = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")} | {
    each for each in sys.path if Path(each).name in ("site-packages", "dist-packages")
}
_PACKAGES = tuple(os.path.join(each, "") for each in _INSTALLED)
# Folders of Python's own library.
STANDARD = tuple(
    {os.path.join(each, "") for each in (sysconfig.get_path("stdlib"), Path(os.__file__).parent)}
)
_LIBRARIES = (*OWN_FOLDERS, *STANDARD, *_PACKAGES, "<frozen")
#: Packages that compiled functions are built on, without settings of the user's.
MACHINERY = ("absl", "chex", "flambeau", "jax", "jaxlib", "ml_dtypes", "numpy", "optax", "scipy")
_LAYERS = os.path.join(OWN_FOLDERS[0], "nn", "")
# The flag of classes that can be changed; Python's own cannot.
_HEAP = 1 << 9
#: The attributes of objects that have none.
NO_STATE: dict[str, Any] = {}


def is_of_user_or_layers(file: str) -> bool:
    """Whether code in a file belongs to the user or to flambeau's layers."""
    return not file.startswith(_LIBRARIES) or file.startswith(_LAYERS)


def is_of_package(file: str) -> bool:
    """Whether code in a file belongs to an installed package that may have settings."""
    folder = next((each for each in _PACKAGES if file.startswith(each)), None)
    return folder is not None and file[len(folder) :].partition(os.sep)[0] not in MACHINERY


def is_of_machinery(code: CodeType, namespace: dict[str, Any]) -> bool:
    """Whether code without a file, such as a dataclass's method, belongs to JAX or flambeau."""
    home = str(namespace.get("__name__", "")).partition(".")[0]
    return code.co_filename == "<string>" and home in MACHINERY


def is_of_library(code: CodeType) -> bool:
    """Whether code belongs to an installed package, Python or flambeau."""
    return code.co_filename.startswith(_LIBRARIES)


@functools.lru_cache(maxsize=1024)
def is_of_library_module(name: str) -> bool:
    """Whether the module of this name belongs to an installed package, Python or flambeau."""
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return name != "__main__" and name in sys.builtin_module_names
    return file.startswith(_LIBRARIES)


def is_of_library_class(cls: type) -> bool:
    """Whether a class is defined in an installed package, Python or flambeau."""
    return is_of_library_module(module_of(cls))


@of_class
def module_of(cls: type) -> str:
    """The name of the module that defines a class; "" if no module does.

    Classes defined by ``exec`` claim to be of "builtins".
    """
    name = naming.module_of(cls)
    if name == "builtins" and cls.__flags__ & _HEAP:
        return name if vars(builtins).get(cls.__name__) is cls else ""
    return name


@of_class
def is_own(cls: type) -> bool:
    """Whether a class is flambeau's."""
    return naming.module_of(cls).partition(".")[0] == "flambeau"


def is_module(value: Any) -> bool:
    """Whether ``value`` is an ``nn.Module``."""
    kind = type(value)
    return "_parameters" in state_of(value) and in_class(kind, "_compiled_call_impl") is not MISSING


def state_of(value: Any) -> dict[str, Any]:
    """The attributes of an object; no code of the user's runs."""
    try:
        if issubclass(type(value), threading.local):
            # The attributes of the current thread.
            return vars(value)
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return NO_STATE


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes of an object, including its slots; no code of the user's runs."""
    slots = {}
    for cls in type(value).__mro__:
        for name, each in vars(cls).items():
            if isinstance(each, MemberDescriptorType) and name != "__dict__":
                with contextlib.suppress(AttributeError):
                    slots[name] = each.__get__(value)
    return {**slots, **state_of(value)}


def in_class(cls: type, name: str) -> Any:
    """The attribute ``name`` that ``cls`` or a class above it defines; `MISSING` if none does."""
    definer = definer_of(cls, name)
    return MISSING if definer is None else vars(definer)[name]


def definer_of(cls: type, name: str) -> type | None:
    """The class in the order of ``cls.__mro__`` that defines an attribute, if any does."""
    for each in cls.__mro__:
        if name in vars(each):
            return each
    return None
