"""Matching the arguments of calls with parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["ArgsKwargsPair", "normalize_function", "normalize_module"]


class ArgsKwargsPair(NamedTuple):
    """The arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """All arguments of a call, including defaults.

    Args:
        target: The function.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        arg_types: Without effect: functions have no overloads here.
        kwarg_types: Without effect.
        normalize_to_only_use_kwargs: Pass all of them as keyword arguments.

    Returns:
        ``None`` if the arguments do not match the function's signature, or the signature is
        variadic.

    >>> import flambeau
    >>> from flambeau.fx.operator_schemas import normalize_function
    >>> normalize_function(flambeau.flatten, ("x", 1)).kwargs
    {'end_dim': -1}
    """
    kinds = inspect.Parameter
    try:
        signature = inspect.signature(target)
        bound = signature.bind(*args, **(kwargs or {}))
    except (TypeError, ValueError):
        return None
    starred = (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD, kinds.POSITIONAL_ONLY)
    if any(each.kind in starred for each in signature.parameters.values()):
        return None
    bound.apply_defaults()
    positional = 0 if normalize_to_only_use_kwargs else len(args)
    values = list(bound.arguments.items())
    return ArgsKwargsPair(
        tuple(value for _, value in values[:positional]), dict(values[positional:])
    )


def normalize_module(
    root: Any,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """`normalize_function` of the ``forward`` of the submodule at the path ``target``."""
    return normalize_function(
        root.get_submodule(target).forward,
        args,
        kwargs,
        normalize_to_only_use_kwargs=normalize_to_only_use_kwargs,
    )
