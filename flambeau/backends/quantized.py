"""Engines for quantized tensors, of which there are none."""

from __future__ import annotations

import sys
import types
from typing import Any

__all__ = ["engine", "supported_engines"]

#: The engine: there is none.
engine: str = "none"
#: The engines that may be chosen.
supported_engines: list[str] = ["none"]


class _Settings(types.ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        if name == "engine" and value not in supported_engines:
            raise RuntimeError(
                f"{value} is not a valid value for quantized engine: there are no quantized "
                "tensors; .to(flambeau.bfloat16) halves the memory of a model"
            )
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Settings
