"""The memory of NVIDIA GPUs, which JAX keeps."""

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
    """A number of bytes that JAX states of one of its devices; 0 where it states none."""
    return int((found.memory_stats() or {}).get(key, 0))


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


def memory_reserved(device: Any = None) -> int:
    """How many bytes of a GPU JAX has taken for its arrays, used or not; 0 where there is none."""
    return stated(jax_device(device), "pool_bytes") if is_available() else 0


def max_memory_reserved(device: Any = None) -> int:
    """The most that `memory_reserved` has been; 0 where there is no GPU."""
    return stated(jax_device(device), "peak_pool_bytes") if is_available() else 0


def memory_stats(device: Any = None) -> dict[str, Any]:
    """JAX's counts of a GPU's memory, under PyTorch's names; empty where there is no GPU.

    JAX does not tell the arrays of the small pool from those of the large one, so there are only
    the numbers for ``all``.
    """
    return stats_of(jax_device(device)) if is_available() else {}


def stats_of(found: Any) -> dict[str, Any]:
    """`memory_stats` of one of JAX's devices."""
    counted = {
        "allocated_bytes.all.current": "bytes_in_use",
        "allocated_bytes.all.peak": "peak_bytes_in_use",
        "active_bytes.all.current": "bytes_in_use",
        "active_bytes.all.peak": "peak_bytes_in_use",
        "reserved_bytes.all.current": "pool_bytes",
        "reserved_bytes.all.peak": "peak_pool_bytes",
        "allocation.all.allocated": "num_allocs",
    }
    # JAX does not try again.
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
    """Nothing: JAX keeps the peak of the whole process, and does not start over."""


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Nothing: JAX goes on counting."""


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
