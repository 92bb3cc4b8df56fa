"""Flattening nested state dicts: a dotted name for each tensor and value, with its place."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, MutableSequence
from typing import Any, NamedTuple

from flambeau.core.values.tensor import Tensor

__all__ = ["Entry", "flattened"]


class Entry(NamedTuple):
    """The place of a value: a dictionary or list, and the key or position in it."""

    container: Any
    key: Any

    @property
    def value(self) -> Any:
        """The value at this place."""
        return self.container[self.key]


def flattened(state_dict: MutableMapping[Any, Any]) -> dict[str, Entry]:
    """The places of all tensors and values, by their keys joined with dots.

    Dictionaries, and lists that hold a tensor, are flattened; other lists are values.

    Raises:
        ValueError: Two entries have one name.
    """
    found: dict[str, Entry] = {}
    for name, place in _places(state_dict, ""):
        if name in found:
            raise ValueError(
                f"duplicated flatten key: two entries of the state dict have the name {name!r}, "
                "made of their keys joined by dots; rename a key"
            )
        found[name] = place
    return found


def _places(container: Any, prefix: str) -> Iterator[tuple[str, Entry]]:
    is_mapping = isinstance(container, MutableMapping)
    for key in [*container] if is_mapping else range(len(container)):
        name, value = f"{prefix}{key}", container[key]
        is_full_mapping = isinstance(value, MutableMapping) and bool(value)
        if is_full_mapping or (isinstance(value, MutableSequence) and _has_tensor(value)):
            yield from _places(value, f"{name}.")
        else:
            yield name, Entry(container, key)


def _has_tensor(value: Any) -> bool:
    if isinstance(value, MutableMapping):
        return any(map(_has_tensor, value.values()))
    if isinstance(value, MutableSequence):
        return any(map(_has_tensor, value))
    return isinstance(value, Tensor)
