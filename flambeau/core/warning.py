"""Warnings that name the line of the user's that they are about."""

from __future__ import annotations

import sys
import warnings

__all__: list[str] = []

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
