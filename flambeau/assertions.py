"""Assertions that a trace records."""

from __future__ import annotations

from typing import Any

from flambeau.core.overrides import asks


@asks
def _assert(condition: Any, message: str) -> None:
    """``assert condition, message``; `flambeau.fx` records it, and does not ask for the truth."""
    if not condition:
        raise AssertionError(message)
