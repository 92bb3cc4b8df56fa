"""The tensors, objects and containers in a value that a program looks up at each call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flambeau.compile.freezing import freeze
from flambeau.compile.ownership import attributes_of
from flambeau.compile.structure import is_plain_dataclass
from flambeau.compile.where import Attribute, Item, Where
from flambeau.core.announcing import CHANGES
from flambeau.core.identity import Same
from flambeau.core.pytree import is_tuple
from flambeau.core.tensor import Tensor

#: The containers whose content programs read and change at each call.
KINDS = tuple(CHANGES)

# Dataclass objects nested deeper than this are compared by identity.
_DEEPEST = 4


def is_empty(value: Any) -> bool:
    """Whether ``value`` is ``None`` or an empty container, as after a flush."""
    return value is None or (type(value) in (*KINDS, set, tuple) and not value)


def objects_in(value: Any, depth: int = 0) -> Iterator[Any]:
    """The objects of dataclasses in ``value``."""
    if is_tuple(value):
        for each in value:
            yield from objects_in(each, depth)
    elif depth < _DEEPEST and is_plain_dataclass(value):
        yield value
        for each in attributes_of(value).values():
            yield from objects_in(each, depth + 1)


def tensors_in(value: Any, where: Where, depth: int = 0) -> Iterator[tuple[Where, Tensor]]:
    """The tensors in ``value``, which is at ``where``, each with its own place.

    Those in tuples and in objects of dataclasses count.
    """
    if isinstance(value, Tensor):
        yield where, value
    elif is_tuple(value):
        for i, each in enumerate(value):
            yield from tensors_in(each, Item(where, i), depth)
    elif depth < _DEEPEST and is_plain_dataclass(value):
        for name, each in attributes_of(value).items():
            yield from tensors_in(each, Attribute(where, name), depth + 1)


def spec_of(value: Any, depth: int = 0) -> Any:
    """The properties of a value that a program takes for granted.

    These are a tensor's shape and dtype, and a container's kind: a container's content is compared
    as far as the trace has asked for it. Containers in an object of a dataclass count by identity.
    """
    if isinstance(value, Tensor) and value._view is None:
        return tuple(value.shape), value.dtype, value.requires_grad
    if is_tuple(value):
        return type(value), tuple([spec_of(each, depth) for each in value])
    if type(value) in KINDS:
        if depth:
            return Same(value)
        return (
            type(value), getattr(value, "maxlen", None), getattr(value, "default_factory", None),
        )  # fmt: skip
    if depth < _DEEPEST and is_plain_dataclass(value):
        fields = attributes_of(value).items()
        return type(value), tuple([(name, spec_of(each, depth + 1)) for name, each in fields])
    return freeze(value)
