"""Deprecated names of `flambeau.amp` for ``"cuda"``; each warns like PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module as _import_module
from typing import Any

from flambeau import amp
from flambeau._absent import absent as _absent
from flambeau.core.support.dtype import dtype, float16
from flambeau.core.support.warning import warn
from flambeau.cuda.devices import is_available

__all__ = [
    "GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("autocast_mode", "common", "grad_scaler"):
        return _import_module(f"flambeau.cuda.amp.{name}")
    raise _absent(__name__, name)


def amp_definitely_not_available() -> bool:
    """Whether there is no GPU."""
    return not is_available()


def _warn(name: str, instead: str) -> None:
    warn(
        f"cuda.amp.{name}() is deprecated; use flambeau.amp.{name}({instead})",
        FutureWarning,
    )


class autocast(amp.autocast):
    """`flambeau.amp.autocast` for ``"cuda"``, by default to float16."""

    def __init__(
        self, enabled: bool = True, dtype: dtype = float16, cache_enabled: bool = True
    ) -> None:
        _warn("autocast", '"cuda", ...')
        super().__init__("cuda", dtype, enabled, cache_enabled)

    def clone(self) -> amp.autocast:
        """A new manager with the same settings."""
        return amp.autocast(self.device, self.fast_dtype, self.enabled, self.cache_enabled)


class GradScaler(amp.GradScaler):
    """`flambeau.amp.GradScaler` for ``"cuda"``."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn("GradScaler", '"cuda", ...')
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: dtype | None = None) -> Any:
    """`flambeau.amp.custom_fwd` for ``"cuda"``."""
    _warn("custom_fwd", '..., device_type="cuda"')
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Any:
    """`flambeau.amp.custom_bwd` for ``"cuda"``."""
    _warn("custom_bwd", '..., device_type="cuda"')
    return amp.custom_bwd(bwd, device_type="cuda")
