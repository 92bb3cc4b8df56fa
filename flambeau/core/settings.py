"""Settings of the process that functions ask for: a trace notes them, and their values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from flambeau.core import world
from flambeau.core.modes import modes

__all__: list[str] = []

Value = TypeVar("Value")

#: All functions that give settings, as far as their modules have been imported.
known: list[Callable[[], object]] = []


def setting(read: Callable[[], Value]) -> Callable[[], Value]:
    """A function without arguments that gives a setting, which compiled functions then follow.

    A program of a function that asks for the setting is used as long as it is the same.
    """
    known.append(read)

    @functools.wraps(read)
    def ask() -> Value:
        if world.tracing and modes.trace is not None:
            modes.trace.note_setting(read)
        return read()

    return ask
