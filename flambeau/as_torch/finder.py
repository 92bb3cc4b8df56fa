"""A meta path finder that resolves ``torch.nn.functional`` and the like to flambeau's modules."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from types import CodeType, ModuleType
from typing import Any

from flambeau._absent import advice_for
from flambeau.as_torch import class_names, extensions

# Modules that flambeau has under other names.
_HOMES = {
    "torch.torch_version": "flambeau.as_torch.torch_version",
    "torch.version": "flambeau.as_torch.version",
}


# Private modules of PyTorch that packages import; flambeau has them under the name torch only.
_PRIVATE = {
    "_C", "_custom_ops", "_dynamo", "_functorch", "_higher_order_ops", "_inductor", "_jit_internal",
    "_prims_common", "_subclasses", "_tensor", "_tensor_str", "_utils",
}  # fmt: skip


def home_of(name: str) -> str:
    """The name of the flambeau module for a torch module."""
    below = name.removeprefix("torch")
    if is_private(below[1:].partition(".")[0]):
        return f"flambeau.as_torch.private{below}"
    return _HOMES.get(name, f"flambeau{below}")


def is_private(name: str) -> bool:
    """Whether a torch module is a private one that exists under that name only."""
    return name in _PRIVATE


class TorchFinder:
    """Finds the submodules of ``torch``."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of the flambeau module for a torch module.

        Raises:
            ModuleNotFoundError: flambeau has no such module, and it is being imported.
        """
        if name.startswith("flambeau."):
            return class_names.found(name, path)
        if not name.startswith("torch."):
            return extensions.found(name, path)
        home = home_of(name)
        found = find_spec(home)
        if found is None:
            # A caller that only probes, such as importlib.util.find_spec, gets None.
            if sys._getframe(2).f_globals.get("__name__") != "importlib._bootstrap":
                return None
            advice = advice_for(home)
            more = "" if advice is None else f": {advice}"
            raise ModuleNotFoundError(f"No module named {name!r}{more}", name=name)
        is_package = found.submodule_search_locations is not None
        return spec_from_loader(name, Alias(home), is_package=is_package)


class Alias(Loader):
    """A loader that returns an existing module under another name.

    Args:
        home: The name of the module.
    """

    def __init__(self, home: str) -> None:
        self.home = home
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the existing module."""
        module = import_module(self.home)
        self._spec = module.__spec__
        parent, _, child = self.home.rpartition(".")
        keep_names(import_module(parent), child)
        return module

    def get_code(self, name: str) -> CodeType | None:
        """The module's code, for ``python -m``."""
        spec = find_spec(self.home)
        loader: Any = None if spec is None else spec.loader
        return None if loader is None else loader.get_code(self.home)

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own spec, which the import system has replaced."""
        module.__spec__ = self._spec


class KeepingModule(ModuleType):
    """A module whose functions are not replaced by imports of submodules of the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        old = self.__dict__.get(name)
        if not isinstance(value, ModuleType) or old is None or isinstance(old, ModuleType):
            super().__setattr__(name, value)


def keep_names(module: ModuleType, child: str) -> None:
    """Keep imports of submodules from replacing functions such as ``gradcheck``."""
    old = module.__dict__.get(child)
    if old is not None and not isinstance(old, ModuleType) and type(module) is ModuleType:
        module.__class__ = KeepingModule
