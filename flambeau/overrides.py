"""Functions that other types override, by the ``__torch_function__`` protocol.

A type that defines the class method ``__torch_function__(func, types, args, kwargs)`` decides what
functions of this library do when one of its instances is among their arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.core.function_modes import TorchFunctionMode
from flambeau.core.overrides import handle_torch_function, has_torch_function
from flambeau.core.tensor import Tensor

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "handle_torch_function", "has_torch_function",
    "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
    "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
]  # fmt: skip


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that lets every function do what it would do without it."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """``func(*args, **kwargs)``."""
        return func(*args, **(kwargs or {}))


def has_torch_function_unary(obj: Any) -> bool:
    """Whether ``obj`` overrides functions."""
    return has_torch_function((obj,))


def has_torch_function_variadic(*objs: Any) -> bool:
    """Whether any of ``objs`` overrides functions."""
    return has_torch_function(objs)


def is_tensor_like(inp: Any) -> bool:
    """Whether ``inp`` is a Tensor, or overrides functions and so may stand for one."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[..., Any]:
    """A decorator that lets arguments override your function.

    Args:
        dispatcher: Takes the function's arguments; gives those that may override it.

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
    """Whether ``func`` is one of Tensor's methods, or the getter of one of its properties."""
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
