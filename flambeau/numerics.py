"""How exact and how repeatable computations are: settings for the whole process."""

from __future__ import annotations

import os
from typing import Any

import jax

from flambeau.core import gears, world
from flambeau.core.device import available_devices
from flambeau.core.settings import setting
from flambeau.core.warning import warn

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "use_deterministic_algorithms",
]  # fmt: skip

_TO_JAX = {"highest": "highest", "high": "high", "medium": "default"}
_FROM_JAX = {
    "highest": "highest", "float32": "highest", "high": "high", "tensorfloat32": "high",
    "default": "medium", "bfloat16": "medium",
}  # fmt: skip


def set_float32_matmul_precision(precision: str) -> None:
    """Choose how products of float32 matrices, and convolutions, are computed on accelerators.

    It sets JAX's ``jax_default_matmul_precision``. On the CPU all choices give the same. Functions
    that are compiled already are compiled again at their next call.

    Args:
        precision: ``"highest"`` computes in float32; ``"high"`` in TensorFloat32 or as the sum of
            three bfloat16 products; ``"medium"`` in what is fastest.

    Raises:
        ValueError: ``precision`` is not one of these.

    >>> import flambeau
    >>> flambeau.set_float32_matmul_precision("highest")
    >>> flambeau.get_float32_matmul_precision()
    'highest'
    """
    if precision not in _TO_JAX:
        raise ValueError(
            f"set_float32_matmul_precision(): {precision!r} is not one of {', '.join(_TO_JAX)}"
        )
    jax.config.update("jax_default_matmul_precision", _TO_JAX[precision])
    world.bump()


@setting
def get_float32_matmul_precision() -> str:
    """How products of float32 matrices are computed; see `set_float32_matmul_precision`.

    Until something is chosen JAX's default holds: ``"highest"`` where there are only CPUs,
    ``"high"`` on GPUs and ``"medium"`` on TPUs.
    """
    chosen: Any = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
    if chosen is not None:
        return _FROM_JAX.get(str(chosen), "highest")
    kinds = {each.partition(":")[0] for each in available_devices()}
    return "medium" if "tpu" in kinds else "high" if "cuda" in kinds else "highest"


# Determinism

# The mode itself is `gears.settings.deterministic`.
_warn_only = False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask that the same program on the same input always gives the same result.

    XLA's programs do so on CPUs and TPUs, and so everything is compiled at its first call; see
    `compiler.gears`. On GPUs they do if the environment variable ``XLA_FLAGS``
    contains ``--xla_gpu_deterministic_ops=true`` when JAX starts; nothing can change that later.

    Args:
        mode: Whether to ask for it.
        warn_only: Warn where it cannot be had.

    Raises:
        RuntimeError: There are GPUs, that flag is missing, and not ``warn_only``.
    """
    global _warn_only
    if mode and not gpus_are_deterministic():
        reason = (
            "use_deterministic_algorithms(): programs on GPUs are deterministic only if XLA_FLAGS "
            "contains --xla_gpu_deterministic_ops=true when JAX starts"
        )
        if not warn_only:
            raise RuntimeError(reason)
        warn(reason)
    _warn_only = bool(warn_only)
    gears.settings.deterministic = bool(mode)
    gears.finish()


def gpus_are_deterministic() -> bool:
    """Whether there is no GPU, or XLA has been told to use deterministic algorithms there."""
    if not any(each.startswith("cuda") for each in available_devices()):
        return True
    flags = os.environ.get("XLA_FLAGS", "").split()
    return any(each.partition("=")[::2] in _FLAG for each in flags)


_FLAG = [("--xla_gpu_deterministic_ops", each) for each in ("true", "1", "")]


@setting
def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms` has asked for it."""
    return gears.settings.deterministic


@setting
def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was to warn only."""
    return _warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """`use_deterministic_algorithms` by a level.

    Args:
        debug_mode: 0 or ``"default"``, 1 or ``"warn"``, 2 or ``"error"``.

    Raises:
        RuntimeError: ``debug_mode`` is not one of these.
        TypeError: It is neither an integer nor a string.
    """
    if not isinstance(debug_mode, int | str):
        raise TypeError(
            "set_deterministic_debug_mode() takes an int or a string, got "
            f"{type(debug_mode).__name__}"
        )
    levels: dict[int | str, int] = {"default": 0, "warn": 1, "error": 2, 0: 0, 1: 1, 2: 2}
    if debug_mode not in levels:
        raise RuntimeError(
            f"set_deterministic_debug_mode(): {debug_mode!r} is not one of default, warn and error"
        )
    level = levels[debug_mode]
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


@setting
def get_deterministic_debug_mode() -> int:
    """0, 1 or 2; see `set_deterministic_debug_mode`."""
    return 0 if not gears.settings.deterministic else 1 if _warn_only else 2


def set_flush_denormal(mode: bool) -> bool:
    """Ask that subnormal numbers count as zero, or that they do not.

    Returns:
        Whether it is so: XLA on the CPU counts them as zero in any case.
    """
    return bool(mode)
