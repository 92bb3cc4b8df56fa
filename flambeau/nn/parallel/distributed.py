"""PyTorch's module for several devices, which the room of many devices has."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from flambeau._absent import absent

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    # Few programs need it, and it stands above the layers.
    if name == "DistributedDataParallel":
        return getattr(import_module("flambeau.distributed.data_parallel"), name)
    raise absent(__name__, name)
