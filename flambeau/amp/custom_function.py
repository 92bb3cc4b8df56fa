"""Decorators for the two halves of an `autograd.Function` that is used inside `autocast`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.amp.autocast_mode import (
    autocast,
    check_device_type,
    is_autocast_enabled,
    is_castable,
)
from flambeau.core.dtype import dtype
from flambeau.core.modes import autocast_by, modes
from flambeau.core.tensor import Tensor

__all__ = ["custom_bwd", "custom_fwd"]


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: dtype | None = None
) -> Any:
    """Decorate the ``forward`` of a Function.

    Args:
        fwd: The static method ``forward(ctx, *args)``.
        device_type: As of `autocast`.
        cast_inputs: Inside `autocast`, convert floating point tensors among the arguments to this
            dtype, and run without autocast; by default arguments stay, and autocast goes on.

    Raises:
        ValueError: ``device_type`` is no str.
    """
    check_device_type("custom_fwd", device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        inside = is_autocast_enabled(device_type)
        ctx._autocast = modes.autocast
        if cast_inputs is None or not inside:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            ctx._autocast = modes.autocast
            args = _cast(args, device_type, cast_inputs)
            return fwd(ctx, *args, **_cast(kwargs, device_type, cast_inputs))

    return decorated


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorate the ``backward`` of a Function, to run in the mode that its forward ran in.

    Args:
        bwd: The static method ``backward(ctx, *gradients)``; its forward has `custom_fwd`.
        device_type: As of `autocast`.

    Raises:
        ValueError: ``device_type`` is no str.
    """
    check_device_type("custom_bwd", device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(ctx: Any, *gradients: Any) -> Any:
        with autocast_by(ctx._autocast):
            return bwd(ctx, *gradients)

    return decorated


def _cast(value: Any, device_type: str, to: dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(to) if value.device.type == device_type and is_castable(value) else value
    if isinstance(value, dict):
        return {key: _cast(each, device_type, to) for key, each in value.items()}
    if isinstance(value, list | tuple):
        found = [_cast(each, device_type, to) for each in value]
        return type(value)(*found) if hasattr(value, "_fields") else type(value)(found)
    return value
