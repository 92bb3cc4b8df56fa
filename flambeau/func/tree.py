"""Nested tuples, lists and dicts taken apart and put together, with keys in their own order."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax

from flambeau.core.pytree import OWN_PARTS, kind_of
from flambeau.core.tensor import Tensor


class Structure(NamedTuple):
    """The structure of a nested value without its leaves.

    Attributes:
        kind: The type of the container; ``None`` for a leaf.
        context: What else the container needs: its keys, and for a defaultdict its factory; or what
            a class of `OWN_PARTS` has to know.
        parts: The structures of its members.
    """

    kind: type | None
    context: Any
    parts: tuple[Structure, ...]

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        members = list(map(repr, self.parts))
        if self.context is not None and self.kind not in OWN_PARTS:
            names = self.context[0]
            members = [f"{key!r}: {m}" for key, m in zip(names, members, strict=True)]
        return f"{self.kind.__name__}({', '.join(members)})"


LEAF = Structure(None, None, ())


def flatten(value: Any) -> tuple[list[Any], Structure]:
    """The leaves of a nested value, in order, and its structure."""
    leaves: list[Any] = []
    return leaves, _take_apart(value, leaves)


def _take_apart(value: Any, leaves: list[Any]) -> Structure:
    kind = kind_of(value)
    if kind in (dict, OrderedDict, defaultdict):
        parts = tuple([_take_apart(each, leaves) for each in value.values()])
        return Structure(kind, (tuple(value), getattr(value, "default_factory", None)), parts)
    if _has_own_parts(value):
        own, context = OWN_PARTS[kind].take_apart(value)
        return Structure(kind, context, tuple([_take_apart(each, leaves) for each in own]))
    if kind in (list, tuple) or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        return Structure(kind, None, tuple([_take_apart(each, leaves) for each in value]))
    leaves.append(value)
    return LEAF


def unflatten(structure: Structure, leaves: list[Any]) -> Any:
    """The nested value of this structure with these leaves."""
    return _put_together(structure, iter(leaves))


def _put_together(structure: Structure, leaves: Iterator[Any]) -> Any:
    kind = structure.kind
    if kind is None:
        return next(leaves)
    members = [_put_together(each, leaves) for each in structure.parts]
    if structure.context is not None and kind in OWN_PARTS:
        return OWN_PARTS[kind].put_together(structure.context, map(as_tensor, members))
    if structure.context is not None:
        keys, factory = structure.context
        result = defaultdict(factory) if kind is defaultdict else kind()
        result.update(zip(keys, members, strict=True))
        return result
    return kind(*members) if hasattr(kind, "_fields") else kind(members)


def flatten_as(structure: Structure, value: Any) -> list[Any] | None:
    """The leaves of a nested value of this structure; ``None`` if it has another one.

    Keys may be in another order: `jax.tree.map` sorts them.
    """
    if structure.kind is None:
        return None if _members(value) is not None else [value]
    members = _members_as(structure, value)
    if members is None:
        return None
    found: list[Any] = []
    for part, member in zip(structure.parts, members, strict=True):
        leaves = flatten_as(part, member)
        if leaves is None:
            return None
        found.extend(leaves)
    return found


def broadcast(prefix: Any, structure: Structure) -> list[Any] | None:
    """One entry of ``prefix`` for each leaf of ``structure``; ``None`` if they do not match.

    A number or ``None`` in the prefix stands for all leaves at its place.
    """
    if prefix is None or isinstance(prefix, int):
        return [prefix] * _count(structure)
    if structure.kind is None:
        return [prefix]
    entries = _members_as(structure, prefix)
    if entries is None:
        return None
    found: list[Any] = []
    for entry, part in zip(entries, structure.parts, strict=True):
        spread = broadcast(entry, part)
        if spread is None:
            return None
        found.extend(spread)
    return found


def _members_as(structure: Structure, value: Any) -> list[Any] | None:
    """The members of a container of this structure's kind and keys; ``None`` if it is another."""
    members = _members(value)
    if kind_of(value) is not structure.kind or members is None:
        return None
    if _has_own_parts(value):
        return members if OWN_PARTS[type(value)].take_apart(value)[1] == structure.context else None
    if structure.context is None:
        return members if len(members) == len(structure.parts) else None
    names, factory = structure.context
    if set(names) != set(value) or getattr(value, "default_factory", None) != factory:
        return None
    return [value[name] for name in names]


def _members(value: Any) -> list[Any] | None:
    """The members of a container in its own order; ``None`` for a leaf."""
    if kind_of(value) in (dict, OrderedDict, defaultdict):
        return list(value.values())
    if _has_own_parts(value):
        return list(OWN_PARTS[type(value)].take_apart(value)[0])
    if kind_of(value) in (list, tuple) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return list(value)
    return None


def _has_own_parts(value: Any) -> bool:
    """Whether a container is one of `OWN_PARTS` that cannot be taken apart into its elements."""
    return type(value) in OWN_PARTS and not OWN_PARTS[type(value)].has_elements(value)


def _count(structure: Structure) -> int:
    return 1 if structure.kind is None else sum(map(_count, structure.parts))


def as_tensor(leaf: Any) -> Any:
    """``leaf``, as a Tensor if it is a `jax.Array`."""
    return Tensor._wrap(leaf) if isinstance(leaf, jax.Array) else leaf


def map_tensors(function: Callable[[Tensor], Any], value: Any) -> Any:
    """A nested value with ``function`` of each Tensor in the place of that."""
    leaves, structure = flatten(value)
    changed = [function(each) if isinstance(each, Tensor) else each for each in leaves]
    return unflatten(structure, changed)
