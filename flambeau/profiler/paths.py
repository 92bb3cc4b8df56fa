"""Names for the modules that are called, by their places in the outermost ones."""

from __future__ import annotations

import itertools
from typing import Any


class Paths:
    """The paths of modules, each found when a module that has it is called.

    A module that is called first, outside of all others, is named by its class.
    """

    def __init__(self) -> None:
        self._paths: dict[int, str] = {}
        # Held, so that no other module gets the id of one.
        self._modules: list[Any] = []

    def enter(self, module: Any) -> str:
        """The path of a module that is called."""
        path = self._paths.get(id(module))
        if path is None:
            path = self._new(type(module).__name__)
            self._add(module, path)
        return path

    def _add(self, root: Any, path: str) -> None:
        for name, module in root.named_modules():
            self._modules.append(module)
            self._paths.setdefault(id(module), f"{path}.{name}" if name else path)

    def _new(self, name: str) -> str:
        used = {*self._paths.values()}
        others = (f"{name}#{number}" for number in itertools.count(2))
        return next(each for each in itertools.chain([name], others) if each not in used)
