"""Older names for `flambeau.amp`; those for a type of device warn, as in PyTorch."""

from __future__ import annotations

import threading

from flambeau.amp.autocast_mode import (
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from flambeau.core.support.dtype import dtype
from flambeau.core.support.warning import warn

__all__ = [
    "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache",
    "get_autocast_cpu_dtype", "get_autocast_gpu_dtype", "is_autocast_cpu_enabled",
    "set_autocast_cpu_dtype", "set_autocast_cpu_enabled", "set_autocast_gpu_dtype",
]  # fmt: skip


def _warn(name: str, instead: str) -> None:
    warn(f"{name}() is deprecated; use flambeau.{instead}", DeprecationWarning)


def get_autocast_cpu_dtype() -> dtype:
    """`get_autocast_dtype` of the CPU."""
    _warn("get_autocast_cpu_dtype", 'get_autocast_dtype("cpu")')
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> dtype:
    """`get_autocast_dtype` of GPUs."""
    _warn("get_autocast_gpu_dtype", 'get_autocast_dtype("cuda")')
    return get_autocast_dtype("cuda")


def is_autocast_cpu_enabled() -> bool:
    """`is_autocast_enabled` of the CPU."""
    _warn("is_autocast_cpu_enabled", 'is_autocast_enabled("cpu")')
    return is_autocast_enabled("cpu")


def set_autocast_cpu_dtype(dtype: dtype) -> None:
    """`set_autocast_dtype` of the CPU."""
    _warn("set_autocast_cpu_dtype", 'set_autocast_dtype("cpu", dtype)')
    set_autocast_dtype("cpu", dtype)


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """`set_autocast_enabled` of the CPU."""
    _warn("set_autocast_cpu_enabled", 'set_autocast_enabled("cpu", enabled)')
    set_autocast_enabled("cpu", enabled)


def set_autocast_gpu_dtype(dtype: dtype) -> None:
    """`set_autocast_dtype` of GPUs."""
    _warn("set_autocast_gpu_dtype", 'set_autocast_dtype("cuda", dtype)')
    set_autocast_dtype("cuda", dtype)


def clear_autocast_cache() -> None:
    """Do nothing: no converted parameters are cached."""


class _Nesting(threading.local):
    depth = 0


_nesting = _Nesting()


def autocast_increment_nesting() -> int:
    """Count an autocast block that a program enters itself; return the nesting depth."""
    _nesting.depth += 1
    return _nesting.depth


def autocast_decrement_nesting() -> int:
    """Count an autocast block as left; return the nesting depth."""
    _nesting.depth -= 1
    return _nesting.depth
