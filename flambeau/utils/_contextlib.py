"""Context managers that decorate functions, under the names of PyTorch's private module."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.core.support.modes import ContextDecorator as _DecoratorContextManager

__all__ = ["_DecoratorContextManager", "_NoParamDecoratorContextManager", "context_decorator"]


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """A context manager whose class decorates functions without parentheses."""

    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        return super().__new__(cls) if orig_func is None else cls()(orig_func)


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """``func`` with each call inside a context.

    Args:
        ctx: A context manager, or a function that returns one for each call.
        func: The function.
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        block: Any = ctx() if callable(ctx) else ctx
        with block:
            return func(*args, **kwargs)

    return wrapped
