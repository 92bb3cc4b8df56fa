"""Frozen values: a form of any value that can be compared, and that later changes do not reach."""

from __future__ import annotations

import ctypes
import io
from array import array
from collections import ChainMap, OrderedDict, deque
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from flambeau.compile.of_class import of_class
from flambeau.compile.ownership import is_own, module_of, state_of
from flambeau.core.support.identity import Same, exactly
from flambeau.core.values.pytree import OWN_PARTS, is_tuple

_BY_VALUE = (int, float, bool, complex, str, bytes, type(None), np.generic)
# The modules that define the common containers.
_PLAIN = ("builtins", "collections", "numpy")
#: Objects that are views of memory.
OF_MEMORY: tuple[Any, ...] = (
    memoryview,
    ctypes.Structure,
    ctypes.Union,
    ctypes.Array,
    ctypes.c_int.__base__,
)
_OF_BYTES: tuple[Any, ...] = (bytearray, array, *OF_MEMORY)
_CHANGEABLE = (dict, list, deque, set, np.ndarray, *_OF_BYTES)
_VIEWS = (type({}.keys()), type({}.values()), type({}.items()))
_WITH_ATTRIBUTES = (dict, list, set, frozenset, tuple, deque, np.ndarray)
# Types whose values compare by ``==``; values of subclasses may not.
_EXACT = {int, bool, str, bytes, type(None)}

# The type of a container, or ``None`` for any other value; and the content.
Frozen: TypeAlias = tuple[Any, Any]


def freeze(value: Any) -> Frozen:
    """``value`` in a form that can be compared, and that later changes do not reach."""
    cls = type(value)
    if cls in _EXACT:
        return None, (cls, value)
    form = _form_of(cls)
    if form is None:
        return None, Same(value)
    if has_own_kind(cls) and state_of(value):
        # Its attributes are not part of the content, so its identity counts too.
        kind, content = form(value)
        return kind, (Same(value), content)
    return form(value)


@of_class
def has_own_kind(cls: type) -> bool:
    """Whether ``cls`` is a user's class of containers."""
    return issubclass(cls, _WITH_ATTRIBUTES) and not (is_own(cls) or module_of(cls) in _PLAIN)


@of_class
def _form_of(cls: type) -> Callable[[Any], Frozen] | None:
    """The function that freezes instances of a class; ``None`` if they compare by identity."""
    return next((form for kinds, form in _FORMS if issubclass(cls, kinds)), None)


def has_content(value: Any) -> bool:
    """Whether ``value`` is compared by content that may change."""
    return _form_of(type(value)) not in (None, _number)


def _number(value: Any) -> Frozen:
    return (np.void if isinstance(value, np.void) else None), exactly(value)


def _dictionary(value: Any) -> Frozen:
    # Bypass methods that a subclass overrides.
    base: Any = OrderedDict if isinstance(value, OrderedDict) else dict
    return dict, _items(base.items(value))


def _sequence(value: Any) -> Frozen:
    return type(value), tuple(map(freeze, value))


def _tuple(value: Any) -> Frozen:
    if type(value) in OWN_PARTS:
        return None, Same(value)
    frozen = tuple(map(freeze, value))
    return (None if all(kind is None for kind, _ in frozen) else type(value)), frozen


def _set(value: Any) -> Frozen:
    return set, frozenset(map(freeze, value))


def _array(value: Any) -> Frozen:
    of_objects = value.dtype == object
    content = tuple(map(freeze, value.flat)) if of_objects else value.tobytes()
    return np.ndarray, (value.dtype, value.shape, content)


def _bytes(value: Any) -> Frozen:
    return type(value), (getattr(value, "typecode", ""), bytes(value))


def _mapping(value: Any) -> Frozen:
    return type(value), _items(value.items())


def _view(value: Any) -> Frozen:
    return type(value), freeze(value.mapping)


def _stream(value: Any) -> Frozen:
    return (None, Same(value)) if value.closed else (type(value), (value.tell(), value.getvalue()))


_FORMS: tuple[tuple[tuple[Any, ...], Callable[[Any], Frozen]], ...] = (
    (_BY_VALUE, _number),
    ((dict,), _dictionary),
    ((list, deque), _sequence),
    ((tuple,), _tuple),
    ((set, frozenset), _set),
    ((np.ndarray,), _array),
    (_OF_BYTES, _bytes),
    ((MappingProxyType, ChainMap), _mapping),
    (_VIEWS, _view),
    ((io.BytesIO, io.StringIO), _stream),
)


def members_of(value: Any) -> Iterable[Any]:
    """The members of a container, except the keys of a dictionary."""
    if isinstance(value, dict):
        return dict.values(value)
    if isinstance(value, tuple):
        return tuple.__iter__(value) if is_tuple(value) else ()
    if isinstance(value, np.ndarray):
        return value.flat if value.dtype == object else ()
    if isinstance(value, MappingProxyType | ChainMap):
        return value.values()
    return value if isinstance(value, (list, deque, set, frozenset, *_VIEWS)) else ()


def sharing_in(values: Iterable[Any]) -> tuple[int, ...]:
    """The identities of the mutable containers in ``values`` and inside each other.

    Returns:
        One number for each place that holds a container, in the order of `freeze`: places with
        equal numbers hold the same container. Values that `freeze` alike have equally many places.
    """
    numbers: dict[int, int] = {}
    identities: list[int] = []
    # Held during the loop, so that no two of them get the same id.
    waiting = [*values]
    for each in waiting:
        if isinstance(each, _CHANGEABLE):
            is_new = id(each) not in numbers
            identities.append(numbers.setdefault(id(each), len(numbers)))
            if not is_new:
                continue
        if not isinstance(each, (set, frozenset, np.ndarray, *_VIEWS)):
            waiting += members_of(each)
    return tuple(identities)


def _items(items: Iterable[tuple[Any, Any]]) -> tuple[Any, ...]:
    return tuple([(key if type(key) is str else freeze(key), freeze(each)) for key, each in items])
