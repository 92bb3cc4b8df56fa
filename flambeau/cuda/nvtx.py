"""Named ranges of a profile, under NVTX's names; `flambeau.profiler` records them."""

from __future__ import annotations

import threading
from typing import Any

from flambeau.profiler import record_function

__all__ = ["mark", "range", "range_pop", "range_push"]

_open = threading.local()


class range(record_function):
    """A context manager for a named range.

    Args:
        msg: The name.
        args: Positional arguments of ``msg.format``.
        kwargs: Keyword arguments of ``msg.format``.
    """

    def __init__(self, msg: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(msg.format(*args, **kwargs))


def range_push(msg: str) -> int:
    """Begin a named range; returns the number of enclosing ranges."""
    stack = _open.__dict__.setdefault("stack", [])
    block = record_function(msg)
    block.__enter__()
    stack.append(block)
    return len(stack) - 1


def range_pop() -> int:
    """End the innermost range; returns the number of enclosing ranges, -1 if none was open."""
    stack = _open.__dict__.setdefault("stack", [])
    if stack:
        stack.pop().__exit__(None, None, None)
        return len(stack)
    return -1


def mark(msg: str) -> None:
    """Record an empty range."""
    with record_function(msg):
        pass
