"""Warnings that name the line of the user's that they are about."""

from __future__ import annotations

import sys
import warnings

__all__ = ["is_warn_always_enabled", "set_warn_always"]

# Libraries whose lines no user wrote.
_PASSED_OVER = frozenset(("flambeau", "jax", "jaxlib", "contextlib"))


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn about the line that called flambeau, through however many functions of its own."""
    frame, level = sys._getframe(1), 2
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _PASSED_OVER:
            break
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def set_warn_always(b: bool, /) -> None:
    """Choose whether warnings that are given once are given each time.

    Python's filters decide that here, so nothing but `is_warn_always_enabled` changes.
    """
    global _warn_always
    _warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    """The last argument of `set_warn_always`."""
    return _warn_always


_warn_always = False
