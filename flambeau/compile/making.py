"""Objects that a function makes at each call, and how a program makes them again.

Objects of other classes than Python's containers are made in two steps: empty objects first, and
then their attributes. So objects may hold each other, in cycles and in chains of any length.
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
# Classes of Python's that have attributes and nothing else.
_OF_ATTRIBUTES = (SimpleNamespace, UserDict, UserList)


def is_container(value: Any) -> bool:
    """Whether ``value`` is a container that `pickle` takes apart itself."""
    if type(value) in KINDS or is_tuple(value):
        return not hasattr(value, "numel")
    return type(value) is set


def has_parts(value: Any) -> bool:
    """Whether ``value`` is taken apart by `structure.take_apart`, and is not fixed for good."""
    return not isinstance(value, slice) and structure.take_apart(value) is not None


def has_fields(value: Any) -> bool:
    """Whether ``value`` is of a dataclass, so that its attributes are all there is to it."""
    return structure.fields_of(value) is not None


def has_only_attributes(value: Any) -> bool:
    """Whether ``value`` is an object of a user's class that has attributes and nothing else."""
    cls = type(value)
    if cls in _OF_ATTRIBUTES:
        return True
    is_plain = bool(cls.__flags__ & _HEAP) and cls.__new__ is object.__new__
    is_strange = is_own(cls) or is_of_library_class(cls) or is_module(value)
    return is_plain and not is_strange


def is_copied(value: Any) -> bool:
    """Whether ``value`` consists of bytes that may change, which a copy has as well."""
    return isinstance(value, _COPIED)


def cannot_be_made(value: Any) -> bool:
    """Whether ``value`` changes with its use, in a way that no copy can begin again."""
    return isinstance(value, Iterator | Coroutine | AsyncIterator)


def empty(cls: type) -> Any:
    """An object of a class that has no attributes yet; no code of the class runs."""
    return SimpleNamespace() if cls is SimpleNamespace else object.__new__(cls)


def fill(made: Any, attributes: dict[str, Any]) -> None:
    """Give an empty object its attributes; no code of its class runs."""
    for name, each in attributes.items():
        found = in_class(type(made), name)
        if isinstance(found, MemberDescriptorType):
            found.__set__(made, each)
        else:
            state_of(made)[name] = each


def hashed_in(value: Any) -> Iterator[Any]:
    """The members of a container that Python hashes when the container is made."""
    waiting = [*value] if isinstance(value, dict | set) else []
    for each in waiting:
        if isinstance(each, tuple | frozenset):
            waiting += each
        elif type(each).__hash__ is not object.__hash__:
            yield each
