"""A library of convolutions, which XLA does not call: its setting is kept and changes nothing."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any

from flambeau.backends.settings import changed, exchange

__all__ = ["enabled", "flags", "is_available", "set_flags"]

#: The last argument of `set_flags`.
enabled: bool = True


def is_available() -> bool:
    """``False``."""
    return False


def set_flags(_enabled: bool) -> tuple[Any, ...]:
    """Set `enabled`; gives what it was before."""
    return exchange(sys.modules[__name__], enabled=_enabled)


def flags(enabled: bool = False) -> AbstractContextManager[None]:
    """A block in which `enabled` is this."""
    return changed(sys.modules[__name__], enabled=enabled)
