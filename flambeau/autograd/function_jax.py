"""A custom Function inside JAX's transformations: its gradient is told to JAX too.

Where `jax.grad` or a mapped and recorded function differentiates, the tape plays no part, and JAX
would differentiate what forward computes. So the results pass through a `jax.custom_vjp` on their
way out, whose rule is the Function's backward.
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
from flambeau.core.modes import enable_grad, modes
from flambeau.core.tensor import Tensor

Arrays = tuple[Any, ...]


def is_transformed(args: Sequence[Any]) -> bool:
    """Whether a call with these arguments is part of a function that JAX transforms."""
    if modes.trace is not None and not modes.entered:
        return False
    return any(isinstance(each, Tensor) and isinstance(each._read(), Tracer) for each in args)


def known_to_jax(
    cls: Any, ctx: FunctionCtx, args: Sequence[Any], results: Sequence[Any]
) -> tuple[Any, ...]:
    """The results of forward, as ones that JAX differentiates by backward.

    Args:
        cls: The Function.
        ctx: What forward has filled.
        args: The arguments of forward.
        results: What forward gave.

    Returns:
        The results, with another tensor in the place of each tensor.
    """
    rule = _Rule(cls, ctx, args, results)
    inputs = tuple([each._read() for each in args if isinstance(each, Tensor)])
    outputs = tuple([each._read() for each in results if isinstance(each, Tensor)])
    passed = jax.custom_vjp(rule.primal)
    passed.defvjp(rule.forward, rule.backward)
    arrays = iter(passed(inputs, outputs, rule.kept))
    return tuple(
        [Tensor._wrap(next(arrays)) if isinstance(each, Tensor) else each for each in results]
    )


class _Rule:
    """How JAX differentiates one call.

    JAX must be given everything that backward needs, so that it can differentiate that again.

    Attributes:
        kept: The arrays that forward saved, and those of the tensors that it set on ``ctx``.
    """

    def __init__(
        self, cls: Any, ctx: FunctionCtx, args: Sequence[Any], results: Sequence[Any]
    ) -> None:
        self.cls = cls
        self.inputs = tuple([Form.of(each) for each in args])
        self.results = tuple([Form.of(each) for each in results])
        self.needs = tuple([form is not None for form in self.inputs])
        attributes = vars(ctx)
        self.settings = {k: v for k, v in attributes.items() if not isinstance(v, Tensor)}
        saved = tuple([None if each is None else each._read() for each in ctx.to_save])
        tensors = {k: v._read() for k, v in attributes.items() if isinstance(v, Tensor)}
        self.kept = (saved, tensors)

    def primal(self, inputs: Arrays, outputs: Arrays, kept: Any) -> Arrays:
        """The results, which have been computed already."""
        return outputs

    def forward(self, inputs: Arrays, outputs: Arrays, kept: Any) -> tuple[Arrays, Any]:
        """The results, and what `backward` takes of the rest."""
        return outputs, kept

    def backward(self, kept: Any, cotangents: Arrays) -> tuple[Any, ...]:
        """The cotangents of what `primal` takes: the results and what was kept get none."""
        saved, tensors = kept
        ctx = FunctionCtx(self.needs)
        ctx.__dict__.update(self.settings)
        ctx.__dict__.update({name: Tensor._wrap(array) for name, array in tensors.items()})
        ctx.needs_input_grad = self.needs
        ctx._restore(saved)
        with enable_grad():
            returned = pick_backward(self.cls)(ctx, *self._gradients(cotangents))
            name = f"{self.cls.__name__}Backward"
            found = checked_gradients(name, returned, self.inputs)
        inputs = [
            _no_cotangent(form) if grad is None or form.dtype.numpy not in INEXACT
            else jnp.conj(grad._read())
            for form, grad in zip(filter(None, self.inputs), found, strict=True)
        ]  # fmt: skip
        outputs = [_no_cotangent(form) for form in self.results if form is not None]
        return tuple(inputs), tuple(outputs), jax.tree.map(_no_cotangent_of_array, kept)

    def _gradients(self, cotangents: Arrays) -> list[Any]:
        """One gradient per result, in PyTorch's convention, which is the conjugate of JAX's."""
        remaining = iter(cotangents)
        grads: list[Any] = []
        for form in self.results:
            cotangent = None if form is None else next(remaining)
            if form is None or cotangent is None:
                grads.append(None)
            elif cotangent.dtype == jax.dtypes.float0:
                grads.append(form.zeros())
            else:
                grads.append(Tensor._wrap(jnp.conj(cotangent)))
        return grads


def _no_cotangent(form: Form) -> Any:
    return _zeros(form.shape, form.dtype.numpy)


def _no_cotangent_of_array(array: Any) -> Any:
    return _zeros(array.shape, array.dtype)


def _zeros(shape: tuple[int, ...], numpy_dtype: Any) -> Any:
    if numpy_dtype in INEXACT:
        return jnp.zeros(shape, numpy_dtype)
    return np.zeros(shape, jax.dtypes.float0)
