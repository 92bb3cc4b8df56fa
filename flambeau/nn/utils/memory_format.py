"""The memory format of convolutions' weights, accepted for compatibility."""

from __future__ import annotations

from typing import TypeVar

from flambeau.nn.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

AnyModule = TypeVar("AnyModule", bound=Module)


def convert_conv2d_weight_memory_format(module: AnyModule, memory_format: object) -> AnyModule:
    """``module`` unchanged: XLA chooses the layout of every array."""
    return module


def convert_conv3d_weight_memory_format(module: AnyModule, memory_format: object) -> AnyModule:
    """``module`` unchanged: XLA chooses the layout of every array."""
    return module
