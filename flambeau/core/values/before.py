"""The contents of containers before a trace, restored if it fails."""

from __future__ import annotations

import copy
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, ItemsView
from typing import Any

import numpy as np

from flambeau.core.support.announcing import Announcing
from flambeau.core.support.identity import MISSING

__all__: list[str] = []

_OF_BYTES = (bytearray, array, np.ndarray)
#: The containers that can be remembered.
CHANGEABLE: tuple[type, ...] = (OrderedDict, dict, list, deque, set, *_OF_BYTES)

# Gives the container that belongs to an owner.
Content = Callable[[Any], Any]


class Before:
    """The contents of containers, and the attributes of objects, as they were before a trace.

    All methods take an owner and, for objects, a function that returns the owner's container, such
    as its attributes. By default the owner is the container itself.
    """

    def __init__(self) -> None:
        self._noted: dict[tuple[int, Content | None], tuple[object, Any]] = {}
        #: Original values, by the ids of the stand-ins that replace them during the trace.
        self.originals: dict[int, object] = {}

    def note(self, owner: Any, content: Content | None = None) -> None:
        """Record a container before its first change; do nothing if it is known."""
        if (id(owner), content) not in self._noted:
            copied = _copy(owner if content is None else content(owner))
            if self.originals and isinstance(copied, dict):
                copied = {key: self.originals.get(id(each), each) for key, each in copied.items()}
            self._noted[id(owner), content] = owner, copied

    def of(self, owner: Any, content: Content | None = None) -> Any:
        """The members that the container had: a list, a set or a dictionary."""
        return self._noted[id(owner), content][1]

    def is_changed(self, owner: Any, content: Content | None = None) -> bool:
        """Whether the container holds other objects now, or the same ones in another order."""
        now = owner if content is None else content(owner)
        return _ids(now) != _ids(self.of(owner, content))

    def changed_names(self, owner: Any, content: Content | None = None) -> list[str]:
        """The names in a dictionary whose object was replaced or removed."""
        now, before = owner if content is None else content(owner), self.of(owner, content)
        # Bypass the methods of optimizers' dictionaries, which notify the trace.
        names = {**before, **dict(dict.items(now))}
        return [
            name for name in names if before.get(name, MISSING) is not dict.get(now, name, MISSING)
        ]

    def put_back(self, owner: Any, content: Content | None = None) -> None:
        """Restore the content of the container."""
        if self.is_changed(owner, content):
            _fill(owner if content is None else content(owner), self.of(owner, content))

    def put_all_back(self) -> None:
        """Restore everything."""
        for (_, content), (owner, _) in self._noted.items():
            self.put_back(owner, content)


def _copy(container: Any) -> Any:
    if isinstance(container, _OF_BYTES):
        return copy.copy(container)
    if isinstance(container, dict):
        return dict(_items(container))
    return set(container) if isinstance(container, set) else [*container]


def _ids(container: Any) -> object:
    if isinstance(container, _OF_BYTES):
        return bytes(container)
    if isinstance(container, dict):
        return [(id(key), id(value)) for key, value in _items(container)]
    return {*map(id, container)} if isinstance(container, set) else [*map(id, container)]


def _items(container: dict[Any, Any]) -> ItemsView[Any, Any]:
    # An OrderedDict keeps its order itself.
    ordered = isinstance(container, OrderedDict)
    return OrderedDict.items(container) if ordered else dict.items(container)


def _fill(container: Any, content: Any) -> None:
    """Replace the members of a container, without the conversions that its class makes."""
    kind = next(each for each in CHANGEABLE if isinstance(container, each))
    if kind in _OF_BYTES:
        container[... if kind is np.ndarray else slice(None)] = content
        return
    kind.clear(container)
    if isinstance(content, dict):
        for name, value in content.items():
            kind.__setitem__(container, name, value)
    else:
        (kind.update if kind is set else kind.extend)(container, content)
    if isinstance(container, Announcing):
        container._after_change()
