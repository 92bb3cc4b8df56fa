"""How a process tells its launcher of an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["ChildFailedError", "record"]


class ChildFailedError(Exception):
    """A process that was started has failed."""


def record(fn: Callable[..., Any], error_handler: Any = None) -> Callable[..., Any]:
    """``fn`` itself: `flambeau.distributed.run` shows the error output of each process as it is."""
    return fn
