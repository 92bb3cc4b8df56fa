"""The module of a device type, in which device-generic code finds `synchronize` and the like."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from flambeau.accelerator import current_accelerator
from flambeau.core.devices.device import device as _device

__all__ = ["get_device_module"]


def get_device_module(device: Any = None) -> ModuleType:
    """The module `flambeau.cuda` or `flambeau.cpu`, for a device.

    Args:
        device: A device or its name; by default the accelerator of this machine, or the CPU.

    Raises:
        RuntimeError: There is no module for this device type, or ``device`` is not a device.

    >>> import flambeau
    >>> flambeau.get_device_module("cpu").device_count()
    1
    """
    if device is None:
        device = current_accelerator() or "cpu"
    elif not isinstance(device, str | _device):
        raise RuntimeError(
            f"get_device_module() takes a device or its name, got {type(device).__name__}"
        )
    kind = _device(device).type
    if kind not in ("cpu", "cuda"):
        raise RuntimeError(
            f"get_device_module(): there is no module for {kind} devices; flambeau.accelerator "
            "works with any accelerator"
        )
    return import_module(f"flambeau.{kind}")
