"""Modes of the thread and defaults of the process that a compiled function may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.compile import errors
from flambeau.core.devices import device
from flambeau.core.support import dtype
from flambeau.core.support.modes import kept_modes, modes


def now() -> dict[str, Any]:
    """The settings, by the names of the functions that change them."""
    return {
        "set_grad_enabled()": modes.grad_enabled,
        "inference_mode()": modes.inference,
        "autocast()": modes.autocast,
        "a dual level": modes.level,
        "set_default_dtype()": dtype._default,
        "set_default_device()": modes.device or device._global_default,
    }


def keep() -> Callable[[], None]:
    """A function that restores the present settings."""
    kept = kept_modes()
    kept.__enter__()
    default_dtype, default_device = dtype._default, device._global_default

    def put_back() -> None:
        kept.__exit__()
        dtype.set_default_dtype(default_dtype)
        device.set_default_device(default_device)

    return put_back


def refuse_changes(before: dict[str, Any]) -> None:
    """Fail if the traced function has changed a setting.

    Args:
        before: The result of `now` before the function ran.

    Raises:
        SideEffectError: It has.
    """
    changed = [name for name, value in now().items() if value is not before[name]]
    if changed:
        raise errors.SideEffectError(
            f"the compiled function leaves {' and '.join(changed)} in another state than it found, "
            "which a program would not repeat; change it outside of the compiled function, or in a "
            "`with` block inside"
        )
