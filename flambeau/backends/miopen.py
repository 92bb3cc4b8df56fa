"""Settings of convolutions on AMD's GPUs: they are kept and change nothing."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any

from flambeau.backends.settings import changed, exchange

__all__ = ["flags", "immediate", "set_flags"]

#: Whether to take an algorithm at once instead of measuring, which XLA decides.
immediate: bool = False


def set_flags(_immediate: bool | None = None) -> tuple[Any, ...]:
    """Set it, unless it is ``None``; gives what it was before."""
    return exchange(sys.modules[__name__], immediate=_immediate)


def flags(immediate: bool = False) -> AbstractContextManager[None]:
    """A block in which it is this."""
    return changed(sys.modules[__name__], immediate=immediate)
