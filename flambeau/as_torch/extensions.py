"""Packages whose import fails without operators compiled for PyTorch.

They have Python fallbacks for installations without the library.
"""

from __future__ import annotations

from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

# By module, the function that loads a library and returns whether it is available.
_LOADERS = {"torchaudio._extension.utils": "_load_lib"}


def found(name: str, path: Any) -> ModuleSpec | None:
    """The spec of such a package, whose function will report a missing library."""
    if name not in _LOADERS:
        return None
    spec = PathFinder.find_spec(name, path)
    if spec is not None and spec.loader is not None:
        spec.loader = _WithoutLibrary(spec.loader, _LOADERS[name])
    return spec


class _WithoutLibrary(Loader):
    """A loader that executes a module and replaces one of its functions.

    Args:
        loader: The module's own loader.
        function: The function's name.
    """

    def __init__(self, loader: Loader, function: str) -> None:
        self._loader = loader
        self._function = function

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module with its own loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module and replace its function by one that returns ``False``."""
        self._loader.exec_module(module)
        setattr(module, self._function, lambda *args, **kwargs: False)
