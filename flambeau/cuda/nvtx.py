"""Named spans of a profile, under NVTX's names; `flambeau.profiler` records them."""

from __future__ import annotations

import threading
from typing import Any

from flambeau.profiler import record_function

__all__ = ["mark", "range", "range_pop", "range_push"]

_open = threading.local()


class range(record_function):
    """A block with a name.

    Args:
        msg: The name.
        args: What ``msg`` is formatted with.
        kwargs: The same, by name.
    """

    def __init__(self, msg: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(msg.format(*args, **kwargs))


def range_push(msg: str) -> int:
    """Begin a block with a name; gives the number of blocks around it."""
    stack = _open.__dict__.setdefault("stack", [])
    block = record_function(msg)
    block.__enter__()
    stack.append(block)
    return len(stack) - 1


def range_pop() -> int:
    """End the innermost block; gives the number of those around it, -1 if none was open."""
    stack = _open.__dict__.setdefault("stack", [])
    if stack:
        stack.pop().__exit__(None, None, None)
        return len(stack)
    return -1


def mark(msg: str) -> None:
    """A block without anything in it."""
    with record_function(msg):
        pass
