"""The memory of NVIDIA GPUs, which JAX manages."""

from __future__ import annotations

from typing import Any

from flambeau.cuda.devices import is_available, jax_device

__all__ = [
    "empty_cache", "ipc_collect", "max_memory_allocated", "max_memory_cached",
    "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_cached", "memory_reserved",
    "memory_stats", "memory_summary", "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats",
]  # fmt: skip


def stated(found: Any, key: str) -> int:
    """A byte count from the memory statistics of a JAX device; 0 where it is missing."""
    return int((found.memory_stats() or {}).get(key, 0))


def memory_allocated(device: Any = None) -> int:
    """The number of bytes that live arrays occupy on a GPU; 0 where there is none."""
    return stated(jax_device(device), "bytes_in_use") if is_available() else 0


def max_memory_allocated(device: Any = None) -> int:
    """The peak of `memory_allocated`; 0 where there is no GPU."""
    return stated(jax_device(device), "peak_bytes_in_use") if is_available() else 0


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """The free and total bytes that JAX has reserved on a GPU."""
    found = jax_device(device)
    total = stated(found, "bytes_limit")
    return total - stated(found, "bytes_in_use"), total


def empty_cache() -> None:
    """Do nothing: XLA's allocator keeps its reserved memory until the process ends."""


def ipc_collect() -> None:
    """Do nothing: no other process shares memory of this one."""


def memory_reserved(device: Any = None) -> int:
    """The number of bytes that XLA's allocator has reserved on a GPU; 0 where there is none."""
    return stated(jax_device(device), "pool_bytes") if is_available() else 0


def max_memory_reserved(device: Any = None) -> int:
    """The peak of `memory_reserved`; 0 where there is no GPU."""
    return stated(jax_device(device), "peak_pool_bytes") if is_available() else 0


def memory_stats(device: Any = None) -> dict[str, Any]:
    """JAX's memory statistics of a GPU, under PyTorch's names; empty where there is no GPU.

    JAX does not distinguish the small pool from the large one, so there are only the numbers for
    ``all``.
    """
    return stats_of(jax_device(device)) if is_available() else {}


def stats_of(found: Any) -> dict[str, Any]:
    """`memory_stats` of a JAX device."""
    counted = {
        "allocated_bytes.all.current": "bytes_in_use",
        "allocated_bytes.all.peak": "peak_bytes_in_use",
        "active_bytes.all.current": "bytes_in_use",
        "active_bytes.all.peak": "peak_bytes_in_use",
        "reserved_bytes.all.current": "pool_bytes",
        "reserved_bytes.all.peak": "peak_pool_bytes",
        "allocation.all.allocated": "num_allocs",
    }
    # JAX does not retry failed allocations.
    stats = {name: stated(found, of_jax) for name, of_jax in counted.items()}
    return {**stats, "num_alloc_retries": 0, "num_ooms": 0}


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """`memory_stats` as lines of text, in MiB."""
    lines = [
        f"{name.removesuffix('.all.current'):<20}{stats[name] / 2**20:>12.1f} MiB"
        f"{stats[name.replace('current', 'peak')] / 2**20:>12.1f} MiB at most"
        for stats in [memory_stats(device)]
        for name in stats
        if name.endswith("current")
    ]
    return "\n".join(lines) or "no GPU, so no memory of one"


def reset_peak_memory_stats(device: Any = None) -> None:
    """Do nothing: JAX keeps the peak of the whole process and cannot reset it."""


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Do nothing: JAX cannot reset its counters."""


def reset_max_memory_allocated(device: Any = None) -> None:
    """`reset_peak_memory_stats`, under an older name."""


def memory_cached(device: Any = None) -> int:
    """`memory_reserved`, under an older name."""
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """`max_memory_reserved`, under an older name."""
    return max_memory_reserved(device)


def reset_max_memory_cached(device: Any = None) -> None:
    """`reset_peak_memory_stats`, under an older name."""
