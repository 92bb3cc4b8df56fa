"""Lists and dictionaries that announce their changes, so that compiled programs may rely on them.

`CHANGES` names the methods by which Python's containers change. A subclass of such a container and
of `Announcing` announces all of them.
"""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

__all__: list[str] = []

_OF_SEQUENCES = (
    "__setitem__", "__delitem__", "__iadd__", "__imul__", "append", "clear", "extend", "insert",
    "pop", "remove", "reverse",
)  # fmt: skip
_OF_DICTIONARIES = (
    "__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update",
)  # fmt: skip

#: For each kind of container the methods by which it changes.
CHANGES: dict[type, tuple[str, ...]] = {
    list: (*_OF_SEQUENCES, "sort"),
    deque: (*_OF_SEQUENCES, "appendleft", "extendleft", "popleft", "rotate"),
    dict: _OF_DICTIONARIES,
    OrderedDict: (*_OF_DICTIONARIES, "move_to_end"),
    defaultdict: _OF_DICTIONARIES,
}


class Announcing:
    """A container that announces each change before and after it.

    Subclasses are also subclasses of a container. An override of a method in `CHANGES` announces
    its change: by `announced`, by calling a method that announces it, or itself.
    """

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        kind = next((each for each in cls.__mro__ if each in CHANGES), None)
        for name in () if kind is None else CHANGES[kind]:
            if getattr(cls, name) is getattr(kind, name):
                setattr(cls, name, announced(getattr(kind, name)))

    def _before_change(self) -> None:
        """Called before a change, which may still fail."""

    def _after_change(self) -> None:
        """Called after a change, also when it failed half way."""


def announced(method: Callable[..., Any]) -> Any:
    """``method`` of an `Announcing` container, with its announcements."""

    @functools.wraps(method)
    def change(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._before_change()
        try:
            return method(self, *args, **kwargs)
        finally:
            self._after_change()

    return change
