"""Flattening and unflattening nested tuples, lists and dicts, keeping the order of keys."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import jax

from flambeau.core.values import trees
from flambeau.core.values.pytree import OWN_PARTS
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trees import Kind, Structure

#: The structure of a leaf.
LEAF = trees.LEAF
_DICTIONARIES = (dict, OrderedDict, defaultdict)


def flatten(
    value: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], Structure]:
    """The leaves of a nested value, in order, and its structure.

    Containers for which ``is_leaf`` is true are leaves too.
    """
    leaves: list[Any] = []
    if is_leaf is None:
        return leaves, trees.flatten(value, leaves, _take_apart)

    def take_apart(value: Any) -> tuple[Kind, Iterable[Any]] | None:
        return None if is_leaf(value) else _take_apart(value)

    return leaves, trees.flatten(value, leaves, take_apart)


def _take_apart(value: Any) -> tuple[Kind, Iterable[Any]] | None:
    cls = type(value)
    if cls in _DICTIONARIES:
        return Kind(cls, tuple(value), getattr(value, "default_factory", None)), value.values()
    if cls in OWN_PARTS and not OWN_PARTS[cls].has_elements(value):
        members, context = OWN_PARTS[cls].take_apart(value)
        return Kind(cls, (), context), members
    if cls is list or cls is tuple:
        return (trees.LIST if cls is list else trees.TUPLE), value
    return (Kind(cls), value) if isinstance(value, tuple) and hasattr(cls, "_fields") else None


def unflatten(structure: Structure, leaves: list[Any]) -> Any:
    """The nested value of this structure with these leaves."""
    return trees.unflatten(structure, iter(leaves), _put_together)


def _put_together(kind: Kind, members: list[Any]) -> Any:
    cls, option = kind.cls, kind.option
    if cls in _DICTIONARIES:
        result = defaultdict(option) if cls is defaultdict else cls()
        result.update(zip(kind.keys, members, strict=True))
        return result
    if option is not None:
        return OWN_PARTS[cls].put_together(option, map(as_tensor, members))
    return cls(*members) if hasattr(cls, "_fields") else cls(members)


def flatten_as(structure: Structure, value: Any) -> list[Any] | None:
    """The leaves of a nested value of this structure; ``None`` if it has another structure.

    The order of keys may differ: `jax.tree.map` sorts them.
    """
    found = trees.flatten_up_to(structure, value, _members_as)
    return None if found is None or any(_take_apart(each) for each in found) else found


def broadcast(prefix: Any, structure: Structure) -> list[Any] | None:
    """One entry of ``prefix`` for each leaf of ``structure``; ``None`` if they do not match.

    A number or ``None`` in the prefix applies to all leaves below its position.
    """
    return trees.flatten_up_to(structure, prefix, _entries_as)


def _entries_as(structure: Structure, prefix: Any) -> list[Any] | None:
    if prefix is None or isinstance(prefix, int):
        return [prefix] * len(structure.parts)
    return _members_as(structure, prefix)


def _members_as(structure: Structure, value: Any) -> list[Any] | None:
    """The members of a container of this kind, which may have its keys in another order."""
    parts, expected = _take_apart(value), structure.kind
    if parts is None or expected is None:
        return None
    kind, members = parts
    if kind != expected:
        if {*kind.keys} != {*expected.keys} or kind._replace(keys=expected.keys) != expected:
            return None
        members = [value[key] for key in expected.keys]
    members = [*members]
    return members if len(members) == len(structure.parts) else None


def as_tensor(leaf: Any) -> Any:
    """``leaf``, as a Tensor if it is a `jax.Array`."""
    return Tensor._wrap(leaf) if isinstance(leaf, jax.Array) else leaf


def map_tensors(function: Callable[[Tensor], Any], value: Any) -> Any:
    """A nested value with ``function`` applied to each Tensor."""
    leaves, structure = flatten(value)
    changed = [function(each) if isinstance(each, Tensor) else each for each in leaves]
    return unflatten(structure, changed)
