"""Settings of the process that functions read: a trace records them and their values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from flambeau.core.support import world
from flambeau.core.support.modes import modes

__all__: list[str] = []

Value = TypeVar("Value")

#: All functions that return settings, as far as their modules have been imported.
known: list[Callable[[], object]] = []


def setting(read: Callable[[], Value]) -> Callable[[], Value]:
    """A function without arguments that returns a setting; compiled functions follow the setting.

    If a compiled function reads the setting, its program is reused only while the value is the
    same.
    """
    known.append(read)

    @functools.wraps(read)
    def ask() -> Value:
        if world.tracing and modes.trace is not None:
            modes.trace.note_setting(read)
        return read()

    return ask
