"""The tensors in a value: in tuples, which programs look up at each call, and in all containers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from jax.core import Tracer

from flambeau.compile.guarding.freezing import freeze
from flambeau.compile.guarding.where import Item, Where
from flambeau.core.values.pytree import OWN_PARTS, is_tuple
from flambeau.core.values.tensor import Tensor

_CONTAINERS = (dict, list, deque, set, tuple)


def is_empty(value: Any) -> bool:
    """Whether ``value`` is ``None`` or an empty container, as after a flush."""
    return value is None or (isinstance(value, _CONTAINERS) and not value)


def tensors_in(value: Any, where: Where) -> Iterator[tuple[Where, Tensor]]:
    """The tensors in ``value``, which is at ``where``, each with its own place.

    Those in tuples count.
    """
    if isinstance(value, Tensor):
        yield where, value
    elif is_tuple(value):
        for i, each in enumerate(value):
            yield from tensors_in(each, Item(where, i))


def spec_of(value: Any) -> Any:
    """The properties of a value that a program assumes: of a tensor, its type."""
    if isinstance(value, Tensor) and value._view is None:
        return tuple(value.shape), value.dtype, value.requires_grad
    if is_tuple(value):
        return type(value), tuple(map(spec_of, value))
    return freeze(value)


def leaves_in(value: Any, left_out: Iterable[int] = ()) -> list[Any]:
    """The leaves in a container and in the containers inside it.

    A tensor that consists of others, as a sparse one does, is a container.

    Args:
        value: The container. Any other object is its own leaf.
        left_out: The ids of containers to leave out.
    """
    waiting, known, leaves = [value], {*left_out}, []
    for each in waiting:
        kind = type(each)
        if kind in OWN_PARTS and issubclass(kind, Tensor):
            waiting += OWN_PARTS[kind].take_apart(each)[0]
        elif not issubclass(kind, _CONTAINERS) or (kind in OWN_PARTS and issubclass(kind, tuple)):
            leaves.append(each)
        elif id(each) not in known:
            known.add(id(each))
            if issubclass(kind, dict):
                waiting += dict.values(each)
            else:
                # By tuple's own method: a subclass may define another `__len__`.
                waiting += tuple.__iter__(each) if issubclass(kind, tuple) else each
    return leaves


def is_of_trace(value: Any) -> bool:
    """Whether ``value`` is, or holds in containers, a traced tensor."""
    return any(
        isinstance(each._cell.array if isinstance(each, Tensor) else each, Tracer)
        for each in leaves_in(value)
    )
