"""Flattening nested state dicts: a dotted name for each tensor and value, with its place."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, MutableSequence
from typing import Any, NamedTuple

from flambeau.core.values.tensor import Tensor

__all__ = ["Entry", "flattened"]


class Entry(NamedTuple):
    """The place of a value: a dictionary or list, the key or position in it, and all keys to it."""

    container: Any
    key: Any
    path: tuple[str | int, ...]

    @property
    def value(self) -> Any:
        """The value at this place."""
        return self.container[self.key]


def flattened(state_dict: MutableMapping[Any, Any]) -> dict[str, Entry]:
    """The places of all tensors and values, by their keys joined with dots.

    Dictionaries are flattened, and lists that hold a tensor, a dictionary or such a list, as in
    PyTorch; other lists are values.

    Raises:
        ValueError: Two entries have one name.
    """
    found: dict[str, Entry] = {}
    for place in _places(state_dict, ()):
        name = ".".join(map(str, place.path))
        if name in found:
            raise ValueError(
                f"duplicated flatten key: two entries of the state dict have the name {name!r}, "
                "made of their keys joined by dots; rename a key"
            )
        found[name] = place
    return found


def _places(container: Any, path: tuple[str | int, ...]) -> Iterator[Entry]:
    is_mapping = isinstance(container, MutableMapping)
    for key in [*container] if is_mapping else range(len(container)):
        value, own = container[key], (*path, str(key) if is_mapping else key)
        if (isinstance(value, MutableMapping) and value) or _is_flattened(value):
            yield from _places(value, own)
        else:
            yield Entry(container, key, own)


def _is_flattened(value: Any) -> bool:
    return isinstance(value, MutableSequence) and any(
        isinstance(each, Tensor | MutableMapping) or _is_flattened(each) for each in value
    )
