"""JAX's own core: the state of a thread, equations of jaxprs, and the class of tracers."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from flambeau.core.support import jax_private

_NAMES = ("Literal", "Primitive", "Var", "get_opaque_trace_state")


@functools.cache
def jax_core() -> Any:
    """A module with the names of `jax.extend.core` that flambeau uses."""
    # `jax.extend` imports kernel languages, which takes half the time of building a small model.
    if all(hasattr(jax_private.core, name) for name in _NAMES):
        return jax_private.core
    from jax.extend import core

    return core


def bind(equation: Any, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of an equation of a jaxpr."""
    parameters = equation.primitive.get_bind_params(equation.params)
    with equation.ctx.manager:
        result = equation.primitive.bind(*operands, **parameters)
    return result if equation.primitive.multiple_results else [result]


def called_by(equation: Any) -> Iterator[Any]:
    """The jaxprs among the parameters of an equation."""
    for value in equation.params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            part = getattr(part, "jaxpr", part)
            if hasattr(part, "eqns"):
                yield part


def transformations() -> Any:
    """The JAX transformations that are running on this thread, in a comparable form."""
    return jax_core().get_opaque_trace_state()


@functools.cache
def no_transformations() -> Any:
    """The result of `transformations` outside of all of them, as on every new thread."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(transformations()))
    thread.start()
    thread.join()
    return found[0]


def computes_the_same(left: Any, right: Any) -> bool:
    """Whether two traced arrays are the same value: the same operations on the same inputs.

    If JAX hides how a tracer was computed, only the same tracer is equal to it.
    """
    return _same(left, right, {})


# Longer chains of repeated operations are not compared, nor larger constants.
_LONGEST = 200
_LARGEST = 64


def _same(left: Any, right: Any, known: dict[tuple[int, int], bool], length: int = 0) -> bool:
    if left is right:
        return True
    if length == _LONGEST or getattr(left, "aval", None) != getattr(right, "aval", 0):
        return False
    key = (id(left), id(right))
    if key not in known:
        known[key] = _made_alike(left, right, known, length)
    return known[key]


def _made_alike(left: Any, right: Any, known: dict[tuple[int, int], bool], length: int) -> bool:
    one, other = getattr(left, "parent", None), getattr(right, "parent", None)
    if one is None or other is None:
        return one is other is None and _same_constant(_constant(left), _constant(right))
    if one.primitive is not other.primitive or one.effects or other.effects:
        return False
    if len(one.in_tracers) != len(other.in_tracers) or not _same_params(one.params, other.params):
        return False
    if _position(left, one) != _position(right, other):
        return False
    pairs = zip(one.in_tracers, other.in_tracers, strict=True)
    return all(_same(a, b, known, length + 1) for a, b in pairs)


def _same_params(left: dict[str, Any], right: dict[str, Any]) -> bool:
    # As JAX caches it, the jaxpr of a jitted operator is the same object every time.
    try:
        return bool(left == right)
    except ValueError:  # They hold arrays, which do not compare as a whole.
        return False


def _constant(tracer: Any) -> Any:
    """The number or array of a tracer that is a constant of its program."""
    literal = getattr(getattr(tracer, "val", None), "val", None)
    if literal is not None:
        return literal
    known = getattr(tracer, "get_const", None)
    return None if known is None else known()


def _same_constant(left: Any, right: Any) -> bool:
    """Whether both are one number, or NumPy arrays of the same few numbers: positions of views.

    A `jax.Array` is the content of a Cell and has only one tracer.
    """
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.size <= _LARGEST and left.dtype == right.dtype and np.array_equal(left, right)
    return type(left) is type(right) and isinstance(left, bool | int | float) and left == right


def _position(tracer: Any, equation: Any) -> int:
    """The index of a tracer among the results of its equation."""
    return [each is tracer.val for each in equation.outvars].index(True)
