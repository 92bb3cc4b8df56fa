"""Packages that end their import where operators compiled for PyTorch are not to be had.

They have the same in Python, for installations without the library.
"""

from __future__ import annotations

from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

# By module, the function that loads a library and says whether the package has one.
_LOADERS = {"torchaudio._extension.utils": "_load_lib"}


def found(name: str, path: Any) -> ModuleSpec | None:
    """The module of such a package, whose function will say that there is no library."""
    if name not in _LOADERS:
        return None
    spec = PathFinder.find_spec(name, path)
    if spec is not None and spec.loader is not None:
        spec.loader = _WithoutLibrary(spec.loader, _LOADERS[name])
    return spec


class _WithoutLibrary(Loader):
    """Loads a module, and replaces one function of it.

    Args:
        loader: The module's own loader.
        function: The function's name.
    """

    def __init__(self, loader: Loader, function: str) -> None:
        self._loader = loader
        self._function = function

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The module, by its own loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module; its function gives False from then on."""
        self._loader.exec_module(module)
        setattr(module, self._function, lambda *args, **kwargs: False)
