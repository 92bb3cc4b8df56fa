"""Settings of numerical precision and determinism, for the whole process."""

from __future__ import annotations

import os
from typing import Any

import jax

from flambeau.core.devices.device import available_devices
from flambeau.core.programs import gears
from flambeau.core.support import world
from flambeau.core.support.settings import setting
from flambeau.core.support.warning import warn

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
    """Set the precision of float32 matrix products and convolutions on accelerators.

    It sets JAX's ``jax_default_matmul_precision``. It has no effect on the CPU. Compiled functions
    are recompiled at their next call.

    Args:
        precision: ``"highest"`` computes in float32; ``"high"`` in TensorFloat32 or as the sum of
            three bfloat16 products; ``"medium"`` at the fastest precision.

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
    """The precision of float32 matrix products; see `set_float32_matmul_precision`.

    The initial value is JAX's default: ``"highest"`` where there are only CPUs, ``"high"`` on GPUs
    and ``"medium"`` on TPUs.
    """
    chosen: Any = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
    if chosen is not None:
        return _FROM_JAX.get(str(chosen), "highest")
    kinds = {each.partition(":")[0] for each in available_devices()}
    return "medium" if "tpu" in kinds else "high" if "cuda" in kinds else "highest"


# Determinism

# The flag itself is `gears.settings.deterministic`.
_warn_only = False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Require that the same program always gives the same result for the same input.

    XLA's programs are deterministic on CPUs and TPUs, and so each operator is compiled at its first
    call; see `compiler.gears`. On GPUs they are if the environment variable ``XLA_FLAGS`` contains
    ``--xla_gpu_deterministic_ops=true`` when JAX starts; it cannot be changed later.

    Args:
        mode: Whether to require determinism.
        warn_only: Warn instead of raising.

    Raises:
        RuntimeError: There are GPUs without that flag, and ``warn_only`` is false.
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
    """Whether `use_deterministic_algorithms` is enabled."""
    return gears.settings.deterministic


@setting
def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether `use_deterministic_algorithms` only warns."""
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
    """Set whether subnormal numbers are flushed to zero.

    Returns:
        Whether the setting holds: XLA on the CPU always flushes them.
    """
    return bool(mode)
