"""A custom Function inside JAX's transformations: JAX uses its gradient too.

Under `jax.grad`, or in a mapped function that is recorded, the tape is not used, and JAX would
differentiate the operations of forward. So the results pass through a `jax.custom_vjp` whose rule
is the Function's backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from flambeau.autograd.function_context import FunctionCtx
from flambeau.autograd.function_jvp import call_jvp, defines_jvp
from flambeau.autograd.function_node import Form, checked_gradients, pick_backward
from flambeau.core.kernels.kernel import INEXACT
from flambeau.core.support.modes import enable_grad, modes
from flambeau.core.values.inside import transformation
from flambeau.core.values.tensor import Tensor

Arrays = tuple[Any, ...]


def is_transformed(args: Sequence[Any]) -> bool:
    """Whether a call with these arguments is part of a function that JAX transforms."""
    if modes.trace is not None and transformation() is None:
        return False
    return any(isinstance(each, Tensor) and isinstance(each._read(), Tracer) for each in args)


def known_to_jax(
    cls: Any, ctx: FunctionCtx, args: Sequence[Any], results: Sequence[Any]
) -> tuple[Any, ...]:
    """The results of forward, which JAX differentiates by calling backward.

    Args:
        cls: The Function.
        ctx: The context that forward filled.
        args: The arguments of forward.
        results: The results of forward.

    Returns:
        The results, with each tensor replaced.
    """
    if modes.pushing and defines_jvp(cls):
        return _known_forward(cls, ctx, args, results)
    rule = _Rule(cls, ctx, args, results)
    inputs = tuple([each._read() for each in args if isinstance(each, Tensor)])
    outputs = tuple([each._read() for each in results if isinstance(each, Tensor)])
    passed = jax.custom_vjp(rule.primal)
    passed.defvjp(rule.forward, rule.backward)
    arrays = iter(passed(inputs, outputs, rule.kept))
    return tuple(
        [Tensor._wrap(next(arrays)) if isinstance(each, Tensor) else each for each in results]
    )


def _known_forward(
    cls: Any, ctx: FunctionCtx, args: Sequence[Any], results: Sequence[Any]
) -> tuple[Any, ...]:
    """The results of forward, which JAX differentiates by ``jvp``, forward and backward."""
    kept = _Kept(ctx, ctx.saved_for_forward or ())
    takes = [isinstance(each, Tensor) and not _is_marked(ctx, each) for each in results]

    def primal(inputs: Arrays, outputs: Arrays, arrays: Any) -> Arrays:
        return outputs

    def rule(primals: Any, tangents: Any) -> tuple[Arrays, Arrays]:
        _, outputs, arrays = primals
        own, saved = kept.context(arrays, tuple([False] * len(args)))
        own.saved_for_forward = saved
        remaining = iter(tangents[0])
        given = [
            _tangent(each, next(remaining)) if isinstance(each, Tensor) else None for each in args
        ]
        wrapped = [Tensor._wrap(each) for each in outputs]
        shown = iter(wrapped)
        forms = [next(shown) if isinstance(each, Tensor) else None for each in results]
        forms = [each if take else None for each, take in zip(forms, takes, strict=True)]
        found = call_jvp(cls, own, given, forms)
        pushed = [t for t, each in zip(found, results, strict=True) if isinstance(each, Tensor)]
        return outputs, tuple(
            [
                _zeros(value.shape, value.dtype) if each is None else each._read()
                for each, value in zip(pushed, outputs, strict=True)
            ]
        )

    passed = jax.custom_jvp(primal)
    passed.defjvp(rule)
    inputs = tuple([each._read() for each in args if isinstance(each, Tensor)])
    outputs = tuple([each._read() for each in results if isinstance(each, Tensor)])
    arrays = iter(passed(inputs, outputs, kept.arrays))
    return tuple(
        [Tensor._wrap(next(arrays)) if isinstance(each, Tensor) else each for each in results]
    )


def _is_marked(ctx: FunctionCtx, result: Tensor) -> bool:
    return any(result is each for each in ctx.non_differentiable)


def _tangent(argument: Tensor, tangent: Any) -> Tensor | None:
    return None if argument.dtype.numpy not in INEXACT else Tensor._wrap(tangent)


class _Kept:
    """The values that one call keeps: arrays, which JAX must trace, and all others.

    Attributes:
        arrays: The arrays of the tensors that forward saved or set on ``ctx``.
    """

    def __init__(self, ctx: FunctionCtx, saved: Sequence[Tensor | None]) -> None:
        attributes = vars(ctx)
        self.settings = {k: v for k, v in attributes.items() if not isinstance(v, Tensor)}
        tensors = {k: v._read() for k, v in attributes.items() if isinstance(v, Tensor)}
        self.arrays = (tuple([None if each is None else each._read() for each in saved]), tensors)

    def context(self, arrays: Any, needs: tuple[bool, ...]) -> tuple[FunctionCtx, tuple[Any, ...]]:
        """A context like the call's, and the saved tensors, made from these arrays."""
        saved, tensors = arrays
        ctx = FunctionCtx(needs)
        ctx.__dict__.update(self.settings)
        ctx.__dict__.update({name: Tensor._wrap(array) for name, array in tensors.items()})
        ctx.needs_input_grad = needs
        return ctx, tuple([None if each is None else Tensor._wrap(each) for each in saved])


class _Rule:
    """JAX's differentiation rule for one call.

    JAX must be given everything that backward needs, so that it can differentiate backward again.

    Attributes:
        kept: The arrays of the tensors that forward saved or set on ``ctx``.
    """

    def __init__(
        self, cls: Any, ctx: FunctionCtx, args: Sequence[Any], results: Sequence[Any]
    ) -> None:
        self.cls = cls
        self.inputs = tuple([Form.of(each) for each in args])
        self.results = tuple([Form.of(each) for each in results])
        self.needs = tuple([form is not None for form in self.inputs])
        self.context = _Kept(ctx, ctx.to_save)
        self.kept = self.context.arrays

    def primal(self, inputs: Arrays, outputs: Arrays, kept: Any) -> Arrays:
        """The results, which are computed already."""
        return outputs

    def forward(self, inputs: Arrays, outputs: Arrays, kept: Any) -> tuple[Arrays, Any]:
        """The results, and the residuals for `backward`."""
        return outputs, kept

    def backward(self, kept: Any, cotangents: Arrays) -> tuple[Any, ...]:
        """The cotangents of the arguments of `primal`; the results and the kept values get none."""
        ctx, _ = self.context.context(kept, self.needs)
        ctx._restore(kept[0])
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
