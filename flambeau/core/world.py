"""Counters of everything that a compiled program takes for granted.

Module attributes, hooks, training flags and the like call `bump` when they change, and whatever
sets the ``.grad`` of a tensor adds one to `gradients`. While both counters stand still, a compiled
program that was valid is still valid, so checking it costs two comparisons of integers.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

version: int = 0
gradients: int = 0
#: How many traces run a user's function now, in all threads; each thread asks `modes` for its own.
tracing: int = 0


def bump() -> None:
    """Record that something a guard may have read has changed."""
    global version
    version += 1


@contextlib.contextmanager
def traced() -> Iterator[None]:
    """A block in which a trace runs a user's function."""
    global tracing
    with _lock:
        tracing += 1
    try:
        yield
    finally:
        with _lock:
            tracing -= 1


_lock = threading.Lock()
