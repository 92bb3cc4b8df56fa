"""Overriding functions by the ``__torch_function__`` protocol.

A type that defines the class method ``__torch_function__(func, types, args, kwargs)`` overrides
functions of this library that are called with one of its instances.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.core.operators.function_modes import TorchFunctionMode
from flambeau.core.operators.overrides import (
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)
from flambeau.core.values.tensor import Tensor

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "handle_torch_function", "has_torch_function",
    "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
    "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
]  # fmt: skip


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that does not change any function."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """``func(*args, **kwargs)``."""
        return func(*args, **(kwargs or {}))


def is_tensor_like(inp: Any) -> bool:
    """Whether ``inp`` is a Tensor, or overrides functions."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[..., Any]:
    """A decorator that makes a function overridable by its arguments.

    Args:
        dispatcher: Maps the function's arguments to those that may override it.

    >>> import flambeau
    >>> from flambeau.overrides import wrap_torch_function
    >>> @wrap_torch_function(lambda x: (x,))
    ... def double(x):
    ...     return x * 2
    >>> class Word:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return f"{func.__name__} of a word"
    >>> double(Word()), double(3)
    ('double of a word', 6)
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether ``func`` is a method of Tensor, or the getter of one of its properties."""
    return func in _names_of_methods()


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The name that a function of this library has, such as ``flambeau.nn.functional.relu``.

    >>> import flambeau
    >>> flambeau.overrides.resolve_name(flambeau.Tensor.add_)
    'flambeau.Tensor.add_'
    """
    import flambeau.nn.functional

    for space in (flambeau, flambeau.nn.functional, flambeau.linalg, flambeau.fft):
        name = getattr(f, "__name__", "")
        if vars(space).get(name) is f:
            return f"{space.__name__}.{name}"
    name = _names_of_methods().get(f)
    return None if name is None else f"flambeau.Tensor.{name}"


def _names_of_methods() -> dict[Any, str]:
    found: dict[Any, str] = {}
    for name in dir(Tensor):
        member = getattr(Tensor, name)
        getter = member.fget if isinstance(member, property) else member
        if callable(getter) and not isinstance(getter, type):
            found.setdefault(getter, name)
    return found
