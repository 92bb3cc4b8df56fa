"""Custom operators: kernels by device, fake implementations, gradients and batching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.autograd.function import Function
from flambeau.core.support import world
from flambeau.core.support.modes import autocast_by, modes, no_grad
from flambeau.core.values.tensor import Tensor
from flambeau.library.host_kernels import as_outputs, is_traced, run_traced, tensors_of
from flambeau.library.schema import Schema

_DEVICES = {"cpu": "CPU", "cuda": "CUDA", "default": "CompositeExplicitAutograd"}
# The key of kernels that are differentiated through the operators that they call.
_COMPOSITE = "CompositeImplicitAutograd"


class Operator:
    """An operator ``namespace::name``, which is callable.

    Args:
        schema: The arguments and results.
    """

    namespace: str
    __name__: str

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._kernels: dict[str, Callable[..., Any]] = {}
        self._fake: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        self._setup_context: Callable[..., Any] | None = None
        self._vmap: Callable[..., Any] | None = None
        self._disabled: set[str] = set()
        self._function: type[Function] | None = None
        self.namespace, _, self.__name__ = schema.name.partition("::")
        self.__doc__ = f"The operator ``{schema}``."

    def __repr__(self) -> str:
        return f"<Operator {self._schema}>"

    @property
    def _qualname(self) -> str:
        return self._schema.name

    def name(self) -> str:
        """The qualified name."""
        return self._schema.name

    @property
    def default(self) -> Operator:
        """The operator itself, which is its only overload."""
        return self

    @property
    def _opoverload(self) -> Operator:
        return self

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        return ["default"]

    # Registration

    def register_kernel(
        self, device_types: Any, func: Callable[..., Any] | None = None, /
    ) -> Callable[..., Any]:
        """Register the kernel for device types; also a decorator.

        Args:
            device_types: ``"cpu"``, ``"cuda"``, a sequence of them, or None for all devices.
            func: The function.
        """
        types = ["default"] if device_types is None else device_types
        types = [types] if isinstance(types, str) else list(types)

        def register(func: Callable[..., Any]) -> Callable[..., Any]:
            for each in types:
                self.implement(_DEVICES.get(each, each), func)
            return func

        return register if func is None else register(func)

    def implement(self, key: str, function: Callable[..., Any]) -> None:
        """Register the kernel for a dispatch key.

        Raises:
            NotImplementedError: The key is an autograd key; see `register_autograd`.
        """
        if key.startswith("Autograd"):
            raise NotImplementedError(
                f"{self._qualname}: gradients are registered by register_autograd, not by a kernel "
                f"for {key}"
            )
        if key == "Meta":
            self._fake = function
        else:
            self._kernels[key] = function
        self._changed()

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Register the function that computes empty results; also a decorator."""
        self._fake = fn
        self._changed()
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Register the gradient.

        Args:
            backward: Called as ``backward(ctx, *grads)``; returns a gradient, or None, for each
                argument.
            setup_context: Called as ``setup_context(ctx, inputs, output)`` after the kernel, to
                save tensors for the backward pass. With keyword-only arguments, it takes
                ``keyword_only_inputs`` too.

        Raises:
            RuntimeError: The operator mutates its arguments.
        """
        if self._schema.is_mutable:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self._schema}; an "
                "operator that writes to its arguments has none"
            )
        self._backward, self._setup_context = backward, setup_context
        self._changed()

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """Register the batching rule for `flambeau.func.vmap`; also a decorator.

        Args:
            func: Called as ``func(info, in_dims, *args)``; returns the result and its batch
                dimensions.
        """

        def register(func: Callable[..., Any]) -> Callable[..., Any]:
            self._vmap = func
            self._changed()
            return func

        return register if func is None else register(func)

    def _changed(self) -> None:
        self._function = None
        world.bump()

    # Calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the operator.

        Raises:
            RuntimeError: The arguments do not fit the schema.
            NotImplementedError: There is no kernel for the device.
        """
        values = self._schema.bind(args, kwargs)
        tensors = tensors_of(values)
        if modes.autocast is not None and tensors:
            kernel = self._kernels.get("Autocast" + _DEVICES.get(tensors[0].device.type, ""))
            kernel = kernel or self._kernels.get("Autocast")
            if kernel is not None:
                with autocast_by(None):
                    return self._call(kernel, values)
        if _COMPOSITE in self._kernels:
            return self._call(self._kernels[_COMPOSITE], values)
        recorded = modes.grad_enabled and any(each.requires_grad for each in tensors)
        if self._schema.is_mutable or not (recorded or self._backward or self._vmap):
            return self._run(values)
        if self._function is None:
            self._function = _function_of(self)
        flat = [
            part
            for each in values
            for part in (each if _is_list_of_tensors(each) else (each,))
        ]  # fmt: skip
        lengths = tuple(len(e) if _is_list_of_tensors(e) else None for e in values)
        result = self._function.apply(*flat, lengths)
        return list(result) if self._returns_list and isinstance(result, tuple) else result

    @property
    def _returns_list(self) -> bool:
        return len(self._schema.returns) == 1 and self._schema.returns[0].endswith("[]")

    def _call(self, function: Callable[..., Any], values: list[Any]) -> Any:
        """Call a function with the arguments as declared in the schema."""
        named = zip(self._schema.arguments, values, strict=True)
        by_name = {each.name: value for each, value in named if each.kwarg_only}
        return function(*values[: len(values) - len(by_name)], **by_name)

    def _run(self, values: list[Any]) -> Any:
        """The kernel's result, without gradients."""
        with no_grad():
            tensors = tensors_of(values)
            if self._fake is not None and any(each.is_meta for each in tensors):
                return self._call(self._fake, values)
            kernel = self._kernel_for(tensors)
            if is_traced(values):
                fake = None if self._schema.is_mutable else self._fake
                return run_traced(self._qualname, kernel, fake, values, self._call)
            result = self._call(kernel, values)
            self._check_aliases(result, tensors)
            return result

    def _kernel_for(self, tensors: list[Tensor]) -> Callable[..., Any]:
        where = tensors[0].device.type if tensors else "cpu"
        for key in (_DEVICES.get(where, where.upper()), "CompositeExplicitAutograd"):
            if key in self._kernels:
                return self._kernels[key]
        raise NotImplementedError(
            f"Could not run '{self._qualname}' with arguments from the '{where}' device: there are "
            f"kernels for {', '.join(self._kernels) or 'no device'}"
        )

    def _check_aliases(self, result: Any, tensors: list[Tensor]) -> None:
        if self._schema.is_mutable:
            return
        cells = {id(each._cell) for each in tensors}
        for each in as_outputs(result)[1] if not isinstance(result, int | float) else ():
            if isinstance(each, Tensor) and id(each._cell) in cells:
                raise RuntimeError(
                    f"{self._qualname}: the output of this custom operator (1) must not also be an "
                    "input to this custom operator and (2) may not alias any inputs; return a "
                    "clone()"
                )


