"""Settings of TorchScript's programs, of which there are none: they are accepted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from flambeau.core.settings import setting

__all__ = [
    "enable_onednn_fusion", "fuser", "onednn_fusion_enabled", "optimized_execution",
    "set_fusion_strategy", "strict_fusion",
]  # fmt: skip

_chosen: dict[str, Any] = {"onednn": False, "strategy": [("STATIC", 2), ("DYNAMIC", 10)]}


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """A block like any other: XLA fuses operators by itself."""
    yield


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A block like any other: there are no programs to be optimized."""
    yield


class strict_fusion:
    """A block like any other: XLA fuses operators by itself."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        """Nothing has changed."""


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Keep a strategy; gives the one before."""
    before, _chosen["strategy"] = _chosen["strategy"], strategy
    return before


def enable_onednn_fusion(enabled: bool) -> None:
    """Keep whether it is enabled."""
    _chosen["onednn"] = bool(enabled)


@setting
def onednn_fusion_enabled() -> bool:
    """The last argument of `enable_onednn_fusion`."""
    return _chosen["onednn"]
