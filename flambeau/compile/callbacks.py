"""Callbacks from a program to Python.

A program with a callback donates no buffer: the Python function may raise, and may read the tensors
that the program is about to write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flambeau.core.support.jax_core import called_by
from flambeau.core.support.jax_private import AxisEffect


def calls_back(jaxpr: Any) -> bool:
    """Whether ``jaxpr``, or one inside it, calls Python, as `jax.pure_callback` does."""
    for each in _with_inner(jaxpr):
        for equation in each.eqns:
            # An exchange with other processes has an effect on an axis of their mesh.
            calls = any(not isinstance(effect, AxisEffect) for effect in equation.effects)
            if calls or "callback" in equation.primitive.name:
                return True
    return False


def _with_inner(jaxpr: Any) -> Iterator[Any]:
    visited: set[int] = set()
    stack = [jaxpr]
    while stack:
        each = stack.pop()
        if id(each) in visited:
            continue
        visited.add(id(each))
        yield each
        for equation in each.eqns:
            stack += called_by(equation)
