"""Counters of everything that a compiled program takes for granted.

Module attributes, hooks, training flags and the like call `bump` when they change, and whatever
sets the ``.grad`` of a tensor calls `bump_gradients`. While both counters stand still, a compiled
program that was valid is still valid, so checking it costs two comparisons of integers.
"""

from __future__ import annotations

import itertools
from typing import Any

# Each number is taken once, whichever thread takes it. Two threads that add one to the same number
# could set a counter back to a value that it has had before other changes.
_numbers = itertools.count(1)

version: int = 0
gradients: int = 0
#: The traces that run a user's function now, in all threads; each thread asks `modes` for its own.
tracing: set[Any] = set()


def bump() -> None:
    """Record that something a guard may have read has changed."""
    global version
    version = next(_numbers)


def bump_gradients() -> None:
    """Record that the ``.grad`` of some tensor is another one."""
    global gradients
    gradients = next(_numbers)
