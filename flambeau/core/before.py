"""What containers held before a trace, which puts it back where it fails."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from flambeau.core.announcing import Announcing
from flambeau.core.identity import MISSING

__all__: list[str] = []

_KINDS = (OrderedDict, dict, list, deque, set)


class Before:
    """The contents of containers, and the attributes of objects, as a trace found them."""

    def __init__(self) -> None:
        self._noted: dict[int, tuple[Any, Callable[[Any], Any] | None, Any]] = {}

    def note(self, owner: Any, content: Callable[[Any], Any] | None = None) -> None:
        """Remember a container, before it can change; nothing happens if it is known.

        Args:
            owner: The container, or an object that has one.
            content: Gives the container of an object.
        """
        if id(owner) not in self._noted:
            held = owner if content is None else content(owner)
            self._noted[id(owner)] = owner, content, _copy(held)

    def of(self, owner: Any) -> Any:
        """What ``owner`` held: a list, a set or a dictionary."""
        return self._noted[id(owner)][2]

    def is_changed(self, owner: Any) -> bool:
        """Whether ``owner`` holds other objects now, or in another order."""
        return _ids(self._now(owner)) != _ids(self.of(owner))

    def changed_names(self, owner: Any) -> list[Any]:
        """The names in a dictionary under which another object is now, or none."""
        now, before = self._now(owner), self.of(owner)
        # Past the methods of optimizers' dictionaries, which ask the trace.
        names = {**before, **dict(dict.items(now))}
        return [
            name for name in names if before.get(name, MISSING) is not dict.get(now, name, MISSING)
        ]

    def put_back(self, owner: Any) -> None:
        """Let ``owner`` hold what it held."""
        if self.is_changed(owner):
            _fill(self._now(owner), self.of(owner))

    def _now(self, owner: Any) -> Any:
        content = self._noted[id(owner)][1]
        return owner if content is None else content(owner)

    def put_all_back(self) -> None:
        """Let everything hold what it held."""
        for owner, _, _ in self._noted.values():
            self.put_back(owner)


def _copy(container: Any) -> Any:
    if isinstance(container, dict):
        return dict(_items(container))
    return set(container) if isinstance(container, set) else [*container]


def _ids(container: Any) -> Any:
    if isinstance(container, dict):
        return [(id(key), id(value)) for key, value in _items(container)]
    return {*map(id, container)} if isinstance(container, set) else [*map(id, container)]


def _items(container: Any) -> Any:
    # The order of an OrderedDict is its own.
    ordered = isinstance(container, OrderedDict)
    return OrderedDict.items(container) if ordered else dict.items(container)


def _fill(container: Any, content: Any) -> None:
    """Replace the members of a container, without the conversions that its class makes."""
    kind: Any = next(each for each in _KINDS if isinstance(container, each))
    kind.clear(container)
    if isinstance(content, dict):
        for name, value in content.items():
            kind.__setitem__(container, name, value)
    else:
        (kind.update if kind is set else kind.extend)(container, content)
    if isinstance(container, Announcing):
        container._after_change()
