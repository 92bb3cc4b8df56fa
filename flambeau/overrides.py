"""Functions that other types override, by the ``__torch_function__`` protocol.

A type that defines the class method ``__torch_function__(func, types, args, kwargs)`` decides what
functions of this library do when one of its instances is among their arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.core.overrides import handle_torch_function, has_torch_function
from flambeau.core.tensor import Tensor

__all__ = [
    "handle_torch_function", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "is_tensor_like", "wrap_torch_function",
]  # fmt: skip


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
    """A decorator that lets arguments override a function of one's own.

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
