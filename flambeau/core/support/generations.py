"""Dictionaries that evict entries which have not been used recently."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Generations(dict[Any, Any]):
    """A dictionary whose entries live as long as they are in use.

    Once `bound` entries have been made, in all such dictionaries together, or as many programs as
    memory has room for (`programs`), every dictionary puts its entries aside. A lookup brings an
    entry back; entries that are still aside the next time are dropped. So a lookup costs no more
    than in a plain dictionary, and there are at most about twice as many entries as the bound.

    Read with ``d[key]``, which also finds entries set aside; ``get`` and ``in`` do not.
    """

    #: The number of new entries before the older ones become the old generation.
    bound: ClassVar[int] = 4096

    _made: ClassVar[int] = 0
    _all: ClassVar[list[weakref.ref[Generations]]] = []

    def __init__(self) -> None:
        super().__init__()
        self._aside: dict[Any, Any] | None = None

    def __missing__(self, key: Any) -> Any:
        aside = self._aside
        if not aside:
            raise KeyError(key)
        value = aside.pop(key)
        super().__setitem__(key, value)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._aside is None:
            self._aside = {}
            Generations._all.append(weakref.ref(self))
        super().__setitem__(key, value)
        Generations._made += 1
        if Generations._made > Generations.bound:
            put_aside()

    def clear(self) -> None:
        super().clear()
        if self._aside:
            self._aside.clear()


def put_aside() -> None:
    """Begin a new generation in every dictionary, and drop the rest of the last one."""
    Generations._made = 0
    living = []
    for reference in Generations._all:
        each = reference()
        if each is not None:
            each._aside = dict(each)
            dict.clear(each)
            living.append(reference)
    Generations._all[:] = living


class remembered(Generic[Given, Result]):
    """`functools.cache` for positional arguments that drops results as `Generations` does.

    Arguments that compare equal and are of different types count as the same.
    """

    def __init__(self, function: Callable[Given, Result]) -> None:
        self.function = function
        self.results: Generations = Generations()
        functools.update_wrapper(self, function)

    def __call__(self, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """The function's result for these arguments, cached or computed."""
        assert not kwargs
        try:
            return self.results[args]
        except KeyError:
            result = self.results[args] = self.function(*args, **kwargs)
            return result

    def cache_clear(self) -> None:
        """Clear all results."""
        self.results.clear()
