"""The accelerator of this machine, whatever it is, under the names of `torch.accelerator`."""

from __future__ import annotations

from typing import Any

from flambeau._absent import Absent as _Absent
from flambeau.core.device import available_devices, device
from flambeau.cuda.devices import wait_for

__all__ = ["current_accelerator", "current_device_index", "device_count", "empty_cache",
           "is_available", "synchronize"]  # fmt: skip

__getattr__ = _Absent(__name__)


def current_accelerator(check_available: bool = False) -> device | None:
    """The type of accelerator that this machine has, as a device without an index, or ``None``.

    >>> import flambeau
    >>> flambeau.accelerator.current_accelerator() or flambeau.device("cpu")
    device(type='cpu')
    """
    for name in available_devices():
        if not name.startswith("cpu"):
            return device(name.partition(":")[0])
    return None


def is_available() -> bool:
    """Whether this machine has an accelerator."""
    return current_accelerator() is not None


def device_count() -> int:
    """How many accelerators of that type there are."""
    return sum(not name.startswith("cpu") for name in available_devices())


def current_device_index() -> int:
    """0, the one that a device without an index means.

    Raises:
        RuntimeError: There is none.
    """
    _place(None)
    return 0


def synchronize(device: Any = None, /) -> None:
    """Wait until an accelerator has done all that it was given.

    Raises:
        RuntimeError: There is none.
    """
    wait_for(_place(device).jax_device)


def empty_cache() -> None:
    """Nothing: memory that JAX has reserved stays its own until the program ends."""


def _place(where: Any) -> device:
    current = current_accelerator()
    if current is None:
        raise RuntimeError("this machine has no accelerator, only CPUs")
    if where is None:
        return current
    return device(current.type, where) if isinstance(where, int) else device(where)
