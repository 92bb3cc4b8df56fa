"""Custom operators: `torch.library`.

A kernel written with this library's functions is traced into compiled programs and transformed by
`flambeau.func`. A kernel that uses NumPy needs ``register_fake``; programs run it as a host
callback.

>>> import numpy as np
>>> import flambeau
>>> from flambeau import Tensor
>>> from flambeau.library import custom_op
>>> @custom_op("documentation::sine", mutates_args=())
... def sine(x: Tensor) -> Tensor:
...     return flambeau.from_numpy(np.sin(x.numpy()))
>>> @sine.register_fake
... def _(x):
...     return flambeau.empty_like(x)
>>> sine.register_autograd(
...     lambda ctx, grad: grad * ctx.saved_tensors[0].cos(),
...     setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
... )
>>> x = flambeau.zeros(1, requires_grad=True)
>>> flambeau.compile(flambeau.ops.documentation.sine)(x).backward()
>>> x.grad
tensor([1.])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from flambeau._absent import Absent as _Absent
from flambeau.core.values.trees import map_tensors
from flambeau.library import registry
from flambeau.library.opcheck import opcheck
from flambeau.library.operator import Operator
from flambeau.library.schema import infer_schema, parse, schema_of

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "impl",
    "impl_abstract", "infer_schema", "opcheck", "register_autocast", "register_autograd",
    "register_fake", "register_kernel", "register_vmap",
]  # fmt: skip

CustomOpDef = Operator
__getattr__: _Absent = _Absent(__name__)


def custom_op(
    name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: Any,
    device_types: Any = None, schema: str | None = None, tags: Any = None,
) -> Any:  # fmt: skip
    """Define an operator by its kernel; also a decorator.

    Args:
        name: ``namespace::name``.
        fn: The kernel, with annotations; it must not return its arguments or views of them.
        mutates_args: The names of the arguments that it writes to, or ``"unknown"``.
        device_types: The device types of the kernel; all by default.
        schema: The schema, by default inferred from the annotations.
        tags: Accepted for compatibility.

    Raises:
        ValueError: The name has no namespace, or no schema can be inferred.
    """

    def define(fn: Callable[..., Any]) -> Operator:
        if schema is None:
            found = schema_of(fn, mutates_args, name)
        else:
            found = parse(f"{name}{schema[schema.index('(') :]}")
        result = registry.add(found)
        result.register_kernel(device_types, fn)
        result._init_fn = fn  # type: ignore[attr-defined]
        return result

    return define if fn is None else define(fn)


def define(qualname: Any, schema: Any = None, *, lib: Any = None, tags: Any = ()) -> Any:
    """Define an operator by its schema, such as ``"(Tensor x) -> Tensor"``, without a kernel.

    As ``define(library, "name(Tensor x) -> Tensor")`` it is a decorator of the kernel.

    Raises:
        ValueError: The name has no namespace, or ``schema`` is not a string.
    """
    if isinstance(qualname, Library):
        return qualname._registering(qualname.define(schema))
    if not isinstance(schema, str):
        raise ValueError(f"define(qualname, schema): schema must be a str, got {schema!r:.80}")
    name = qualname if lib is None else f"{lib.ns}::{qualname}"
    registry.add(parse(f"{name}{schema}"))
    return None


def impl(
    qualname: Any, types: Any = None, func: Any = None, dispatch_key: str = "", *, lib: Any = None,
    name: Any = None,
) -> Any:  # fmt: skip
    """Register the kernel of a defined operator, for ``"cpu"``, ``"cuda"`` or ``"default"``.

    As ``impl(library, name, dispatch_key="")`` it is `Library.impl` as a decorator.

    Raises:
        RuntimeError: There is no such operator.
    """
    if isinstance(qualname, Library):
        return qualname._registering(name or types, dispatch_key or func or "")
    name = qualname if lib is None else f"{lib.ns}::{qualname}"
    return registry.find(name).register_kernel(None if types == "default" else types, func)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Register the kernel of an operator for device types; see `CustomOpDef.register_kernel`."""
    return registry.find(op).register_kernel(device_types, func)


