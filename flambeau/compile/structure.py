"""Containers taken apart into their members, and put together again with other members.

JAX takes trees apart too, but sorts the keys of dictionaries and knows no subclasses of Python's
containers. A program must see the caller's order and classes.
"""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, NamedTuple

import jax

from flambeau.compile.surroundings import is_own
from flambeau.core.pytree import TUPLES
from flambeau.core.tensor import Tensor

# A subclass of several of these counts as the first.
_BASES: tuple[Any, ...] = (
    OrderedDict, defaultdict, dict, list, deque, tuple, slice, MappingProxyType,
)  # fmt: skip
# JAX would take these apart by itself, with their keys sorted or compared loosely.
_DICTIONARIES = (dict, OrderedDict, defaultdict)


class Kind(NamedTuple):
    """What there is to know of a container besides its members.

    Attributes:
        cls: Its class.
        keys: The keys of a dictionary, in order.
        key_types: Their classes, since ``1 == True``.
        option: The ``maxlen`` of a deque, the ``default_factory`` of a defaultdict.
        attributes: What its ``__dict__`` is: ``"none"``, ``"itself"``, or ``"last"`` if that
            dictionary is its last member.
    """

    cls: Any
    keys: tuple[Any, ...] = ()
    key_types: tuple[type, ...] = ()
    option: Any = None
    attributes: str = "none"


class Structure(NamedTuple):
    """How leaves are held by containers.

    Attributes:
        tree: JAX's part of the structure.
        inner: Which leaves of that part are containers, with their kinds and the structures of the
            lists of their members.
    """

    tree: Any
    inner: tuple[tuple[int, Kind, Structure], ...]


@functools.lru_cache(maxsize=1024)
def _base_of(cls: type) -> Any:
    """The container of Python's that ``cls`` is a subclass of, if instances can be taken apart."""
    if issubclass(cls, Tensor) or cls in TUPLES:
        return None
    base = next((each for each in _BASES if issubclass(cls, each)), None)
    # The groups of an optimizer and the registers of modules are known by identity.
    is_register = is_own(cls) and base is not tuple
    has_slots = any(vars(each).get("__slots__") for each in cls.__mro__)
    return None if is_register or has_slots else base


def take_apart(value: Any) -> tuple[Kind, list[Any]] | None:
    """The kind and the members of a container; ``None`` for any other object."""
    base = _base_of(type(value))
    if base is None:
        return None
    keys: tuple[Any, ...] = ()
    option: Any = None
    if base is slice:
        members = [value.start, value.stop, value.step]
    elif base in _DICTIONARIES or base is MappingProxyType:
        # Past what a class of its own makes of it.
        keys, members = tuple(base.__iter__(value)), [*base.values(value)]
        option = value.default_factory if base is defaultdict else None
    else:
        members = [*base.__iter__(value)]
        option = value.maxlen if base is deque else None
    state, attributes = getattr(value, "__dict__", None), "none"
    if state is value:
        attributes = "itself"
    elif state:
        attributes = "last"
        members.append(state)
    return Kind(type(value), keys, tuple(map(type, keys)), option, attributes), members


def put_together(kind: Kind, members: list[Any]) -> Any:
    """The container that `take_apart` took apart, with other members; no code of its class runs."""
    cls, base = kind.cls, _base_of(kind.cls)
    state = members[-1] if kind.attributes == "last" else None
    content = members if state is None else members[:-1]
    if base is slice:
        return slice(*content)
    if base is MappingProxyType:
        return MappingProxyType(dict(zip(kind.keys, content, strict=True)))
    if base is tuple:
        made = tuple.__new__(cls, content)
    else:
        made = base.__new__(cls)
        if base in _DICTIONARIES:
            if base is defaultdict:
                defaultdict.__init__(made, kind.option)
            for key, each in zip(kind.keys, content, strict=True):
                base.__setitem__(made, key, each)
        elif base is deque:
            deque.__init__(made, content, kind.option)
        else:
            list.extend(made, content)
    if state is not None:
        vars(made).update(state)
    elif kind.attributes == "itself":
        made.__dict__ = made
    return made


def flatten(value: Any, leaves: list[Any]) -> Structure:
    """Add the leaves in ``value`` to ``leaves``, and give the structure around them."""
    parts, tree = jax.tree_util.tree_flatten(value, is_leaf=_is_leaf_of_jax)
    inner = []
    for i, part in enumerate(parts):
        found = None if isinstance(part, Tensor) else take_apart(part)
        if found is None:
            leaves.append(part)
        else:
            inner.append((i, found[0], flatten(found[1], leaves)))
    return Structure(tree, tuple(inner))


def _is_leaf_of_jax(value: Any) -> bool:
    return isinstance(value, Tensor) or type(value) in _DICTIONARIES


def unflatten(structure: Structure, leaves: Iterator[Any]) -> Any:
    """What `flatten` took apart, with other ``leaves``."""
    parts: list[Any] = []
    for i, kind, members in structure.inner:
        parts += [next(leaves) for _ in range(i - len(parts))]
        parts.append(put_together(kind, unflatten(members, leaves)))
    parts += [next(leaves) for _ in range(structure.tree.num_leaves - len(parts))]
    return jax.tree_util.tree_unflatten(structure.tree, parts)
