"""Settings modules of PyTorch's compiler, whose values are stored and have no effect."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator, Mapping
from typing import Any


class Settings(types.ModuleType):
    """A module whose attributes are settings."""

    @contextlib.contextmanager
    def patch(
        self, arg: str | Mapping[str, Any] | None = None, value: Any = None, **changes: Any
    ) -> Iterator[None]:
        """A context manager, or decorator, under which settings have these values."""
        if isinstance(arg, str):
            changes = {arg: value}
        elif arg is not None:
            changes = {**arg, **changes}
        missing = object()
        before = {name: getattr(self, name, missing) for name in changes}
        for name, each in changes.items():
            setattr(self, name, each)
        try:
            yield
        finally:
            for name, each in before.items():
                if each is missing:
                    delattr(self, name)
                else:
                    setattr(self, name, each)
