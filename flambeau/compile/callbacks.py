"""Whether a traced program calls Python while it runs.

A program that does so overwrites nothing: the Python function may raise, and may read the tensors
that the program is about to write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def calls_back(jaxpr: Any) -> bool:
    """Whether ``jaxpr``, or one that it contains, calls Python: `jax.pure_callback` and others."""
    for each in _with_inner(jaxpr):
        for equation in each.eqns:
            if equation.effects or "callback" in equation.primitive.name:
                return True
    return False


def _with_inner(jaxpr: Any) -> Iterator[Any]:
    met: set[int] = set()
    stack = [jaxpr]
    while stack:
        each = stack.pop()
        if id(each) in met:
            continue
        met.add(id(each))
        yield each
        for equation in each.eqns:
            for value in equation.params.values():
                for part in value if isinstance(value, tuple | list) else (value,):
                    part = getattr(part, "jaxpr", part)
                    if hasattr(part, "eqns"):
                        stack.append(part)
