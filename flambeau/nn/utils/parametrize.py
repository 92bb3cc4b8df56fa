"""Tensors of a module that are computed from trained parameters.

A parametrization is a module whose `forward` computes the tensor. Its optional ``right_inverse``
returns, for a value of the tensor, the input of `forward` that produces the value: it is used for
the initial values and for assignment. See
https://docs.pytorch.org/docs/2.13/nn.html#utility-functions
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from flambeau.core.support.modes import modes, no_grad
from flambeau.core.values.tensor import Tensor
from flambeau.nn.module import Module
from flambeau.nn.modules.container import ModuleDict
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils.parametrization_list import ParametrizationList, register, set_to
from flambeau.nn.utils.parametrized_class import inject_class, inject_property, remove_property

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]


class _Cache:
    """The computed values of parametrized tensors while a `cached` block runs."""

    depth: ClassVar[int] = 0
    found: ClassVar[dict[tuple[object, int, str], Tensor]] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Inside this block each parametrized tensor is computed once, at its first use.

    It is for models that use a tensor many times, such as the weight of a recurrent cell. Blocks
    may be nested; the cache ends with the outermost.

    >>> import flambeau
    >>> from flambeau.nn.utils import parametrize
    >>> with parametrize.cached():
    ...     pass
    """
    _Cache.depth += 1
    try:
        yield
    finally:
        _Cache.depth -= 1
        # A trace leaves nothing to a block around its function either.
        ending = modes.trace
        kept = _Cache.found.items() if _Cache.depth else ()
        _Cache.found = {key: each for key, each in kept if ending is None or key[0] is not ending}


def _value(module: Module, tensor_name: str) -> Tensor:
    parametrization = _parametrizations(module)[tensor_name]
    if not _Cache.depth:
        return parametrization()
    # Values computed in a trace are invalid outside it, and vice versa.
    key = (modes.trace, id(module), tensor_name)
    if key not in _Cache.found:
        _Cache.found[key] = parametrization()
    return _Cache.found[key]


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make ``parametrization`` compute a parameter or buffer of a module.

    Afterwards ``module.<tensor_name>`` is the result of ``parametrization`` for the tensor, which
    is now ``module.parametrizations.<tensor_name>.original`` (or ``original0``, ``original1``… if
    ``right_inverse`` returns several tensors). Parametrizations of one tensor can be chained: each
    takes the result of the previous one. Assignment to ``module.<tensor_name>`` needs a
    ``right_inverse``.

    Args:
        module: The module; its class is replaced by a subclass ``Parametrized...``.
        tensor_name: The name of a parameter or buffer.
        parametrization: The module that computes it.
        unsafe: Whether it may change the tensor's shape or dtype, which disables the checks.

    Returns:
        ``module``.

    Raises:
        ValueError: There is no such tensor, or the parametrization changes its shape or dtype. The
            module is then unchanged.

    >>> import flambeau
    >>> from flambeau.nn.utils.parametrize import register_parametrization
    >>> from flambeau import nn
    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).transpose(-1, -2)
    ...
    ...     def right_inverse(self, a):
    ...         return a.triu()
    >>> layer = register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    >>> list(layer.state_dict())
    ['bias', 'parametrizations.weight.original']
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_next(module, tensor_name, parametrization)
        chain = _parametrizations(module)[tensor_name]
        chain.append(parametrization)
        chain.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        chain = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            inject_class(module)
            module.parametrizations = ModuleDict()
        inject_property(type(module), tensor_name, _value)
        _parametrizations(module)[tensor_name] = chain
    else:
        raise ValueError(
            f"{type(module).__name__} has no parameter, buffer or parametrized tensor named "
            f"'{tensor_name}'"
        )
    return module


def _parametrizations(module: Module) -> ModuleDict:
    return module.parametrizations


def _check_next(module: Module, name: str, parametrization: Module) -> None:
    """Check that an additional parametrization keeps the shape and dtype of its input."""
    before = getattr(module, name)
    after = parametrization(before)
    _check_same(name, "a parametrization", before, after)
    if hasattr(parametrization, "right_inverse"):
        try:
            inverse = parametrization.right_inverse(after)
        except NotImplementedError:
            return
        _check_same(name, "right_inverse of a further parametrization", before, inverse)


def _check_same(name: str, step: str, before: Tensor, after: object) -> None:
    if not isinstance(after, Tensor):
        raise ValueError(f"{step} of '{name}' must give a tensor, got {type(after).__name__}")
    for fact in ("dtype", "shape"):
        old, new = getattr(before, fact), getattr(after, fact)
        if old != new:
            raise ValueError(
                f"{step} may not change the {fact} of '{name}', here from {old} to {new}, unless "
                "it is registered with unsafe=True"
            )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of a module is parametrized, or any if no name is given."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a parametrized tensor an ordinary one again.

    Args:
        module: The module.
        tensor_name: The tensor's name.
        leave_parametrized: Whether the tensor keeps the computed value; otherwise it gets the value
            of the original, which must be a single tensor.

    Returns:
        ``module``, with its original class if no other tensor is parametrized.

    Raises:
        ValueError: The tensor is not parametrized, or has several originals to restore.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"{type(module).__name__} has no parametrization of '{tensor_name}'")
    chain = _parametrizations(module)[tensor_name]
    if chain.is_tensor:
        tensor = chain.original
        if leave_parametrized:
            with no_grad():
                set_to(tensor, getattr(module, tensor_name))
    elif leave_parametrized:
        tensor = getattr(module, tensor_name)
        tensor = Parameter(tensor) if tensor.requires_grad else tensor
    else:
        raise ValueError(
            f"'{tensor_name}' is computed from {chain.ntensors} tensors, none of which can take "
            "its place; use leave_parametrized=True"
        )
    remove_property(type(module), tensor_name)
    del _parametrizations(module)[tensor_name]
    register(module, tensor_name, tensor)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of a module without its parametrizations."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Make a module share the parametrizations of another, and their source tensors.

    Args:
        from_module: The module with the parametrizations.
        to_module: The module to change; tensors that it lacks are created.
        tensor_name: The tensor; by default all that are parametrized.

    Returns:
        ``to_module``.
    """
    if not is_parametrized(from_module):
        return to_module
    names: Sequence[str] = (
        list(_parametrizations(from_module)) if tensor_name is None else [tensor_name]
    )
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source = _parametrizations(from_module)[name]
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target = _parametrizations(to_module)[name]
        for original in source.originals:
            setattr(target, original, getattr(source, original))
    return to_module
