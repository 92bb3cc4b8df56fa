"""The ``__torch_function__`` protocol: subclasses that override functions on them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

from flambeau.core.support.modes import ContextDecorator, modes
from flambeau.core.values.history import History
from flambeau.core.values.host import HostAccess
from flambeau.core.values.tensor import PLAIN_TYPES, Tensor, _disabled_torch_function_impl
from flambeau.core.values.trees import map_tensors

# Looked up for nearly every argument of every function, so these have names of their own.
_BUILTINS = {int, float, bool, complex, str, type(None), list, tuple, dict}
_SEQUENCES = (list, tuple)


class DisableTorchFunctionSubclass(ContextDecorator):
    """Functions inside treat tensor subclasses as plain tensors."""

    def __enter__(self) -> None:
        modes.overrides_disabled += 1

    def __exit__(self, *exception: object) -> None:
        modes.overrides_disabled -= 1


class OverrideNeeded(Exception):
    """Raised at an argument that overrides functions; public functions catch it."""


def overrides(cls: type) -> bool:
    """Whether instances of ``cls`` override functions."""
    if cls in PLAIN_TYPES or modes.overrides_disabled:
        return False
    function = getattr(cls, "__torch_function__", None)
    return function is not None and function is not _disabled_torch_function_impl


def overriding(arguments: Iterable[Any]) -> list[Any]:
    """The arguments that override functions, one per type, subclasses before their bases."""
    found: list[Any] = []
    for argument in arguments:
        cls = type(argument)
        if not overrides(cls) or any(type(each) is cls for each in found):
            continue
        position = next((i for i, each in enumerate(found) if issubclass(cls, type(each))), None)
        found.insert(len(found) if position is None else position, argument)
    return found


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether any of ``relevant_args`` overrides functions."""
    for each in relevant_args:
        cls = type(each)
        if cls not in PLAIN_TYPES and cls not in _BUILTINS and overrides(cls):
            return True
    return False


def has_torch_function_unary(obj: Any) -> bool:
    """Whether ``obj`` overrides functions."""
    return has_torch_function((obj,))


def has_torch_function_variadic(*objs: Any) -> bool:
    """Whether any of ``objs`` overrides functions."""
    return has_torch_function(objs)


_NEVER_OVERRIDING: set[type] = {int, float, bool, complex, str, type(None)}


def any_overrides(arguments: Iterable[Any]) -> bool:
    """Whether any argument, or member of a list or tuple among them, overrides functions."""
    for each in arguments:
        cls = type(each)
        if cls in PLAIN_TYPES or cls in _NEVER_OVERRIDING:
            continue
        if overrides(cls) or (isinstance(each, list | tuple) and any_overrides(each)):
            return True
    return False


# Types of arguments that `stands_in` need not inspect again.
_FAMILIAR: set[type] = {Tensor, int, float, bool, complex, str, type(None)}


def stands_in(value: Any) -> bool:
    """Whether ``value`` is not a tensor but overrides functions, or has a member that does."""
    cls = type(value)
    if cls in _FAMILIAR:
        return False
    if isinstance(value, list | tuple) and not overrides(cls):
        return any(map(stands_in, value))
    if isinstance(value, Tensor) or not hasattr(cls, "__torch_function__"):
        _FAMILIAR.add(cls)
        return False
    return overrides(cls)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Dispatch ``public_api(*args, **kwargs)`` to the arguments that override functions.

    Raises:
        TypeError: Every override returned ``NotImplemented``.
    """
    found = overriding(relevant_args)
    types = tuple(type(each) for each in found)
    if modes.functions:
        result = _ask_mode(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for argument in found:
        result = type(argument).__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    names = ", ".join(cls.__name__ for cls in types)
    if modes.functions:
        names = f"{names}; mode {type(modes.functions[-1]).__name__}"
    raise TypeError(
        f"no implementation of {public_api.__name__} for types ({names}): "
        "every __torch_function__ returned NotImplemented"
    )


def _ask_mode(public_api: Any, types: tuple[type, ...], args: Any, kwargs: Any) -> Any:
    """The result of the innermost mode, called with the enclosing modes active."""
    before = modes.functions
    modes.functions = before[:-1]
    try:
        return before[-1].__torch_function__(public_api, types, args, kwargs)
    finally:
        modes.functions = before


#: Functions that modes and stand-ins for tensors can override, other than operators and results of
#: `op.function`.
asking_functions: list[FunctionType] = []


def asks(function: Any) -> Any:
    """A decorator: the calls of a function that is not an operator can be overridden as a whole.

    Modes override it, and so do arguments that stand in for tensors. Subclasses of Tensor override
    the operators inside it. See `function_modes` for how it costs nothing.
    """
    asking_functions.append(function)
    return function


def flattened(args: Sequence[Any]) -> Sequence[Any]:
    """Arguments with lists and tuples replaced by their members.

    A named tuple that overrides functions stays whole.
    """
    for each in args:
        if isinstance(each, _SEQUENCES):
            return [member for each in args for member in _members(each)]
    return args


def _members(argument: Any) -> Sequence[Any]:
    is_sequence = isinstance(argument, _SEQUENCES) and not overrides(type(argument))
    return flattened(argument) if is_sequence else (argument,)


def as_results_of(cls: type[Tensor], result: Any) -> Any:
    """``result`` with every plain tensor in it turned into a ``cls``."""
    return map_tensors(
        lambda each: each if isinstance(each, cls) else each.as_subclass(cls), result
    )


def _torch_function(
    cls: type[Tensor], func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """Run ``func`` and give its results the subclass ``cls``."""
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    return as_results_of(cls, result)


def _methods_of(*owners: type) -> dict[str, Callable[..., Any]]:
    """The methods that do not check for overrides themselves: all except the operators."""
    return {
        name: value
        for owner in owners
        for name, value in vars(owner).items()
        if isinstance(value, FunctionType) and (name[0] != "_" or name in _CONVERSIONS)
    }


_CONVERSIONS = {
    "__array__", "__bool__", "__complex__", "__float__", "__index__", "__int__", "__len__",
}  # fmt: skip
# Functions that are declared later check themselves, or consist of others that do.
_METHODS = _methods_of(Tensor, History, HostAccess)
# The conversion of a plain tensor to a subclass, also of the result of an override.
del _METHODS["as_subclass"]


def _ask_about_methods(cls: type[Tensor]) -> None:
    """Make ``__torch_function__`` of ``cls`` see the methods that are no operators."""
    if cls.__torch_function__ is _disabled_torch_function_impl:
        return
    for name, method in _METHODS.items():
        if getattr(cls, name) is method:
            setattr(cls, name, _asking(method))


def _asking(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def face(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if overrides(type(self)):
            return handle_torch_function(method, (self, *args), self, *args, **kwargs)
        return method(self, *args, **kwargs)

    return face


Tensor.__torch_function__ = classmethod(_torch_function)
Tensor._ask_about_methods = classmethod(_ask_about_methods)
