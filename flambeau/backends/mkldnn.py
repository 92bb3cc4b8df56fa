"""Settings of oneDNN, which XLA calls or does not: they are kept and change nothing.

Only a demand for exact products is followed: ``allow_tf32 = False``, ``fp32_precision = "ieee"``.
"""

from __future__ import annotations

import sys
import types
from contextlib import AbstractContextManager
from typing import Any

from flambeau.backends.settings import Precision, allow, changed, check_flag, exchange

__all__ = [
    "VERBOSE_OFF", "VERBOSE_ON", "VERBOSE_ON_CREATION", "allow_tf32", "conv", "deterministic",
    "enabled", "flags", "fp32_precision", "is_acl_available", "is_available", "matmul", "rnn",
    "set_flags", "verbose",
]  # fmt: skip

VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2

#: Whether the library may be used, which XLA decides.
enabled: bool = True
#: Whether results must be the same each time, as they are on CPUs.
deterministic: bool = False
#: Whether products of float32 may be computed in fewer bits; ``None`` if it has not been set.
allow_tf32: bool | None = None
#: The same, as a word; see `flambeau.backends.settings.Precision`.
fp32_precision: str = "none"
conv: Precision = Precision()
matmul: Precision = Precision()
rnn: Precision = Precision()


def is_available() -> bool:
    """``False``: no tensor can be given to the library (`to_mkldnn`)."""
    return False


def is_acl_available() -> bool:
    """``False``: see `is_available`."""
    return False


class verbose:
    """A block in which PyTorch's oneDNN prints what it does; XLA prints nothing."""

    def __init__(self, level: int) -> None:
        self.level = level

    def __enter__(self) -> verbose:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing has changed."""


def set_flags(
    _enabled: bool | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str | None = "none",
) -> tuple[Any, ...]:
    """Set those that are not ``None``; gives what all were before."""
    return exchange(
        sys.modules[__name__],
        enabled=_enabled,
        deterministic=_deterministic,
        allow_tf32=_allow_tf32,
        fp32_precision=_fp32_precision,
    )


def flags(
    enabled: bool = False,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> AbstractContextManager[None]:
    """A block in which the settings are these."""
    return changed(
        sys.modules[__name__],
        enabled=enabled,
        deterministic=deterministic,
        allow_tf32=allow_tf32,
        fp32_precision=fp32_precision,
    )


class _Settings(types.ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("deterministic", "enabled"):
            check_flag(f"mkldnn.{name}", value)
        if name == "allow_tf32" and value is False:
            allow("ieee")
        elif name == "fp32_precision":
            allow(value)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Settings
