"""Facts of classes, which are found once and do not keep a class alive."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

__all__: list[str] = []

Fact = TypeVar("Fact")


def of_class(function: Callable[[Any], Fact]) -> Callable[[Any], Fact]:
    """Remember the results of a function of a class, which must not refer to the class.

    A cache of `functools` would refer to it: a class that a user defines again would stay, and
    `compile.reading.caches` counts the references to one class.

    >>> from flambeau.compile.of_class import of_class
    >>> of_class(lambda cls: cls.__name__)(int)
    'int'
    """
    known: weakref.WeakKeyDictionary[Any, Fact] = weakref.WeakKeyDictionary()

    @functools.wraps(function)
    def remembered(cls: Any) -> Fact:
        try:
            return known[cls]
        except KeyError:
            found = known[cls] = function(cls)
            return found

    return remembered
