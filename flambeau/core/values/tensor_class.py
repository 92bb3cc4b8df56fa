"""The metaclass of tensors, which announces replaced methods.

Operators and methods are looked up on the class, and no instance is involved. So the class itself
announces changes, and remembers which of its members differ from the original ones.
"""

from __future__ import annotations

import sys
import weakref
from types import FrameType

from flambeau.core.support import world
from flambeau.core.support.identity import Same
from flambeau.core.support.modes import modes

__all__: list[str] = []

_MISSING = object()
#: The original attributes of classes, where code outside flambeau replaced them.
_originals: weakref.WeakKeyDictionary[type, dict[str, object]] = weakref.WeakKeyDictionary()


class TensorMeta(type):
    """The metaclass of Tensor, so that subclasses can define which objects are instances."""

    def __setattr__(cls, name: str, value: object) -> None:
        _note(cls, name)
        type.__setattr__(cls, name, value)

    def __delattr__(cls, name: str) -> None:
        _note(cls, name)
        type.__delattr__(cls, name)


def is_own_frame(frame: FrameType | None) -> bool:
    """Whether the code of a frame is flambeau's."""
    name = "" if frame is None else frame.f_globals.get("__name__", "")
    return name.partition(".")[0] == "flambeau"


def _note(cls: type, name: str) -> None:
    """Remember and announce that a member of a class is about to be replaced."""
    if is_own_frame(sys._getframe(2)):
        # Operators are declared at import, and some on first use.
        return
    _originals.setdefault(cls, {}).setdefault(name, vars(cls).get(name, _MISSING))
    if modes.trace is not None:
        modes.trace.change_class(cls, name)
    world.bump()


def replaced() -> list[tuple[Same, str, Same]]:
    """The members of tensor classes that were replaced, in a comparable form."""
    return [
        (Same(cls), name, Same(vars(cls).get(name, _MISSING)))
        for cls, members in _originals.items()
        for name, original in members.items()
        if vars(cls).get(name, _MISSING) is not original
    ]
