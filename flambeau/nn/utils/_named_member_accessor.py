"""Exchange of one tensor of a module, by PyTorch's private name."""

from __future__ import annotations

from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.nn.module import Module

__all__ = ["swap_tensor"]

_MISSING = object()


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Put another tensor into the place of a parameter, buffer or attribute.

    Nothing is registered or checked: a parameter may be replaced by any tensor.

    Args:
        module: The module that has the tensor itself, not in a submodule.
        name: The tensor's name.
        tensor: The new tensor, or ``None``.
        allow_missing: A new name becomes an attribute.

    Returns:
        The former tensor; an object of its own kind if there was none.

    Raises:
        TypeError: ``module`` is not a module, or the former or the new value not a tensor.
        KeyError: The name is empty or has a dot.
        AttributeError: There is no such tensor.
    """
    if not isinstance(module, Module):
        raise TypeError(f"swap_tensor() takes a Module, got {type(module).__name__}")
    _check_tensor(name, tensor)
    if not name or "." in name:
        raise KeyError(f"the name of a tensor is neither empty nor has a '.', got {name!r}")
    for members in (module._parameters, module._buffers):
        if name in members:
            former = members[name]
            members[name] = tensor
            return former
    former = getattr(module, name, _MISSING)
    if former is _MISSING and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no attribute {name!r}")
    _check_tensor(name, former)
    setattr(module, name, tensor)
    return former


def _check_tensor(name: str, value: object) -> None:
    if value is not None and value is not _MISSING and not isinstance(value, Tensor):
        raise TypeError(f"{name!r} must be a Tensor or None, got {type(value).__name__}")
