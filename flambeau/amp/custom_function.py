"""Decorators for the two methods of an `autograd.Function` that is used inside `autocast`."""

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
from flambeau.core.support.dtype import dtype
from flambeau.core.support.modes import autocast_by, modes
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trees import map_tensors

__all__ = ["custom_bwd", "custom_fwd"]


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: dtype | None = None
) -> Any:
    """Decorate the ``forward`` of a Function.

    Args:
        fwd: The static method ``forward(ctx, *args)``.
        device_type: See `autocast`.
        cast_inputs: Inside `autocast`, convert floating point tensors among the arguments to this
            dtype, and run without autocast; by default arguments are not converted, and autocast
            stays active.

    Raises:
        ValueError: ``device_type`` is not a str.
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
    """Decorate the ``backward`` of a Function, to run in the autocast mode of its forward.

    Args:
        bwd: The static method ``backward(ctx, *gradients)``; its forward has `custom_fwd`.
        device_type: See `autocast`.

    Raises:
        ValueError: ``device_type`` is not a str.
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
    def cast(tensor: Tensor) -> Tensor:
        is_cast = tensor.device.type == device_type and is_castable(tensor)
        return tensor.to(to) if is_cast else tensor

    return map_tensors(cast, value, dict | list | tuple)
