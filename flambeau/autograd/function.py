"""Operators with a custom gradient: `Function`, `once_differentiable`."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.autograd import function_vmap
from flambeau.autograd.function_again import Again, needs_history
from flambeau.autograd.function_context import FunctionCtx
from flambeau.autograd.function_jax import is_transformed, known_to_jax
from flambeau.autograd.function_jvp import Marks, push_tangents
from flambeau.autograd.function_node import BackwardCFunction, Form
from flambeau.autograd.function_vmap import defines_vmap
from flambeau.core.kernels.kernel import INEXACT
from flambeau.core.operators.viewing import guarded_view
from flambeau.core.operators.writing import put
from flambeau.core.support.modes import enable_grad, modes, no_grad
from flambeau.core.support.warning import warn
from flambeau.core.tape import nodes as tape
from flambeau.core.tape import packing
from flambeau.core.tape.node import Node
from flambeau.core.tape.transform import lifted
from flambeau.core.values import dual
from flambeau.core.values.tensor import Tensor

__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "once_differentiable"]


class Function:
    """The base of operators that define their own gradient.

    A subclass defines the static methods `forward` and `backward`, and is called through `apply`.

    >>> import flambeau
    >>> from flambeau.autograd import Function
    >>> class Cube(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x * x * grad
    >>> x = flambeau.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    #: Declares that there is no `vmap`; JAX batches the operations of forward and backward anyway.
    generate_vmap_rule: bool = False

    _backward_cls: type[BackwardCFunction]

    def __init__(self) -> None:
        warn(
            f"{type(self).__name__} should not be instantiated; call {type(self).__name__}.apply()",
            DeprecationWarning,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"call {type(self).__name__}.apply() rather than an instance of it")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._backward_cls = type(
            f"{cls.__name__}Backward",
            (BackwardCFunction,),
            {"__slots__": (), "__module__": cls.__module__, "_forward_cls": cls},
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the operator; operators inside are not recorded.

        Either ``forward(ctx, *args)``, or ``forward(*args)`` together with `setup_context`.

        Returns:
            A Tensor or a tuple; entries that are no Tensors pass through to the caller.
        """
        raise NotImplementedError("a Function must define the static method forward")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save on ``ctx`` the values that backward needs, for a forward that takes no ``ctx``."""
        raise NotImplementedError("setup_context is not defined")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of forward's arguments from those of its outputs.

        Args:
            ctx: The context that forward filled.
            grad_outputs: One gradient per output.

        Returns:
            One gradient per argument of forward, ``None`` where there is none.
        """
        raise NotImplementedError(
            "a Function that gradients flow through must define the static method backward (or vjp)"
        )

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The tangents of forward's outputs from those of its arguments, for forward mode.

        Called right after forward, when ``ctx.saved_tensors`` are the tensors of
        `save_for_forward`.

        Args:
            ctx: The context that forward filled.
            grad_inputs: For each argument of forward its tangent; zeros for a Tensor without one
                (``None`` after ``set_materialize_grads(False)``), ``None`` for anything else.

        Returns:
            One tangent per output, ``None`` where there is none.
        """
        raise NotImplementedError(
            "a Function that is used in forward mode must define the static method jvp"
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """Compute a batch under `flambeau.func.vmap`, in place of `forward`.

        Needs a `setup_context`. Define it only to replace JAX's own batching. Gradients come from
        `backward` for each example.

        Args:
            info: Has the attributes ``batch_size`` and ``randomness``.
            in_dims: For each argument 0 if it is a Tensor with the batch in front, else ``None``.
            args: The arguments of forward.

        Returns:
            What forward returns, and for each result the dimension of the batch, or ``None``.
        """
        raise NotImplementedError("vmap is not defined")

    # PyTorch's second name for backward. A subclass may define either.
    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Another name for `backward`."""
        raise NotImplementedError("vjp is not defined")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the operator.

        Gradients flow to the Tensors among the arguments, not to those inside lists or dicts.

        Raises:
            RuntimeError: A tensor that forward marked as dirty is not returned, or is a leaf that
                requires grad.
        """
        return _Call(cls, args, kwargs).run()


class _Call:
    """One call of a Function.

    Args:
        cls: The Function.
        args: Positional arguments.
        kwargs: Keyword arguments, which forward must take by position too.
    """

    def __init__(self, cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.cls = cls
        self.separate = cls.setup_context is not Function.setup_context
        self.args = lifted(self._bound(args, kwargs) if kwargs or self.separate else args)
        needs = tuple([isinstance(each, Tensor) and each.requires_grad for each in self.args])
        self.ctx = FunctionCtx(needs)
        self.recorded = modes.grad_enabled and any(needs)
        # Computed now, since forward may write to its inputs.
        self.edges = tuple([tape.edge_of(each) for each in self.args if isinstance(each, Tensor)])

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        signature = inspect.signature(self.cls.forward)
        lead = () if self.separate else (None,)
        bound = signature.bind(*lead, *args, **kwargs)
        if self.separate:
            bound.apply_defaults()
        if bound.kwargs:
            names = ", ".join(bound.kwargs)
            raise TypeError(
                f"{self.cls.__name__}.apply() cannot pass {names}, which forward takes by keyword "
                "only; let it take every argument by position"
            )
        return bound.args[len(lead) :]

    def run(self) -> Any:
        """The outputs, with their node recorded."""
        with dual.suspended():
            returned = self._forward()
        results = returned if isinstance(returned, tuple) else (returned,)
        for each in self.ctx.dirty_tensors:
            self._check_dirty(each, results)
        if not self.ctx.dirty_tensors and is_transformed(self.args):
            results = self._known_to_jax(results)
        marks = Marks.of(self.ctx)
        with dual.suspended():
            outputs = self._record(results) if self.recorded else self._unrecorded(results)
        if modes.dual is not None:
            push_tangents(self.cls, self.ctx, marks, self.args, results, outputs)
        return tuple(outputs) if isinstance(returned, tuple) else outputs[0]

    def _forward(self) -> Any:
        # no_grad in here affects the tape only; JAX gets the gradient in another way.
        is_of_jax = getattr(modes.inside, "is_of_jax", False)
        if is_of_jax:
            modes.inside.is_of_jax = False
        try:
            with no_grad():
                if not self.separate:
                    return self.cls.forward(self.ctx, *self.args)
                if defines_vmap(self.cls) and is_transformed(self.args):
                    returned = function_vmap.forward(self.cls, self.args)
                else:
                    returned = self.cls.forward(*self.args)
                self.cls.setup_context(self.ctx, self.args, returned)
                return returned
        finally:
            if is_of_jax:
                modes.inside.is_of_jax = True

    def _known_to_jax(self, results: tuple[Any, ...]) -> tuple[Any, ...]:
        """The results of forward, which JAX differentiates by calling backward."""
        known = known_to_jax(self.cls, self.ctx, self.args, results)
        counterparts = {
            id(a): b for a, b in zip(results, known, strict=True) if isinstance(a, Tensor)
        }
        ctx = self.ctx
        ctx.to_save = tuple([counterparts.get(id(each), each) for each in ctx.to_save])
        ctx.non_differentiable = tuple(
            [counterparts.get(id(each), each) for each in ctx.non_differentiable]
        )
        return known

    def _check_dirty(self, tensor: Tensor, results: tuple[Any, ...]) -> None:
        if not _contains(results, tensor):
            raise RuntimeError(
                f"{self.cls.__name__}: forward marked a tensor of shape {list(tensor.shape)} as "
                "dirty but does not return it; every input written in place must be an output"
            )
        if self.recorded and tensor.requires_grad and tensor.is_leaf:
            raise RuntimeError(
                f"{self.cls.__name__}: a leaf tensor that requires grad cannot be changed in place "
                "while gradients are recorded"
            )

    def _unrecorded(self, results: tuple[Any, ...]) -> list[Any]:
        return [self._without_history(each) for each in results]

    def _without_history(self, result: Any) -> Any:
        if not isinstance(result, Tensor) or _contains(self.ctx.dirty_tensors, result):
            return result
        if result.requires_grad or _contains(self.args, result):
            return result.detach()
        return result

    def _record(self, results: tuple[Any, ...]) -> list[Any]:
        inputs = tuple([Form.of(each) for each in self.args])
        node = self.cls._backward_cls(
            self.ctx, self.edges, inputs, tuple([Form.of(each) for each in results])
        )
        outputs = [self._output(node, number, each) for number, each in enumerate(results)]

        def again(place: int, tensor: Tensor) -> Again | None:
            if _contains(results, tensor) or not needs_history(tensor, self.args):
                return None
            needs = self.ctx.needs_input_grad
            forward = functools.partial(_saved_by, self.cls, self.separate, needs)
            args = [self._kept(each, results) for each in self.args]
            return Again(self.cls.__name__, forward, args, self.edges, place)

        self.ctx._pack(results, outputs, node, again)
        return outputs

    def _kept(self, arg: Any, results: Sequence[Any]) -> Any:
        """An argument, or a weak reference if the call must not keep it alive."""
        if not isinstance(arg, Tensor):
            return arg
        is_kept = _contains(self.ctx.to_save, arg) and packing.hooks() is None
        return arg if is_kept and not _contains(results, arg) else weakref.ref(arg)

    def _output(self, node: Node, number: int, result: Any) -> Any:
        """The tensor that the caller gets for one result of forward."""
        if not isinstance(result, Tensor):
            return result
        taken = _contains(self.ctx.non_differentiable, result)
        if taken or result._cell.array.dtype not in INEXACT:
            return self._without_history(result)
        if _contains(self.ctx.dirty_tensors, result):
            written = Tensor._wrap(result._read())
            written._grad_fn, written._output_nr, written._requires_grad = node, number, True
            with enable_grad():
                return put(result, written, f"{self.cls.__name__}.apply")
        # Tensors that exist outside this call, or follow another tensor's history, are returned
        # unchanged.
        if result._view is not None or result.requires_grad or _contains(self.args, result):
            result = guarded_view(result, self.cls.__name__)
        result._grad_fn, result._output_nr, result._requires_grad = node, number, True
        return result


def _saved_by(
    cls: type[Function], separate: bool, needs: tuple[bool, ...], args: Sequence[Any]
) -> tuple[Tensor | None, ...]:
    """The tensors that forward saves for these arguments."""
    ctx = FunctionCtx(needs)
    if separate:
        cls.setup_context(ctx, tuple(args), cls.forward(*args))
    else:
        cls.forward(ctx, *args)
    return ctx.to_save


def _contains(tensors: Sequence[Any], tensor: Any) -> bool:
    # `in` would compare elements.
    return any(each is tensor for each in tensors)


class _Once(Node):
    """Ends the tape at gradients that cannot be differentiated again."""

    __slots__ = ()

    def name(self) -> str:
        """PyTorch's name of this node."""
        return "torch::autograd::Error"

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """Fail; see `Node.pull`."""
        raise RuntimeError(
            "trying to differentiate twice a function whose backward is marked @once_differentiable"
        )


class InplaceFunction(Function):
    """PyTorch's base class of functions that may write in place.

    Args:
        inplace: Kept as an attribute.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a backward that uses other operations than recorded operators.

    The backward runs without recording, and its gradients cannot be differentiated again.
    """

    @functools.wraps(fn)
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        with no_grad():
            returned = fn(ctx, *grad_outputs)
        wanted = any(isinstance(each, Tensor) and each.requires_grad for each in grad_outputs)
        if not (modes.grad_enabled and wanted):
            return returned
        if isinstance(returned, tuple):
            return tuple([_ending(each) for each in returned])
        return _ending(returned)

    return backward


def _ending(gradient: Any) -> Any:
    if not isinstance(gradient, Tensor):
        return gradient
    ending = gradient.detach()
    ending._grad_fn, ending._output_nr, ending._requires_grad = _Once(()), 0, True
    return ending
