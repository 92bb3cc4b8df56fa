"""Tracers, the stand-ins for values while JAX traces, and their fate afterwards.

A hook, a list or a global may keep a tensor longer than the trace in which it was computed. Only
JAX can tell, when the tracer is used; `no_longer_known` is the error then.
"""

from __future__ import annotations

from typing import Any

from jax import lax
from jax.core import Tracer
from jax.errors import UnexpectedTracerError

from flambeau.core.trace import TracedValueError


def no_longer_known() -> TracedValueError:
    """The error for a tensor that is used after the trace, or transformation, that computed it."""
    return TracedValueError(
        "a tensor that was computed while a function was being compiled, or transformed by JAX, "
        "has no value outside of it: a hook, a list, a global or an attribute of a plain object "
        "has kept it. Return it from that function instead"
    )


def check_alive(tracer: Tracer) -> None:
    """Fail if the transformation that has made ``tracer`` is over.

    Raises:
        TracedValueError: It is.
    """
    try:
        tracer.reshape(-1)
    except UnexpectedTracerError:
        raise no_longer_known() from None


def constant(array: Any) -> Any:
    """``array``, through which JAX's transformations send no gradient.

    Raises:
        TracedValueError: It is a tracer that is used too late.
    """
    if not isinstance(array, Tracer):
        return array
    try:
        return lax.stop_gradient(array)
    except UnexpectedTracerError:
        raise no_longer_known() from None
