"""Counters of changes to everything that a compiled program relies on.

Changes of module attributes, hooks, training flags and the like call `bump`, and code that sets the
``.grad`` of a tensor calls `bump_gradients`. While both counters are unchanged, a valid compiled
program stays valid, so the check costs two integer comparisons.
"""

from __future__ import annotations

import itertools
from typing import Any

# Each number is taken once, by one thread. Two threads that add one to the same number could set a
# counter back to a value that it had before other changes.
_numbers = itertools.count(1)

version: int = 0
gradients: int = 0
#: The traces that are running a user's function, in all threads; each thread asks `modes` for its
#: own.
tracing: set[Any] = set()


def bump() -> None:
    """Record that something a guard may have read has changed."""
    global version
    version = next(_numbers)


def bump_gradients() -> None:
    """Record that the ``.grad`` of some tensor was replaced."""
    global gradients
    gradients = next(_numbers)
