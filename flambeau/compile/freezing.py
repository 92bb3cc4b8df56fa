"""Values in a form that compares, and that later changes of them do not reach."""

from __future__ import annotations

import ctypes
import io
from array import array
from collections import ChainMap, OrderedDict, deque
from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

import numpy as np

from flambeau.compile.ownership import module_of, state_of
from flambeau.core.identity import Same, exactly
from flambeau.core.pytree import is_tuple

_BY_VALUE = (int, float, bool, complex, str, bytes, type(None), np.generic)
# Where the classes of the common containers are defined.
_PLAIN = ("builtins", "collections", "numpy")
_OF_BYTES: tuple[Any, ...] = (
    bytearray, array, memoryview, ctypes.Structure, ctypes.Union, ctypes.Array,
    ctypes.c_int.__base__,
)  # fmt: skip
_CHANGEABLE = (dict, list, deque, set, np.ndarray, *_OF_BYTES)
_VIEWS = (type({}.keys()), type({}.values()), type({}.items()))
_WITH_ATTRIBUTES = (dict, list, set, frozenset, tuple, deque, np.ndarray)
# Anything else compares by identity.
_BY_CONTENT = (
    *_WITH_ATTRIBUTES, *_OF_BYTES, *_VIEWS, MappingProxyType, ChainMap, io.BytesIO, io.StringIO,
)  # fmt: skip
# Types whose values, if they are of no subclass, compare as they are.
_EXACT = {int, bool, str, bytes, type(None)}


def freeze(value: Any) -> tuple[Any, Any]:
    """A value in a form that compares and that later changes of it do not reach.

    Returns:
        The type of a container, ``None`` for anything else; and the content.
    """
    if type(value) in _EXACT:
        return None, (type(value), value)
    if isinstance(value, _BY_VALUE):
        return (np.void if isinstance(value, np.void) else None), exactly(value)
    if not isinstance(value, _BY_CONTENT):
        return None, Same(value)
    kind, content = _content_of(value)
    if has_own_kind(value) and state_of(value):
        # Its attributes are its own.
        return kind, (Same(value), content)
    return kind, content


def has_own_kind(value: Any) -> bool:
    """Whether ``value`` is a container of a class of its own."""
    return isinstance(value, _WITH_ATTRIBUTES) and module_of(type(value)) not in _PLAIN


def _content_of(value: Any) -> tuple[Any, Any]:
    if isinstance(value, dict):
        # Bypass methods that a subclass overrides.
        base: Any = OrderedDict if isinstance(value, OrderedDict) else dict
        keys, values = base.keys(value), base.values(value)
        return dict, tuple(zip(map(_key, keys), map(freeze, values), strict=True))
    if isinstance(value, list | deque) or is_tuple(value):
        frozen = tuple(map(freeze, value))
        fixed = isinstance(value, tuple) and all(kind is None for kind, _ in frozen)
        return None if fixed else type(value), frozen
    if isinstance(value, set | frozenset):
        return set, frozenset(map(freeze, value))
    if isinstance(value, np.ndarray):
        of_objects = value.dtype == object
        content = tuple(map(freeze, value.flat)) if of_objects else value.tobytes()
        return np.ndarray, (value.dtype, value.shape, content)
    if isinstance(value, _OF_BYTES):
        return type(value), (getattr(value, "typecode", ""), bytes(value))
    if isinstance(value, MappingProxyType | ChainMap):
        return type(value), tuple((_key(name), freeze(each)) for name, each in value.items())
    if isinstance(value, _VIEWS):
        return type(value), freeze(value.mapping)
    if isinstance(value, io.BytesIO | io.StringIO) and not value.closed:
        return type(value), (value.tell(), value.getvalue())
    return None, Same(value)


def sharing_in(values: Iterable[Any]) -> tuple[int, ...]:
    """Which of the containers that can change, in ``values`` and inside each other, are the same.

    Returns:
        A number for each place of a container, in the order of `freeze`: equal numbers for
        one and the same container. Values that `freeze` alike have as many.
    """
    numbers: dict[int, int] = {}
    found: list[int] = []
    # Held while it lasts, so that no two of them have the same id.
    waiting = [*values]
    for each in waiting:
        if isinstance(each, _CHANGEABLE):
            is_new = id(each) not in numbers
            found.append(numbers.setdefault(id(each), len(numbers)))
            if not is_new:
                continue
        if isinstance(each, dict):
            waiting += dict.values(each)
        elif isinstance(each, list | deque) or is_tuple(each):
            waiting += tuple.__iter__(each) if isinstance(each, tuple) else each
        elif isinstance(each, MappingProxyType | ChainMap):
            waiting += each.values()
    return tuple(found)


def _key(name: Any) -> Any:
    return name if type(name) is str else freeze(name)
