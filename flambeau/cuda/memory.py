"""The memory of NVIDIA GPUs, which JAX keeps."""

from __future__ import annotations

from typing import Any

from flambeau.cuda.devices import is_available, jax_device

__all__ = ["empty_cache", "ipc_collect", "max_memory_allocated", "mem_get_info", "memory_allocated"]


def stated(found: Any, what: str) -> int:
    """A number of bytes that JAX states of one of its devices; 0 where it states none."""
    return int((found.memory_stats() or {}).get(what, 0))


def memory_allocated(device: Any = None) -> int:
    """How many bytes the arrays on a GPU take; 0 where there is none."""
    return stated(jax_device(device), "bytes_in_use") if is_available() else 0


def max_memory_allocated(device: Any = None) -> int:
    """The most that `memory_allocated` has been; 0 where there is no GPU."""
    return stated(jax_device(device), "peak_bytes_in_use") if is_available() else 0


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """How many bytes of what JAX has reserved on a GPU are free, and how many it has reserved."""
    found = jax_device(device)
    total = stated(found, "bytes_limit")
    return total - stated(found, "bytes_in_use"), total


def empty_cache() -> None:
    """Nothing: memory that JAX has reserved stays its own until the program ends."""


def ipc_collect() -> None:
    """Nothing: no other process has memory of this one."""
