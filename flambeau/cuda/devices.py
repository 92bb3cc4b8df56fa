"""The available NVIDIA GPUs and the current one.

A tensor's placement is its device, such as ``"cuda:1"``; without an index it is the first GPU.
"""

from __future__ import annotations

import types
from typing import Any

import jax

from flambeau.core.devices.device import CPU, available_devices
from flambeau.core.devices.device import device as _device

__all__ = [
    "current_device", "device", "device_count", "get_device_capability", "get_device_name",
    "get_device_properties", "init", "is_available", "is_bf16_supported", "is_initialized",
    "is_tf32_supported", "set_device", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether this machine has a GPU that JAX can use."""
    return device_count() > 0


def device_count() -> int:
    """The number of GPUs that JAX can use."""
    return sum(each.startswith("cuda") for each in available_devices())


def is_initialized() -> bool:
    """Whether there are GPUs: JAX initializes them on start."""
    return is_available()


def init() -> None:
    """Initialize the GPUs, which JAX does by itself.

    Raises:
        RuntimeError: There is no GPU.
    """
    jax_device(None)


def current_device() -> int:
    """0, the index of the GPU that ``"cuda"`` names.

    Raises:
        RuntimeError: There is no GPU.
    """
    jax_device(None)
    return 0


def set_device(device: Any) -> None:
    """Set the current GPU, which can only be the first.

    Args:
        device: A device or its index; a negative index has no effect.

    Raises:
        RuntimeError: Another GPU is selected, or there is no GPU.
        ValueError: ``device`` is not a GPU.
    """
    if isinstance(device, int) and device < 0:
        return
    place = place_of(device)
    if (place.index or 0) > 0:
        raise RuntimeError(
            f"\"cuda\" means the first GPU; name '{place}' explicitly, or make it the first "
            "with CUDA_VISIBLE_DEVICES"
        )
    jax_device(device)


class device:
    """A context manager that sets the current GPU, which can only be the first.

    Args:
        device: A device or its index; ``None`` or a negative index has no effect.
    """

    def __init__(self, device: Any) -> None:
        self._chosen = -1 if device is None else device

    def __enter__(self) -> None:
        set_device(self._chosen)

    def __exit__(self, *_: object) -> None:
        """Do nothing: entering changed no setting."""


def place_of(where: Any) -> _device:
    """The device that an argument of this module names; ``None`` is the first GPU."""
    place = _device("cuda") if where is None else _device(where)
    if place.type != "cuda":
        raise ValueError(f"expected a cuda device, got '{place}'")
    return place


def jax_device(where: Any) -> Any:
    """The JAX device that an argument of this module names."""
    return place_of(where).jax_device


def get_device_name(device: Any = None) -> str:
    """The name of a GPU."""
    return jax_device(device).device_kind


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU: ``(9, 0)`` is Hopper."""
    major, _, minor = jax_device(device).compute_capability.partition(".")
    return int(major), int(minor)


def get_device_properties(device: Any = None) -> Any:
    """A GPU's ``name``, ``major``, ``minor``, ``total_memory`` and ``multi_processor_count``.

    The memory is the limit of JAX's allocator, in bytes; ``major`` and ``minor`` are those of
    `get_device_capability`.
    """
    found = jax_device(device)
    major, minor = get_device_capability(device)
    return types.SimpleNamespace(
        name=found.device_kind, major=major, minor=minor,
        total_memory=int((found.memory_stats() or {}).get("bytes_limit", 0)),
        multi_processor_count=getattr(found, "core_count", 0),
    )  # fmt: skip


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether there is a GPU: XLA supports bfloat16 on all of them."""
    return is_available()


def is_tf32_supported() -> bool:
    """Whether the first GPU supports TensorFloat32, as GPUs since Ampere do."""
    return is_available() and get_device_capability() >= (8, 0)


def synchronize(device: Any = None) -> None:
    """Wait until a GPU has done all that was submitted to it.

    Raises:
        RuntimeError: There is no GPU.
    """
    wait_for(jax_device(device))


def wait_for(found: Any) -> None:
    """Wait until a JAX device has done all that was submitted to it."""
    jax.effects_barrier()
    # Programs run in order, so the end of the last program is the end of all.
    jax.device_put(0, found).__add__(1).block_until_ready()


def synchronize_cpu(module: Any, given: Any) -> None:
    """Wait until the CPU has done all that was submitted to it: `flambeau.cpu.synchronize`."""
    wait_for(CPU.jax_device)
