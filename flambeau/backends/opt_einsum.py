"""The order in which `flambeau.einsum` multiplies, which JAX chooses by the package opt_einsum.

The settings are kept and change nothing: the choice is made once for each program, and the result
is the same to rounding.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

from flambeau.backends.settings import changed, exchange

__all__ = ["enabled", "flags", "get_opt_einsum", "is_available", "set_flags", "strategy"]

#: Whether to choose an order.
enabled: bool = True
#: How to choose it.
strategy: str | None = "auto"


def is_available() -> bool:
    """``True``: JAX brings the package."""
    return True


def get_opt_einsum() -> Any:
    """The package."""
    return import_module("opt_einsum")


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple[Any, ...]:
    """Set those that are not ``None``; gives what both were before."""
    return exchange(sys.modules[__name__], enabled=_enabled, strategy=_strategy)


def flags(enabled: bool | None = None, strategy: str | None = None) -> AbstractContextManager[None]:
    """A block in which those that are not ``None`` are these."""
    return changed(sys.modules[__name__], enabled=enabled, strategy=strategy)
