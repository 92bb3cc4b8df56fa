"""Objects that a function creates at each call.

Objects of classes other than Python's containers are created empty, and get their attributes
later. So objects may hold each other, in cycles and in chains of any length.
"""

from __future__ import annotations

from array import array
from collections import UserDict, UserList
from collections.abc import AsyncIterator, Coroutine, Iterator
from types import MemberDescriptorType, SimpleNamespace
from typing import Any

import numpy as np

from flambeau.compile import structure
from flambeau.compile.contents import KINDS
from flambeau.compile.ownership import (
    in_class,
    is_module,
    is_of_library_class,
    is_own,
    state_of,
)
from flambeau.core.pytree import is_tuple

_COPIED = (bytearray, array, np.ndarray)
_HEAP = 1 << 9
# Python's classes whose objects consist of their attributes.
_OF_ATTRIBUTES = (SimpleNamespace, UserDict, UserList)


def is_container(value: Any) -> bool:
    """Whether ``value`` is a tuple, a set, a list or a dictionary of Python's own classes."""
    if type(value) in KINDS or is_tuple(value):
        return not hasattr(value, "numel")
    return type(value) is set


def has_parts(value: Any) -> bool:
    """Whether `structure.take_apart` takes ``value`` apart; a slice cannot change."""
    return not isinstance(value, slice) and structure.take_apart(value) is not None


def has_only_attributes(value: Any) -> bool:
    """Whether ``value`` is an object of a user's class that consists of its attributes."""
    cls = type(value)
    if cls in _OF_ATTRIBUTES:
        return True
    is_plain = bool(cls.__flags__ & _HEAP) and cls.__new__ is object.__new__
    is_strange = is_own(cls) or is_of_library_class(cls) or is_module(value)
    return is_plain and not is_strange


def is_copied(value: Any) -> bool:
    """Whether ``value`` consists of mutable bytes, so each call can copy it."""
    return isinstance(value, _COPIED)


def cannot_be_made(value: Any) -> bool:
    """Whether ``value`` is used up by its first use and cannot be copied."""
    return isinstance(value, Iterator | Coroutine | AsyncIterator)


def empty(cls: type) -> Any:
    """A new object of ``cls`` without attributes; no code of the class runs."""
    return SimpleNamespace() if cls is SimpleNamespace else object.__new__(cls)


def fill(obj: Any, attributes: dict[str, Any]) -> None:
    """Set the attributes of a new object; no code of its class runs."""
    for name, each in attributes.items():
        member = in_class(type(obj), name)
        if isinstance(member, MemberDescriptorType):
            member.__set__(obj, each)
        else:
            state_of(obj)[name] = each


def hashed_in(value: Any) -> Iterator[Any]:
    """The members of a container that Python hashes when it creates the container."""
    waiting = [*value] if isinstance(value, dict | set) else []
    for each in waiting:
        if isinstance(each, tuple | frozenset):
            waiting += each
        elif type(each).__hash__ is not object.__hash__:
            yield each
