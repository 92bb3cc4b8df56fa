"""The argument of a failed call whose type the function does not accept.

PyTorch checks the types of all arguments first. Here they are checked only after a failure, so that
successful calls cost nothing; a wrong type is then reported in place of the error that it led to.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from jax import Array

from flambeau.core.kernels.kinds import check_of_face
from flambeau.core.values.tensor import Tensor


def misfit(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> TypeError | None:
    """The error that names the first argument whose type differs from its annotation.

    Args:
        function: The function that was called; parameters with unknown annotations pass.
        args: Its positional arguments.
        kwargs: Its keyword arguments.

    Returns:
        ``None`` if all arguments have the right types.
    """
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    given = [*zip(names, args, strict=False), *kwargs.items()]
    if function.__code__.co_flags & inspect.CO_VARARGS:
        rest = function.__code__.co_varnames[len(names) + function.__code__.co_kwonlyargcount]
        given += [(rest, each) for each in args[len(names) :]]
    for name, value in given:
        try:
            _check(function, name, value)
        except TypeError as error:
            return error
    return None


def require_tensors(called: str, **given: Any) -> None:
    """Raise a TypeError that names the first argument which is not a tensor, if there is one."""
    for name, value in given.items():
        if not _is_tensor(value):
            kind = type(value).__name__
            raise TypeError(f"{called}(): {name} must be a Tensor, got {kind}: {value!r:.80}")


def _check(function: Any, name: str, value: Any) -> None:
    annotation = str(function.__annotations__.get(name))
    called = function.__name__.lstrip("_")
    if annotation in ("Tensor", "Tensor | None"):
        is_left_out = annotation != "Tensor" and value is None
        if not is_left_out:
            require_tensors(called, **{name: value})
    elif (check := check_of_face(function, name)) is not None and not isinstance(value, Tensor):
        check(called, name, value)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor | Array) or hasattr(type(value), "__torch_function__")
