"""Calling the hooks on the tape: those of tensors, and those before and after a node.

Hooks take and return Tensors. The engine passes arrays unless the gradients are recorded, so values
are wrapped before a hook and unwrapped after it.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.support.handle import HookDict
from flambeau.core.support.modes import modes
from flambeau.core.tape import accumulated
from flambeau.core.tape.node import Node
from flambeau.core.values.tensor import Tensor


def _wrap(cotangent: Any, as_tensors: bool) -> Any:
    if cotangent is None or as_tensors:
        return cotangent
    return Tensor._wrap(cotangent)


def _unwrap(cotangent: Any, as_tensors: bool) -> Any:
    if cotangent is None or as_tensors:
        return cotangent
    return cotangent._read()


def of_leaf(accumulator: Any) -> dict[int, HookDict] | None:
    """The hooks on the leaf of an accumulator, by output."""
    hooks = accumulator.variable._hooks
    return {0: hooks} if hooks else None


def on_outputs(
    node: Node, hooks: dict[int, HookDict] | None, buffer: list[Any], as_tensors: bool
) -> list[Any]:
    """Call the hooks on the tensors that ``node`` made, then store the retained gradients.

    Args:
        node: The node that is about to run.
        hooks: The hooks by output.
        buffer: One cotangent per output, ``None`` where none arrived.
        as_tensors: Whether cotangents are Tensors.

    Returns:
        The cotangents, as the hooks have replaced them.

    Raises:
        TypeError: A hook returned a value other than a Tensor.
        RuntimeError: A hook returned a Tensor of another shape, dtype or device.
    """
    buffer = list(buffer)
    for number, registered in (hooks or {}).items():
        value = _wrap(buffer[number], as_tensors)
        for hook in tuple(registered.values()):
            result = hook(value)
            if result is not None:
                _check(hook, value, result)
                value = result
        buffer[number] = _unwrap(value, as_tensors)
    for number, kept in tuple((node.retained or {}).items()):
        tensor = kept.tensor()
        if tensor is None or kept.at is not None or buffer[number] is None:
            continue
        # A write to a view's base has changed the view's value, and with it the gradient to retain.
        tensor._follow_base()
        if (node.retained or {}).get(number) is kept:
            new = _wrap(buffer[number], as_tensors)
            for change in kept.changes:
                new = change(new)
            _retain(tensor, new, as_tensors)
    return buffer


def _retain(tensor: Tensor, new: Tensor, as_tensors: bool) -> None:
    old = tensor.grad
    if old is not None:
        new = old + new
    elif as_tensors:
        # Other code may hold a recorded cotangent.
        new = new.clone()
    if modes.trace is None:
        accumulated.replacing(tensor, old, new)
    tensor.grad = new


def before(node: Node, buffer: list[Any], as_tensors: bool) -> list[Any]:
    """Call the hooks before ``node``; return its cotangents with their replacements.

    Raises:
        TypeError: A hook returned a value other than a tuple of Tensors and ``None``.
        RuntimeError: The tuple has another length, or a Tensor another shape, dtype or device.
    """
    values = tuple([_wrap(each, as_tensors) for each in buffer])
    for hook in tuple((node.pre_hooks or {}).values()):
        values = _replaced(hook, values, hook(values))
    return [_unwrap(each, as_tensors) for each in values]


def after(node: Node, pulled: Any, buffer: list[Any], as_tensors: bool) -> list[Any]:
    """Call the hooks after ``node``; return its inputs' cotangents with their replacements.

    Raises:
        TypeError: A hook returned a value other than a tuple of Tensors and ``None``.
        RuntimeError: The tuple has another length, or a Tensor another shape, dtype or device.
    """
    outputs = tuple([_wrap(each, as_tensors) for each in buffer])
    inputs = tuple([_wrap(each, as_tensors) for each in pulled])
    for hook in tuple((node.post_hooks or {}).values()):
        inputs = _replaced(hook, inputs, hook(inputs, outputs))
    return [_unwrap(each, as_tensors) for each in inputs]


def _name(hook: Any) -> str:
    return getattr(hook, "__name__", type(hook).__name__)


def _replaced(hook: Any, values: tuple[Any, ...], result: Any) -> tuple[Any, ...]:
    if result is None:
        return values
    if not isinstance(result, tuple):
        raise TypeError(
            f"hook {_name(hook)} must return None or a tuple of {len(values)} gradients, "
            f"got {type(result).__name__}"
        )
    if len(result) != len(values):
        raise RuntimeError(
            f"hook {_name(hook)} returned {len(result)} gradients, but there are {len(values)}"
        )
    for old, new in zip(values, result, strict=True):
        if new is not None:
            _check(hook, old, new)
    return result


def _check(hook: Any, old: Any, new: Any) -> None:
    if not isinstance(new, Tensor):
        raise TypeError(
            f"hook {_name(hook)} must return a Tensor or None for a gradient, "
            f"got {type(new).__name__}"
        )
    if old is None:
        raise RuntimeError(f"hook {_name(hook)} returned a gradient, but there is none to replace")
    for fact in ("shape", "dtype", "device"):
        had, has = getattr(old, fact), getattr(new, fact)
        if had != has:
            raise RuntimeError(
                f"hook {_name(hook)} changed the {fact} of a gradient from {had} to {has}; "
                f"a replacement must keep it"
            )
