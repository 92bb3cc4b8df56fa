"""The accelerator of this machine, under the names of `torch.accelerator`."""

from __future__ import annotations

from typing import Any

from flambeau._absent import Absent as _Absent
from flambeau.core.devices.device import available_devices, device
from flambeau.cuda.devices import wait_for
from flambeau.cuda.memory import stated, stats_of
from flambeau.streams import Stream

__all__ = [
    "current_accelerator", "current_device_index", "current_stream", "device_count",
    "device_index", "empty_cache", "get_memory_info", "is_available", "max_memory_allocated",
    "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats",
    "reset_accumulated_memory_stats", "reset_peak_memory_stats", "set_device_index", "set_stream",
    "synchronize",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)


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
    """The number of accelerators of that type."""
    return sum(not name.startswith("cpu") for name in available_devices())


def current_device_index() -> int:
    """0, the index of the accelerator that a device without an index names.

    Raises:
        RuntimeError: There is no accelerator.
    """
    _place(None)
    return 0


def set_device_index(device: Any, /) -> None:
    """Set the current accelerator, which can only be the first.

    Args:
        device: A device with an index, or the index; a negative index has no effect.

    Raises:
        RuntimeError: Another accelerator is selected, or there is no accelerator.
        ValueError: ``device`` has no index, or is of another type.
    """
    if isinstance(device, int) and device < 0:
        return
    index = _place(device).index if device is not None else None
    if index is None:
        raise ValueError(f"set_device_index() takes an index or a device with one, got {device}")
    if index > 0:
        raise RuntimeError(
            f"a device without an index is the first accelerator; name '{_place(device)}' "
            "explicitly, or make it the first in the environment (CUDA_VISIBLE_DEVICES)"
        )


class device_index:
    """A context manager that sets the current accelerator, which can only be the first.

    Args:
        device: The index; ``None`` or a negative index has no effect.
    """

    def __init__(self, device: int | None, /) -> None:
        self._chosen = -1 if device is None else device

    def __enter__(self) -> None:
        set_device_index(self._chosen)

    def __exit__(self, *_: object) -> None:
        """Do nothing: entering changed no setting."""


def synchronize(device: Any = None, /) -> None:
    """Wait until an accelerator has done all that was submitted to it.

    Raises:
        RuntimeError: There is no accelerator.
    """
    wait_for(_place(device).jax_device)


def current_stream(device: Any = None, /) -> Stream:
    """The stream of an accelerator.

    Raises:
        RuntimeError: There is no accelerator.
    """
    return Stream(_place(device))


def set_stream(stream: Stream, /) -> None:
    """Set the current stream's device, which can only be the first accelerator."""
    set_device_index(stream.device)


def empty_cache() -> None:
    """Do nothing: XLA's allocator keeps its reserved memory until the process ends."""


def memory_allocated(device_index: Any = None, /) -> int:
    """The number of bytes that live arrays occupy on an accelerator.

    Raises:
        RuntimeError: There is no accelerator.
    """
    return stated(_place(device_index).jax_device, "bytes_in_use")


def max_memory_allocated(device_index: Any = None, /) -> int:
    """The peak of `memory_allocated`.

    Raises:
        RuntimeError: There is no accelerator.
    """
    return stated(_place(device_index).jax_device, "peak_bytes_in_use")


def memory_reserved(device_index: Any = None, /) -> int:
    """The number of bytes that XLA's allocator has reserved on an accelerator.

    Raises:
        RuntimeError: There is no accelerator.
    """
    return stated(_place(device_index).jax_device, "pool_bytes")


def max_memory_reserved(device_index: Any = None, /) -> int:
    """The peak of `memory_reserved`.

    Raises:
        RuntimeError: There is no accelerator.
    """
    return stated(_place(device_index).jax_device, "peak_pool_bytes")


def memory_stats(device_index: Any = None, /) -> dict[str, Any]:
    """JAX's memory statistics of an accelerator; see `cuda.memory_stats`.

    Raises:
        RuntimeError: There is no accelerator.
    """
    return stats_of(_place(device_index).jax_device)


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """Do nothing: JAX keeps the peak of the whole process and cannot reset it."""


def reset_accumulated_memory_stats(device_index: Any = None, /) -> None:
    """Do nothing: JAX cannot reset its counters."""


def get_memory_info(device_index: Any = None, /) -> tuple[int, int]:
    """The free and total bytes of an accelerator's memory that JAX may use.

    Raises:
        RuntimeError: There is no accelerator.
    """
    found = _place(device_index).jax_device
    total = stated(found, "bytes_limit")
    return total - stated(found, "bytes_in_use"), total


def _place(where: Any) -> device:
    current = current_accelerator()
    if current is None:
        raise RuntimeError("this machine has no accelerator, only CPUs")
    if where is None:
        return current
    place = device(current.type, where) if isinstance(where, int) else device(where)
    if place.type != current.type:
        raise ValueError(f"the accelerator of this machine is {current}, got '{place}'")
    return place
