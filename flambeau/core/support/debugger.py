"""Reads of tensors that come from a debugger's prompt."""

from __future__ import annotations

import sys
from typing import Any

__all__: list[str] = []

_DEBUGGERS = {"IPython", "_pydevd_bundle", "bdb", "debugpy", "pdb", "pydevd"}
# Calls the function that is being compiled; a debugger below it runs the whole program.
_TRACING = "flambeau.compile.recording"


def keeps(holder: Any) -> bool:
    """Whether an object is a debugger or its attributes, which keep shown variables."""
    kind = getattr(sys.modules.get("bdb"), "Bdb", ())
    return isinstance(holder, kind) or (type(holder) is dict and "curframe_locals" in holder)


def at_its_prompt() -> bool:
    """Whether the read comes from a prompt, not from the function being compiled."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == _TRACING:
            return False
        if module.partition(".")[0] in _DEBUGGERS:
            return True
        frame = frame.f_back
    return False
