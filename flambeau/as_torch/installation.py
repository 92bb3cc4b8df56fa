"""Installing flambeau under the name torch, and undoing it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import flambeau
from flambeau.as_torch import class_names, pickles
from flambeau.as_torch.finder import KeepingModule, TorchFinder, home_of, is_private
from flambeau.core.support import naming

# The folder with a package `torch` and its metadata for `importlib.metadata`.
_FOLDER = str(Path(__file__).with_name("path"))
# Tells child processes that the message has been printed.
_QUIET = "FLAMBEAU_AS_TORCH"
# Attributes that only `torch` has.
_OWN = {"torch", "version"}


class Torch(ModuleType):
    """The module ``torch``: its own name and version, with the attributes of `flambeau`.

    The attributes are copies, so that reading one is fast and compiled functions see changes;
    `Original` keeps them equal. Lazily imported names are added on first use.
    """

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [
                each
                for each, value in vars(flambeau).items()
                if not each.startswith("_") and not isinstance(value, ModuleType)
            ]
        is_own = is_private(name) or name == "torch_version"
        found = import_module(f"torch.{name}") if is_own else getattr(flambeau, name)
        self.__dict__[name] = found
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        elif not (isinstance(value, ModuleType) and value.__name__ == home_of(f"torch.{name}")):
            # The import system binds a submodule here; use flambeau's attribute instead.
            setattr(flambeau, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(flambeau, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(flambeau), *self.__dict__})


class Original(KeepingModule):
    """The class of `flambeau` while a module ``torch`` mirrors its attributes."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        _mirror(self, [name])

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        _mirror(self, [name])


def _mirror(original: ModuleType, names: Iterable[str]) -> None:
    """Copy the attributes of these names from `flambeau` to ``torch``, or delete them."""
    torch = sys.modules.get("torch")
    if not isinstance(torch, Torch):
        return
    for name in [each for each in names if not each.startswith("__") and each not in _OWN]:
        if name in original.__dict__:
            torch.__dict__[name] = original.__dict__[name]
        else:
            torch.__dict__.pop(name, None)


def install_as_torch() -> ModuleType:
    """Make ``import torch`` and imports of its submodules resolve to flambeau.

    An installed PyTorch is not modified, and is hidden from this process and its children. Prints
    one message to the standard error. May be called several times.

    Returns:
        The module ``torch``.

    Raises:
        RuntimeError: PyTorch itself is imported already.
    """
    other = sys.modules.get("torch")
    if isinstance(other, Torch):
        return other
    if other is not None:
        raise RuntimeError(
            f"torch is imported already, from {getattr(other, '__file__', None)}; install flambeau "
            "in its place before anything imports torch, at the top of the program"
        )
    _put_in_place()
    torch = import_module("torch")
    if not os.environ.get(_QUIET):
        os.environ[_QUIET] = "1"
        sys.stderr.write(
            f"flambeau {flambeau.__version__} stands in for torch {torch.__version__}\n"
        )
    return torch


def uninstall_as_torch() -> None:
    """Undo `install_as_torch`; modules that have imported ``torch`` keep their references."""
    if not isinstance(sys.modules.get("torch"), Torch):
        return
    for name in [each for each in sys.modules if each == "torch" or each.startswith("torch.")]:
        del sys.modules[name]
    sys.meta_path[:] = [each for each in sys.meta_path if each is not TorchFinder]
    sys.path[:] = [each for each in sys.path if each != _FOLDER]
    left = [each for each in _search_path() if each != _FOLDER]
    if left:
        os.environ["PYTHONPATH"] = os.pathsep.join(left)
    else:
        os.environ.pop("PYTHONPATH", None)
    os.environ.pop(_QUIET, None)
    sys.modules["flambeau"].__class__ = ModuleType
    naming.package, naming.reduced, naming.reduced_parameter = "flambeau", None, None
    class_names.put_back()


def become_torch(name: str) -> None:
    """Turn the module ``name``, which is being imported, into the module `Torch`."""
    from flambeau.as_torch import version

    _put_in_place()
    module = sys.modules[name]
    vars(module).pop("become_torch", None)
    module.__class__ = Torch
    # Only the meta path finder locates submodules of torch.
    vars(module).update(__version__=version.__version__, __path__=[], version=version, torch=module)
    _mirror(flambeau, list(vars(flambeau)))


def _put_in_place() -> None:
    if TorchFinder not in sys.meta_path:
        sys.meta_path.insert(0, TorchFinder)
    if _FOLDER not in sys.path:
        sys.path.insert(0, _FOLDER)
    if _FOLDER not in _search_path():
        os.environ["PYTHONPATH"] = os.pathsep.join([_FOLDER, *_search_path()])
    sys.modules["flambeau"].__class__ = Original
    if naming.package == "flambeau":
        naming.package = "torch"
        naming.reduced, naming.reduced_parameter = pickles.reduced, pickles.reduced_parameter
        class_names.rename_all()


def _search_path() -> list[str]:
    return [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
