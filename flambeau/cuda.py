"""What scripts ask about NVIDIA GPUs, under the names of `torch.cuda`.

JAX orders the work on a device and keeps its memory, so there are no streams, events or caches to
manage. A tensor's place is said by its device, such as ``"cuda:1"``; without a number it is the
first.
"""

from __future__ import annotations

import types
from typing import Any

import jax

from flambeau._absent import Absent as _Absent
from flambeau.core.device import available_devices
from flambeau.core.device import device as _device
from flambeau.core.generator import generator_for
from flambeau.core.tensor import Tensor

__all__ = [
    "current_device", "device", "device_count", "empty_cache", "get_device_name",
    "get_device_properties", "get_rng_state", "get_rng_state_all", "init", "initial_seed",
    "is_available", "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "mem_get_info", "memory_allocated", "seed", "seed_all", "set_device",
    "set_rng_state", "set_rng_state_all", "synchronize",
]  # fmt: skip

__getattr__ = _Absent(__name__)


def is_available() -> bool:
    """Whether this machine has a GPU that JAX can use."""
    return device_count() > 0


def device_count() -> int:
    """The number of GPUs that JAX can use."""
    return sum(each.startswith("cuda") for each in available_devices())


def is_initialized() -> bool:
    """Whether there are GPUs: JAX finds them at once."""
    return is_available()


def init() -> None:
    """Find the GPUs, which JAX does by itself.

    Raises:
        RuntimeError: There is none.
    """
    _found(None)


def current_device() -> int:
    """0, the GPU that ``"cuda"`` means.

    Raises:
        RuntimeError: There is none.
    """
    _found(None)
    return 0


def set_device(device: Any) -> None:
    """Choose what ``"cuda"`` means, which is always the first GPU.

    Args:
        device: A device or its index; a negative index chooses nothing.

    Raises:
        RuntimeError: Another GPU is asked for, or there is none.
        ValueError: It is no GPU.
    """
    if isinstance(device, int) and device < 0:
        return
    place = _place(device)
    if (place.index or 0) > 0:
        raise RuntimeError(
            f"\"cuda\" means the first GPU; name '{place}' where it is meant, or make it the first "
            "with CUDA_VISIBLE_DEVICES"
        )
    _found(device)


class device:
    """A block for which `set_device` chooses a GPU, which can only be the first.

    Args:
        device: A device or its index; ``None`` or a negative index chooses nothing.
    """

    def __init__(self, device: Any) -> None:
        self._chosen = -1 if device is None else device

    def __enter__(self) -> None:
        set_device(self._chosen)

    def __exit__(self, *_: object) -> None:
        """Nothing has changed."""


def _place(where: Any) -> _device:
    """The device that an argument of this module names; ``None`` means the first GPU."""
    place = _device("cuda") if where is None else _device(where)
    if place.type != "cuda":
        raise ValueError(f"expected a cuda device, got '{place}'")
    return place


def _found(where: Any) -> Any:
    """The JAX device that an argument of this module names."""
    return _place(where).jax_device


def get_device_name(device: Any = None) -> str:
    """The name of a GPU."""
    return _found(device).device_kind


def get_device_properties(device: Any = None) -> Any:
    """The name of a GPU and its memory in bytes, as ``name`` and ``total_memory``."""
    found = _found(device)
    return types.SimpleNamespace(name=found.device_kind, total_memory=_memory(found, "bytes_limit"))


def _memory(found: Any, what: str) -> int:
    return int((found.memory_stats() or {}).get(what, 0))


def memory_allocated(device: Any = None) -> int:
    """How many bytes the arrays on a GPU take; 0 where there is none."""
    return _memory(_found(device), "bytes_in_use") if is_available() else 0


def max_memory_allocated(device: Any = None) -> int:
    """The most that `memory_allocated` has been; 0 where there is no GPU."""
    return _memory(_found(device), "peak_bytes_in_use") if is_available() else 0


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """How many bytes of what JAX has reserved on a GPU are free, and how many it has reserved."""
    found = _found(device)
    total = _memory(found, "bytes_limit")
    return total - _memory(found, "bytes_in_use"), total


def empty_cache() -> None:
    """Nothing: memory that JAX has reserved stays its own until the program ends."""


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether there is a GPU: XLA computes with bfloat16 on all of them."""
    return is_available()


def synchronize(device: Any = None) -> None:
    """Wait until a GPU has done all that it was given.

    Raises:
        RuntimeError: There is none.
    """
    wait_for(_found(device))


def wait_for(found: Any) -> None:
    """Wait until a JAX device has done all that it was given."""
    jax.effects_barrier()
    # Programs run one after the other, so the last one's end is the end of all.
    jax.device_put(0, found).__add__(1).block_until_ready()


# Random numbers


def _generators() -> list[Any]:
    return [generator_for(_device("cuda", index)) for index in range(device_count())]


def manual_seed(seed: int) -> None:
    """Start the default generator of the first GPU again from ``seed``; nothing if there is none.

    `flambeau.manual_seed` does so for all devices.
    """
    for each in _generators()[:1]:
        each.manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Start the default generators of all GPUs again from ``seed``; nothing if there is none."""
    for each in _generators():
        each.manual_seed(int(seed))


def seed() -> None:
    """Start the default generator of the first GPU again from a random seed."""
    for each in _generators()[:1]:
        each.seed()


def seed_all() -> None:
    """Start the default generators of all GPUs again from random seeds."""
    for each in _generators():
        each.seed()


def initial_seed() -> int:
    """The seed that the generator of the first GPU was last given."""
    return generator_for(_place(None)).initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of a GPU's default generator; see `Generator.get_state`."""
    _found(device)
    return generator_for(_place(device)).get_state()


def get_rng_state_all() -> list[Tensor]:
    """The states of all GPUs' default generators."""
    return [each.get_state() for each in _generators()]


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Let a GPU's default generator continue from a state."""
    _found(device)
    generator_for(_place(device)).set_state(new_state)


def set_rng_state_all(new_states: Any) -> None:
    """Let all GPUs' default generators continue from states."""
    for each, state in zip(_generators(), new_states, strict=True):
        each.set_state(state)
