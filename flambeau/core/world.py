"""Counters of everything that a compiled program takes for granted.

Module attributes, hooks, training flags and the like call `bump` when they change, and whatever
sets the ``.grad`` of a tensor adds one to `gradients`. While both counters stand still, a compiled
program that was valid is still valid, so checking it costs two comparisons of integers.
"""

from __future__ import annotations

version = 0
gradients = 0


def bump() -> None:
    """Record that something a guard may have read has changed."""
    global version
    version += 1
