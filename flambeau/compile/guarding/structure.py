"""Containers as trees: taken apart into leaves, and put together with other leaves.

Subclasses of Python's containers are containers here, and so are the classes that JAX knows. Order
and classes stay those of the caller.
"""

from __future__ import annotations

import copyreg
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from dataclasses import is_dataclass
from types import MappingProxyType
from typing import Any

import jax

from flambeau.compile.of_class import of_class
from flambeau.compile.ownership import is_module, is_own
from flambeau.core.support import naming
from flambeau.core.values import trees
from flambeau.core.values.pytree import OWN_PARTS
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trees import Kind, Structure

# A subclass of several of these counts as the first.
_BASES: tuple[Any, ...] = (
    OrderedDict, defaultdict, dict, list, deque, tuple, slice, MappingProxyType,
)  # fmt: skip
_DICTIONARIES = (dict, OrderedDict, defaultdict)
_LEAVES = (Tensor, int, float, complex, str, bytes, type(None))


@of_class
def _base_of(cls: type) -> Any:
    """The container class of Python's above ``cls``, if instances can be taken apart."""
    if issubclass(cls, Tensor) or cls in OWN_PARTS:
        return None
    base = next((each for each in _BASES if issubclass(cls, each)), None)
    # The groups of an optimizer and the registers of modules are compared by identity.
    is_register = is_own(cls) and base is not tuple
    has_slots = any(vars(each).get("__slots__") for each in cls.__mro__)
    return None if is_register or has_slots else base


def take_apart(value: Any) -> tuple[Kind, list[Any]] | None:
    """The kind and the members of a container; ``None`` for any other object."""
    cls = type(value)
    if cls is list or cls is tuple:
        return (trees.LIST if cls is list else trees.TUPLE), [*value]
    if cls is dict:
        return Kind(dict, tuple(value), None, tuple(map(type, value))), [*value.values()]
    if isinstance(value, _LEAVES):
        return _parts_of(value) if cls in OWN_PARTS else None
    if cls not in _BASES and not jax.tree_util.all_leaves([value]):
        return _parts_of(value)
    base = _base_of(cls)
    if base is None:
        return None
    keys: tuple[Any, ...] = ()
    option: Any = None
    if base is slice:
        members = [value.start, value.stop, value.step]
    elif base in _DICTIONARIES or base is MappingProxyType:
        # Bypass methods that a subclass overrides.
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
    return Kind(cls, keys, option, tuple(map(type, keys)), attributes), members


def _parts_of(value: Any) -> tuple[Kind, list[Any]]:
    """The kind and the members of a container that JAX takes apart."""
    members, tree = jax.tree_util.tree_flatten(value, is_leaf=lambda each: each is not value)
    return Kind(type(value), option=tree), members


def consists_of_attributes(value: Any) -> bool:
    """Whether an object like ``value`` can be created from its attributes alone."""
    cls = type(value)
    is_known = cls.__new__ is object.__new__ and not is_module(value)
    # Nothing would find another object by a weak reference.
    return is_known and _has_attributes_only(cls) and not weakref.getweakrefcount(value)


@of_class
def _has_attributes_only(cls: type) -> bool:
    if is_dataclass(cls):
        return True
    if is_own(cls) and not naming.module_of(cls).startswith("flambeau.distributions"):
        return False
    try:
        # As `copy.copy` creates an object; it refuses those of extensions.
        return object.__reduce_ex__(object.__new__(cls), 2)[0] is copyreg.__newobj__  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 (any method of a user's class may fail)
        return False


def put_together(kind: Kind, members: list[Any]) -> Any:
    """The container of a kind, the inverse of `take_apart`.

    No code of its class runs, except functions that were registered with JAX.
    """
    if isinstance(kind.option, jax.tree_util.PyTreeDef):
        return jax.tree_util.tree_unflatten(kind.option, members)
    cls, base = kind.cls, _base_of(kind.cls)
    state = members[-1] if kind.attributes == "last" else None
    content = members if state is None else members[:-1]
    if base is slice:
        return slice(*content)
    if base is MappingProxyType:
        return MappingProxyType(dict(zip(kind.keys, content, strict=True)))
    if base is tuple:
        new = tuple.__new__(cls, content)
    else:
        new = base.__new__(cls)
        if base in _DICTIONARIES:
            if base is defaultdict:
                defaultdict.__init__(new, kind.option)
            for key, each in zip(kind.keys, content, strict=True):
                base.__setitem__(new, key, each)
        elif base is deque:
            deque.__init__(new, content, kind.option)
        else:
            list.extend(new, content)
    if state is not None:
        vars(new).update(state)
    elif kind.attributes == "itself":
        new.__dict__ = new
    return new


def flatten(value: Any, leaves: list[Any]) -> Structure:
    """Append the leaves in ``value`` to ``leaves``; return the structure around them.

    If a container in it contains itself, ``value`` is one leaf.
    """
    count = len(leaves)
    try:
        return trees.flatten(value, leaves, take_apart)
    except trees.CircularError:
        leaves[count:] = [value]
        return trees.LEAF


def unflatten(structure: Structure, leaves: Iterator[Any]) -> Any:
    """The inverse of `flatten`, with other ``leaves``."""
    return trees.unflatten(structure, leaves, put_together)


def classes_in(structure: Structure) -> Iterator[type]:
    """The classes of the containers in a structure."""
    if structure.kind is not None:
        yield structure.kind.cls
        for each in structure.parts:
            yield from classes_in(each)
