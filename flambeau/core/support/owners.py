"""The owner of an object, for the text of an error about it."""

from __future__ import annotations

import gc
from types import FrameType, ModuleType
from typing import Any

__all__ = ["owner_of"]

_DEPTH = 5
_MOST_REFERRERS = 200


def owner_of(value: Any) -> str:
    """The attribute that holds ``value``, itself or in containers, as ``" (attribute ...)"``.

    Empty if there is none. Searches all objects of the process.
    """
    # By identity: each object, with its member on the path to the value.
    wanted: dict[int, tuple[Any, Any]] = {id(value): (value, None)}
    passed: set[int] = set()
    for _ in range(_DEPTH):
        passed |= {*wanted}
        found = {}
        for holder in gc.get_referrers(*(each for each, _ in wanted.values()))[:_MOST_REFERRERS]:
            if isinstance(holder, FrameType | ModuleType) or id(holder) in passed:
                continue
            name = _attribute(holder, wanted)
            if name is not None:
                return f" (attribute {name!r} of {type(holder).__name__})"
            if isinstance(holder, dict | list | tuple):
                members = holder.values() if isinstance(holder, dict) else holder
                member = next((each for each in [*members] if id(each) in wanted), None)
                found[id(holder)] = holder, member
        if not found:
            break
        wanted = found
    return ""


def _attribute(holder: Any, wanted: dict[int, tuple[Any, Any]]) -> str | None:
    """The name under which an object holds a wanted object, directly or in a dictionary."""
    attributes = getattr(holder, "__dict__", None)
    if not isinstance(attributes, dict):
        return None
    own = wanted.get(id(attributes))
    sought = {*wanted} if own is None else {id(own[1])}
    return next((name for name, each in [*attributes.items()] if id(each) in sought), None)
