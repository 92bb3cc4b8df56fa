"""Warnings attributed to the user's line that causes them."""

from __future__ import annotations

import sys
import warnings

__all__ = ["is_warn_always_enabled", "set_warn_always"]

# Libraries whose frames are skipped: the user wrote none of their lines.
_PASSED_OVER = frozenset(("flambeau", "jax", "jaxlib", "contextlib", "importlib"))


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn about the user's line that called flambeau, however deep the call."""
    frame, level = sys._getframe(1), 2
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in _PASSED_OVER:
            break
        # Python's levels leave out the frames of an import.
        frame, level = frame.f_back, level + (package != "importlib")
    warnings.warn(message, category, stacklevel=level)


def set_warn_always(b: bool, /) -> None:
    """Choose whether warnings that are given once are given every time.

    Python's filters decide that here, so only `is_warn_always_enabled` changes.
    """
    global _warn_always
    _warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    """The last argument of `set_warn_always`."""
    return _warn_always


_warn_always = False
