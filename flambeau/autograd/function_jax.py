"""A custom Function inside JAX's transformations: its gradient is told to JAX too.

Where `jax.grad` or a mapped and recorded function differentiates, the tape plays no part, and JAX
would differentiate what forward computes. Here the call becomes a `jax.custom_vjp` instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from flambeau.autograd.function_context import FunctionCtx
from flambeau.autograd.function_node import Form, checked_gradients, pick_backward
from flambeau.core.kernel import INEXACT
from flambeau.core.modes import enable_grad, modes, no_grad
from flambeau.core.tensor import Tensor

Arrays = tuple[Any, ...]


def is_transformed(args: Sequence[Any]) -> bool:
    """Whether a call with these arguments is part of a function that JAX transforms."""
    if modes.trace is not None and not modes.entered:
        return False
    return any(isinstance(each, Tensor) and isinstance(each._read(), Tracer) for each in args)


class JaxCall:
    """One call of a Function, as JAX sees it.

    Args:
        cls: The Function.
        args: The arguments of its forward.
        separate: Whether its forward takes no ``ctx``.
    """

    def __init__(self, cls: Any, args: tuple[Any, ...], separate: bool) -> None:
        self.cls = cls
        self.args = args
        self.separate = separate
        self.places = [i for i, each in enumerate(args) if isinstance(each, Tensor)]
        self.forms = tuple([Form.of(each) for each in args])
        # What the last run of forward left, arrays aside.
        self.returned: Any = None
        self.ctx: FunctionCtx | None = None

    def run(self) -> tuple[Any, ...]:
        """The results of forward: those that are Tensors new, the others as they are."""
        called = jax.custom_vjp(self._primal)
        called.defvjp(self._forward, self._backward)
        arrays = iter(called(*(self.args[place]._read() for place in self.places)))
        results = self.returned if isinstance(self.returned, tuple) else (self.returned,)
        return tuple(
            Tensor._wrap(next(arrays)) if isinstance(each, Tensor) else each for each in results
        )

    def _primal(self, *arrays: Any) -> Arrays:
        return self._run_forward(arrays)

    def _forward(self, *arrays: Any) -> tuple[Arrays, Any]:
        results = self._run_forward(arrays)
        ctx = self.ctx
        assert ctx is not None
        saved = tuple([None if each is None else each._read() for each in ctx.to_save])
        attributes = {
            name: each._read() for name, each in vars(ctx).items() if isinstance(each, Tensor)
        }
        return results, (saved, attributes)

    def _run_forward(self, arrays: Arrays) -> Arrays:
        args = list(self.args)
        for place, array in zip(self.places, arrays, strict=True):
            args[place] = Tensor._wrap(array)
        ctx = self.ctx = FunctionCtx(tuple([form is not None for form in self.forms]))
        stopping, modes.stopping = modes.stopping, False
        try:
            with no_grad():
                if self.separate:
                    self.returned = self.cls.forward(*args)
                    self.cls.setup_context(ctx, tuple(args), self.returned)
                else:
                    self.returned = self.cls.forward(ctx, *args)
        finally:
            modes.stopping = stopping
        results = self.returned if isinstance(self.returned, tuple) else (self.returned,)
        return tuple([each._read() for each in results if isinstance(each, Tensor)])

    def _backward(self, residuals: Any, cotangents: Arrays) -> Arrays:
        saved, attributes = residuals
        assert self.ctx is not None
        ctx = FunctionCtx(self.ctx.needs_input_grad)
        ctx.__dict__.update(self.ctx.__dict__)
        ctx.__dict__.update({name: Tensor._wrap(each) for name, each in attributes.items()})
        ctx._restore(saved)
        with enable_grad():
            returned = pick_backward(self.cls)(ctx, *self._as_gradients(cotangents))
            name = f"{self.cls.__name__}Backward"
            found = checked_gradients(name, returned, self.forms)
        return tuple(
            [
                _cotangent(form, grad)
                for form, grad in zip(filter(None, self.forms), found, strict=True)
            ]
        )

    def _as_gradients(self, cotangents: Arrays) -> list[Any]:
        """One gradient per result, in PyTorch's convention."""
        results = self.returned if isinstance(self.returned, tuple) else (self.returned,)
        remaining = iter(cotangents)
        grads: list[Any] = []
        for result in results:
            if not isinstance(result, Tensor):
                grads.append(None)
                continue
            cotangent = next(remaining)
            if cotangent.dtype == jax.dtypes.float0:
                cotangent = jnp.zeros(tuple(result.shape), result.dtype.numpy)
            grads.append(Tensor._wrap(jnp.conj(cotangent)))
        return grads


def _cotangent(form: Form, grad: Tensor | None) -> Any:
    """The gradient of one input, in JAX's convention."""
    if form.dtype.numpy not in INEXACT:
        return np.zeros(form.shape, jax.dtypes.float0)
    if grad is None:
        return jnp.zeros(form.shape, form.dtype.numpy)
    return jnp.conj(grad._read())
