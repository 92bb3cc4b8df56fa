"""Counters of everything that a compiled program takes for granted.

Module attributes, hooks, training flags and the like call `bump` when they change, and whatever
sets the ``.grad`` of a tensor adds one to `gradients`. While both counters stand still, a compiled
program that was valid is still valid, so checking it costs two comparisons of integers.
"""

from __future__ import annotations

from typing import Any

version: int = 0
gradients: int = 0
#: The traces that run a user's function now, in all threads; each thread asks `modes` for its own.
tracing: set[Any] = set()


def bump() -> None:
    """Record that something a guard may have read has changed."""
    global version
    version += 1
