"""Nested containers as trees: the leaves in order, and the structure around them.

A kind of trees is a pair of functions: one takes a container apart into its kind and its members,
the other puts them together. A kind holds all but the members, such as the class and the keys.

JAX flattens its own trees in C++, but not these: if an error is raised there, or a container
contains itself, jaxlib 0.10 does not restore the thread's count of recursive calls, and sooner or
later every call in the thread fails.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from flambeau.core.types import Leaf, Tree
from flambeau.core.values.tensor import Tensor


class Kind(NamedTuple):
    """The properties of a container besides its members.

    Attributes:
        cls: Its class.
        keys: The keys of a dictionary, in order.
        option: The ``maxlen`` of a deque, the ``default_factory`` of a defaultdict, or what a
            registered function returned besides the members.
        key_types: The classes of the keys, if they matter: ``1 == True``.
        attributes: The place of its ``__dict__``: ``"none"``, ``"itself"``, or ``"last"`` for the
            last member.
    """

    cls: Any
    keys: tuple[Hashable, ...] = ()
    option: Any = None
    key_types: tuple[type, ...] = ()
    attributes: str = "none"


LIST, TUPLE = Kind(list), Kind(tuple)


class Structure(NamedTuple):
    """A tree without its leaves.

    Attributes:
        kind: The `Kind` of the container; ``None`` for a leaf.
        parts: The structures of its members.
    """

    kind: Any
    parts: tuple[Structure, ...]

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        members = [*map(repr, self.parts)]
        if self.kind.keys:
            members = [f"{key!r}: {m}" for key, m in zip(self.kind.keys, members, strict=True)]
        return f"{self.kind.cls.__name__}({', '.join(members)})"

    @property
    def num_leaves(self) -> int:
        """The number of leaves."""
        if self.kind is None:
            return 1
        return sum([1 if each is LEAF else each.num_leaves for each in self.parts])


LEAF = Structure(None, ())
#: A function of a value that returns its kind and its members, or ``None`` for a leaf.
TakeApart = Callable[[Any], tuple[Kind, Iterable[Tree]] | None]
#: A function of a kind and new members that returns a container.
PutTogether = Callable[[Kind, list[Tree]], Tree]
# Faster than the class.
_structure = functools.partial(tuple.__new__, Structure)


class CircularError(RecursionError):
    """A container contains itself."""


def flatten(
    value: Tree, leaves: list[Leaf], take_apart: TakeApart, inside: tuple[int, ...] = ()
) -> Structure:
    """Append the leaves of a tree to ``leaves``, and return its structure.

    Plain tensors are leaves of all trees. The ids of the containers around ``value`` are in
    ``inside``.

    Raises:
        CircularError: A container contains itself.
    """
    parts = None if type(value) is Tensor else take_apart(value)
    if parts is None:
        leaves.append(value)
        return LEAF
    if id(value) in inside:
        raise CircularError(f"a {type(value).__name__} contains itself")
    kind, members = parts
    inside += (id(value),)
    structures: list[Structure] = []
    for each in members:
        if type(each) is Tensor:
            leaves.append(each)
            structures.append(LEAF)
        else:
            structures.append(flatten(each, leaves, take_apart, inside))
    return _structure((kind, tuple(structures)))


def unflatten(structure: Structure, leaves: Iterator[Leaf], put_together: PutTogether) -> Tree:
    """The inverse of `flatten`, with other leaves."""
    kind, parts = structure
    if kind is None:
        return next(leaves)
    members = [
        next(leaves) if each is LEAF else unflatten(each, leaves, put_together) for each in parts
    ]
    return put_together(kind, members)


def flatten_up_to(
    structure: Structure,
    value: Tree,
    members_as: Callable[[Structure, Tree], Sequence[Tree] | None],
) -> list[Tree] | None:
    """The parts of a tree at the leaves of the structure of another; ``None`` if it does not fit.

    ``members_as`` returns a container's members, as many as its structure has parts, or ``None``.
    """
    if structure.kind is None:
        return [value]
    members = members_as(structure, value)
    if members is None:
        return None
    found: list[Tree] = []
    for part, member in zip(structure.parts, members, strict=True):
        below = [member] if part is LEAF else flatten_up_to(part, member, members_as)
        if below is None:
            return None
        found += below
    return found


def members_of(values: Iterable[Tree]) -> Iterator[Leaf]:
    """The values, with the members of lists and tuples in their place."""
    for each in values:
        if isinstance(each, list | tuple):
            yield from members_of(each)
        else:
            yield each


def map_tensors(
    function: Callable[[Tensor], object], value: Tree, containers: Any = list | tuple
) -> Tree:
    """``value`` with ``function`` applied to each tensor in lists and tuples, or ``containers``.

    Subclasses are containers too. Those of dictionaries become plain dictionaries.
    """
    if isinstance(value, Tensor):
        return function(value)
    if not isinstance(value, containers):
        return value
    if isinstance(value, dict):
        return {key: map_tensors(function, each, containers) for key, each in value.items()}
    found = [map_tensors(function, each, containers) for each in value]
    return type(value)(*found) if hasattr(value, "_fields") else type(value)(found)