def _is_list_of_tensors(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(each, Tensor) for each in value)


def _gathered(flat: tuple[Any, ...], lengths: tuple[Any, ...]) -> list[Any]:
    """The schema's arguments, with the members of lists restored in place."""
    left = list(flat)
    values: list[Any] = []
    for length in lengths:
        if length is None:
            values.append(left.pop(0))
        else:
            values.append(left[:length])
            del left[:length]
    return values


def _function_of(operator: Operator) -> type[Function]:
    """The custom Function whose forward is the operator's kernel."""

    def forward(*inputs: Any) -> Any:
        *flat, lengths = inputs
        result = operator._run(_gathered(tuple(flat), lengths))
        return tuple(result) if isinstance(result, list) else result

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        *flat, lengths = inputs
        ctx.lengths = lengths
        if operator._setup_context is None:
            return
        values = _gathered(tuple(flat), lengths)
        arguments = operator._schema.arguments
        by_name = {
            each.name: value
            for each, value in zip(arguments, values, strict=True)
            if each.kwarg_only
        }
        more = {"keyword_only_inputs": by_name} if by_name else {}
        given = list(output) if operator._returns_list else output
        operator._setup_context(
            ctx=ctx, inputs=tuple(values[: len(values) - len(by_name)]), output=given, **more
        )

    def backward(ctx: Any, *grads: Any) -> Any:
        if operator._backward is None:
            raise RuntimeError(
                f"Trying to backward through {operator._qualname} but no autograd formula was "
                "registered. Please use register_autograd to add one."
            )
        given = (list(grads),) if operator._returns_list else grads
        found = operator._backward(ctx, *given)
        found = found if isinstance(found, tuple) else (found,)
        # Keyword arguments have no gradient.
        found = (*found, *[None] * (len(ctx.lengths) - len(found)))
        flat: list[Any] = []
        for each, length in zip(found, ctx.lengths, strict=True):
            if length is None:
                flat.append(each)
            else:
                flat.extend(each if each is not None else [None] * length)
        return (*flat, None)

    members: dict[str, Any] = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
    }
    if operator._vmap is not None:
        vmap = operator._vmap

        def batched(info: Any, in_dims: Any, *inputs: Any) -> Any:
            return vmap(info, in_dims[:-1], *inputs[:-1])

        members["vmap"] = staticmethod(batched)
    return type(f"{operator.namespace}_{operator.__name__}", (Function,), members)
