"""Containers that announce their changes, so that compiled programs may take them for granted."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__: list[str] = []


class Announcing:
    """A container whose methods marked `announced` say before and after that it changes."""

    __slots__ = ()

    def _before_change(self) -> None:
        """Called before a change, which may still fail."""

    def _after_change(self) -> None:
        """Called after a change, also when it failed half way."""


def announced(method: Callable[..., Any]) -> Any:
    """``method`` of an `Announcing` container, with its announcements."""

    @functools.wraps(method)
    def change(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._before_change()
        try:
            return method(self, *args, **kwargs)
        finally:
            self._after_change()

    return change
