"""The node of a custom Function: runs its backward and checks the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from flambeau.autograd.function_context import FunctionCtx
from flambeau.core.support.modes import kept_modes
from flambeau.core.tape.node import Edge, Node
from flambeau.core.tape.nodes import freed_error
from flambeau.core.tape.saved_values import SavedTensor
from flambeau.core.values.cell import abstract, is_abstract
from flambeau.core.values.tensor import Tensor


class Form(NamedTuple):
    """Shape, dtype and device of a tensor, without its elements.

    Attributes:
        shape: The shape.
        dtype: The dtype.
        on_meta: Whether it is on the meta device.
        place: JAX's sharding; ``None`` on the meta device and for tracers.
    """

    shape: tuple[int, ...]
    dtype: Any
    on_meta: bool
    place: Any

    @staticmethod
    def of(value: Any) -> Form | None:
        """The form of a tensor; ``None`` for any other value."""
        if not isinstance(value, Tensor):
            return None
        array = value._read()
        is_here = isinstance(array, jax.Array) and not isinstance(array, Tracer)
        place = array.sharding if is_here else None
        return Form(tuple(array.shape), value.dtype, value.is_meta, place)

    def zeros(self) -> Tensor:
        """A tensor of zeros of this form."""
        if self.on_meta:
            return Tensor._wrap(abstract(self.shape, self.dtype.numpy))
        zeros = np.zeros(self.shape, self.dtype.numpy)
        if self.place is None:
            return Tensor._wrap(jnp.asarray(zeros))
        return Tensor._wrap(jax.device_put(zeros, self.place))


class BackwardCFunction(Node):
    """A recorded call of a `Function`, with the attributes that forward set on ``ctx``.

    Attributes:
        ctx: The call's context.
        inputs: The form of each argument; ``None`` for an argument that is not a tensor.
        results: The form of each output, likewise.
    """

    __slots__ = ("ctx", "inputs", "results")

    _forward_cls: Any

    def __init__(
        self,
        ctx: FunctionCtx,
        edges: tuple[Edge, ...],
        inputs: tuple[Form | None, ...],
        results: tuple[Form | None, ...],
    ) -> None:
        super().__init__(edges, len(results))
        self.ctx: FunctionCtx = ctx
        self.inputs: tuple[Form | None, ...] = inputs
        self.results: tuple[Form | None, ...] = results

    def __getattr__(self, name: str) -> Any:
        if name in BackwardCFunction.__slots__ or name in Node.__slots__:
            raise AttributeError(name)
        return getattr(self.ctx, name)

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        """The tensors that forward saved, for hooks."""
        if self.ctx._packed is None:
            raise freed_error(self)
        return tuple([SavedTensor(self.ctx, i) for i in range(len(self.ctx._packed))])

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """See `Node.pull`."""
        grads = [each if as_tensors or each is None else Tensor._wrap(each) for each in cotangents]
        if self.ctx.materialize_grads:
            for number, form in enumerate(self.results):
                if grads[number] is None and form is not None:
                    grads[number] = form.zeros()
        with kept_modes():
            returned = pick_backward(self._forward_cls)(self.ctx, *grads)
        pulled = checked_gradients(self.name(), returned, self.inputs)
        if not keep:
            self.ctx._free()
        if as_tensors:
            return pulled
        return [None if each is None else each._read() for each in pulled]


def pick_backward(cls: Any) -> Any:
    """The method that computes gradients: ``backward``, or its other name ``vjp``."""
    has_backward, has_vjp = is_overridden(cls, "backward"), is_overridden(cls, "vjp")
    if has_backward and has_vjp:
        raise RuntimeError(
            f"{cls.__name__} defines both backward and vjp, which are two names of one method; "
            "define one of them"
        )
    return cls.vjp if has_vjp else cls.backward


def is_overridden(cls: Any, name: str) -> bool:
    """Whether a subclass overrides a method of `Function`, the last base to have it."""
    return sum(name in vars(base) for base in cls.__mro__) > 1


def checked_gradients(
    name: str, returned: Any, inputs: Sequence[Form | None]
) -> list[Tensor | None]:
    """The gradients that a backward returned, one for each tensor among the arguments.

    Args:
        name: The function's name, for messages.
        returned: A gradient or a tuple of them, one per argument of forward, and perhaps more that
            are ``None``.
        inputs: The form of each argument.

    Raises:
        RuntimeError: Their number does not fit; a gradient is given for an argument that is not a
            tensor; a gradient is not a tensor; or its shape or dtype does not fit its input's.
    """
    grads = returned if isinstance(returned, tuple) else (returned,)
    surplus = grads[len(inputs) :]
    if len(grads) < len(inputs) or any(each is not None for each in surplus):
        raise RuntimeError(
            f"{name} returned {len(grads)} gradients for {len(inputs)} arguments of its forward; "
            "return one for each, None where there is none"
        )
    found = []
    for place, (grad, form) in enumerate(zip(grads, inputs, strict=False)):
        if form is not None:
            found.append(None if grad is None else _fitted(name, place, grad, form))
        elif grad is not None:
            raise RuntimeError(
                f"{name} returned a gradient for argument {place} of its forward, which was no "
                "Tensor; return None there"
            )
    return found


def _fitted(name: str, place: int, grad: Any, form: Form) -> Tensor:
    """``grad`` summed to the shape and converted to the dtype of its input."""
    if not isinstance(grad, Tensor):
        raise RuntimeError(
            f"{name} must return a Tensor or None as gradient {place}, got {type(grad).__name__}"
        )
    shape = tuple(grad.shape)
    if shape != form.shape:
        if not _expands(form.shape, shape):
            raise RuntimeError(
                f"{name} returned gradient {place} of shape {list(shape)} "
                f"for an input of shape {list(form.shape)}"
            )
        grad = _summed(grad, form.shape)
    if grad.dtype is not form.dtype:
        if grad.is_complex() and not form.dtype.is_complex:
            raise RuntimeError(
                f"{name} returned gradient {place} of {grad.dtype} for an input of {form.dtype}; "
                "take its real part"
            )
        grad = grad.to(form.dtype)
    if is_abstract(grad._cell.array) != form.on_meta:
        raise RuntimeError(
            f"{name} returned gradient {place} on {grad.device}, but its input is "
            f"{'on' if form.on_meta else 'not on'} the meta device"
        )
    return grad


def _expands(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    """Whether a tensor of shape ``small`` broadcasts to ``large``."""
    if len(small) > len(large):
        return False
    pairs = zip(reversed(small), reversed(large), strict=False)
    return all(a in (1, b) for a, b in pairs)


def _summed(grad: Any, shape: tuple[int, ...]) -> Tensor:
    lead = grad.ndim - len(shape)
    dims = [*range(lead)]
    dims += [d for d in range(lead, grad.ndim) if shape[d - lead] == 1 and grad.shape[d] != 1]
    return grad.sum(dims, keepdim=True).reshape(shape)
