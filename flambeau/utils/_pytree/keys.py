"""The path from a tree to one of its leaves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["GetAttrKey", "KeyEntry", "KeyPath", "MappingKey", "SequenceKey", "key_get", "keystr"]


@dataclass(frozen=True)
class SequenceKey:
    """A member of a sequence, by its position."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """The member of ``sequence``."""
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """A member of a dictionary, by its key."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The member of ``mapping``."""
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """A member of an object, by its attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The member of ``obj``."""
        return getattr(obj, self.name)


#: Any of these keys.
KeyEntry = Any
#: The keys from a tree to a leaf.
KeyPath = tuple[KeyEntry, ...]


def keystr(kp: Iterable[KeyEntry]) -> str:
    """The path in Python notation.

    >>> from flambeau.utils._pytree import GetAttrKey, MappingKey, SequenceKey, keystr
    >>> keystr((MappingKey("layers"), SequenceKey(0), GetAttrKey("weight")))
    "['layers'][0].weight"
    """
    return "".join(map(str, kp))


def key_get(obj: Any, kp: Iterable[KeyEntry]) -> Any:
    """The member of a tree at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj
