"""Tracers, JAX's placeholders for values while it traces, and their use after the trace.

A hook, a list or a global may keep a tensor beyond the trace that computed it. Only JAX can detect
this, when the tracer is used; `no_longer_known` is the error.
"""

from __future__ import annotations

from collections.abc import Iterable

from jax import lax
from jax.core import Tracer
from jax.errors import UnexpectedTracerError

from flambeau.core.support.warning import warn
from flambeau.core.types import Contents, Tensor
from flambeau.core.values.trace import TracedValueError


def no_longer_known() -> TracedValueError:
    """The error for a tensor that is used after the trace, or transformation, that computed it."""
    return TracedValueError(
        "a tensor that was computed while a function was being compiled, or transformed by JAX, "
        "has no value outside of it: a hook, a list, a global or an attribute of a plain object "
        "has kept it. Return it from that function instead"
    )


def check_alive(tracer: Tracer) -> None:
    """Fail if the transformation that made ``tracer`` has ended.

    Raises:
        TracedValueError: It has ended.
    """
    try:
        tracer.reshape(-1)
    except UnexpectedTracerError:
        raise no_longer_known() from None


def constant(array: Contents) -> Contents:
    """``array``, with gradients of JAX's transformations stopped.

    Raises:
        TracedValueError: It is a tracer of a trace that has ended.
    """
    if not isinstance(array, Tracer):
        return array
    try:
        return lax.stop_gradient(array)
    except UnexpectedTracerError:
        raise no_longer_known() from None


def warn_of_constants(tensors: Iterable[Tensor]) -> None:
    """Warn of parameters that a function under ``jax.jit`` finds outside itself.

    Args:
        tensors: The operands of an operator, of which some are tracers of JAX's own.
    """
    is_leaf = (
        each._requires_grad and each._grad_fn is None and not isinstance(each._cell.array, Tracer)
        for each in tensors
    )
    # Under jax.jit a new array is a tracer too; under jax.grad and jax.vmap alone it is none.
    if any(is_leaf) and isinstance(lax.full((), 0), Tracer):
        warn(
            "a function under jax.jit uses parameters that are not among its arguments: they are "
            "constants of its program, and later updates are not seen. Pass them, as in "
            "jax.jit(lambda p, x: flambeau.func.functional_call(net, p, x)), use "
            "flambeau.compile(net), which follows them, or freeze them by net.requires_grad_(False)"
        )