def register_fake(
    op: Any, func: Any = None, /, *, lib: Any = None, _stacklevel: int = 1,
    allow_override: bool = False,
) -> Any:  # fmt: skip
    """Register the function that computes empty results of the right shapes; also a decorator.

    The operator may be defined later.
    """

    def register(func: Callable[..., Any]) -> Callable[..., Any]:
        registry.when_defined(op, lambda operator: operator.register_fake(func))
        return func

    return register if func is None else register(func)


def impl_abstract(qualname: str, func: Any = None, *, lib: Any = None, _stacklevel: int = 1) -> Any:
    """An older name of `register_fake`."""
    return register_fake(qualname, func)


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Any = None
) -> None:
    """Register the gradient of an operator; see `CustomOpDef.register_autograd`."""
    registry.when_defined(
        op, lambda operator: operator.register_autograd(backward, setup_context=setup_context)
    )


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Register the batching rule of an operator; see `CustomOpDef.register_vmap`."""
    return registry.find(op).register_vmap(func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """Cast the floating-point inputs of an operator under autocast."""
    operator = registry.find(op)

    def cast(tensor: Any) -> Any:
        return tensor.to(cast_inputs) if tensor.is_floating_point() else tensor

    def kernel(*args: Any, **kwargs: Any) -> Any:
        named = {name: map_tensors(cast, each) for name, each in kwargs.items()}
        return operator(*map_tensors(cast, args), **named)

    operator.implement(f"Autocast{device_type.upper()}", kernel)


def get_ctx() -> NoReturn:
    """Create data-dependent sizes, which XLA programs cannot have.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError(
        "shapes are known when a program is compiled, so a fake implementation cannot make sizes "
        "that depend on numbers; return the largest size and a mask"
    )


def fallthrough_kernel() -> NoReturn:
    """A placeholder for a missing kernel.

    Raises:
        NotImplementedError: It is called.
    """
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Library:
    """Operators of a namespace, defined by schemas.

    Args:
        ns: The namespace.
        kind: ``"DEF"`` or ``"FRAGMENT"`` to define operators, ``"IMPL"`` for kernels only.
        dispatch_key: The default key of `impl`.

    Raises:
        ValueError: ``kind`` is unknown.

    >>> import flambeau
    >>> library = flambeau.library.Library("documentation", "FRAGMENT")
    >>> library.define("twice(Tensor x, *, int times=1) -> Tensor")
    'twice'
    >>> library.impl("twice", lambda x, *, times: x * 2**times, "CPU")
    >>> flambeau.ops.documentation.twice(flambeau.ones(1), times=2)
    tensor([4.])
    """

    ns: str
    dispatch_key: str

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError(f"Unsupported kind: {kind!r}; it is DEF, FRAGMENT or IMPL")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._defined: set[str] = set()

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Sequence[Any] = ()) -> str:
        """Define an operator, such as ``"add(Tensor x, Tensor y) -> Tensor"``.

        Returns:
            Its name.
        """
        found = parse(schema)
        name, found.name = found.name, f"{self.ns}::{found.name}"
        registry.add(found)
        self._defined.add(found.name)
        return name

    def impl(
        self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", *,
        with_keyset: bool = False, allow_override: bool = False,
    ) -> None:  # fmt: skip
        """Register the kernel of an operator, for a dispatch key such as ``"CPU"`` or ``"CUDA"``.

        Without a key the function is differentiated through the operators that it calls.

        Raises:
            TypeError: ``fn`` is not callable.
            NotImplementedError: The key is an autograd key.
        """
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found {type(fn)}")
        if fn is fallthrough_kernel:
            return
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        name = getattr(op_name, "_qualname", None) or str(op_name)
        name = name if "::" in name else f"{self.ns}::{name}"
        registry.when_defined(name, lambda operator: operator.implement(key, fn))

    def _registering(self, name: str, key: str = "") -> Callable[..., Any]:
        """`impl` as a decorator."""

        def register(fn: Callable[..., Any]) -> Callable[..., Any]:
            self.impl(name, fn, key)
            return fn

        return register

    def _destroy(self) -> None:
        for each in self._defined:
            registry.remove(each)
        self._defined.clear()
