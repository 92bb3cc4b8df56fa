"""Caches of `functools` that a traced function fills or reads.

A function with a cache runs at its first call only, so a trace in which it runs tells of no later
call. The function is traced again, with the results of the first trace in the cache; what they
leave to do must be the same. Programs compare the content of the caches that they have read.
"""

from __future__ import annotations

import functools
import gc
import itertools
import sys
import weakref
from collections.abc import Iterator
from typing import Any, NoReturn

from flambeau.compile.errors import NotYetMadeError
from flambeau.compile.ownership import MACHINERY, is_of_library_module
from flambeau.compile.reaching import reaches_trace
from flambeau.core.cell import Cell

#: The class of functions with a cache.
CACHED: Any = type(functools.lru_cache(lambda: None))
_NOTHING = object()
_LEFT_OUT = {*MACHINERY, *sys.stdlib_module_names} - {"__main__"}


class Caches:
    """The caches of the user's code and of packages, with their content before a trace."""

    def __init__(self) -> None:
        # Dictionaries keep their order, so results that are added come after the last one.
        self._before = {cache: next(reversed(_content(cache)), _NOTHING) for cache in _caches()}
        self._users = [each for each in self._before if not is_of_library_module(_home(each))]
        self._first: Any = None
        #: The Cells of results that the first trace has left, with their values.
        self.settled: set[Cell] = set()
        self.begin()

    def begin(self) -> None:
        """Begin a trace.

        Raises:
            NotYetMadeError: The first trace has left something in a cache that is its own.
        """
        if self._first is not None and any(reaches_trace(e, lambda _: False) for e in self._users):
            self._refuse(self._first[0], "gives a container or an object from outside")
        self._counts = [each.cache_info() for each in self._users]

    def filled(self) -> str:
        """The name of a function of the user's that has run, with a cache; "" if there is none."""
        counts = zip(self._users, self._counts, strict=True)
        return next((e.__name__ for e, info in counts if e.cache_info().misses > info.misses), "")

    def read(self) -> Iterator[tuple[str, functools.partial[bool]]]:
        """The caches whose results were used: names, and functions that say whether they last."""
        for cache, info in zip(self._users, self._counts, strict=True):
            if cache.cache_info().hits > info.hits:
                content = _content(cache)
                before = [*content.items()]
                yield f"the cache of {cache.__name__}()", functools.partial(_lasts, content, before)

    def traced(self, recording: Any) -> bool:
        """Whether the function has to be traced again.

        Raises:
            NotYetMadeError: Only a first call does what the first trace has done.
        """
        filled, left = self.filled(), _left_by(recording)
        if self._first is None and filled:
            self._first = filled, left
            return True
        if self._first is not None:
            name, (cells, *counts) = self._first
            is_less = not cells <= left[0] or any(map(int.__lt__, left[1:], counts))
            if filled or is_less or not self.settled.isdisjoint(left[0]):
                reason = "runs at each call" if filled else "changes something when it first runs"
                self._refuse(filled or name, reason)
        return False

    def _refuse(self, name: str, reason: str) -> NoReturn:
        self.put_back()
        raise NotYetMadeError(
            f"the compiled function calls {name}(), which has a cache, and which {reason}; call it "
            "once before, or leave out its cache"
        )

    def put_back(self) -> bool:
        """Take out the results that were added; return whether there are any."""
        is_filled = False
        for cache, last in self._before.items():
            content = _content(cache)
            new = _keys_after(last, content)
            is_filled = is_filled or bool(new)
            if new and len(new) == len(content):
                cache.cache_clear()
                continue
            for key in new:
                del content[key]
        return is_filled


class _Known:
    """The caches of the process, which are looked for among all objects."""

    def __init__(self) -> None:
        self._count = 0
        self._caches: list[weakref.ref[Any]] = []

    def all(self) -> list[Any]:
        """All caches."""
        found = [each() for each in self._caches]
        # Each object refers to its class.
        if None in found or sys.getrefcount(CACHED) != self._count:
            found = [each for each in gc.get_referrers(CACHED) if type(each) is CACHED]
            self._caches = [*map(weakref.ref, found)]
            self._count = sys.getrefcount(CACHED)
        return found


_KNOWN = _Known()


def _caches() -> Iterator[Any]:
    for each in _KNOWN.all():
        if _home(each).partition(".")[0] not in _LEFT_OUT:
            yield each


def _home(cache: Any) -> str:
    return str(getattr(cache, "__module__", ""))


def _content(cache: Any) -> dict[Any, Any]:
    """The dictionary in which a cache keeps its results."""
    own = vars(cache)
    # The last one: those before are results.
    return [e for e in gc.get_referents(cache) if type(e) is dict and e is not own][-1]


def _keys_after(last: Any, content: dict[Any, Any]) -> list[Any]:
    return [*itertools.takewhile(lambda key: key is not last, reversed(content))]


def results_of(cache: Any) -> Iterator[Any]:
    """The results in a cache, and some of their keys."""
    content = _content(cache)
    yield from content.values()
    for each in gc.get_referents(cache):
        if each is content:
            return
        yield each


def _lasts(content: dict[Any, Any], before: list[tuple[Any, Any]]) -> bool:
    now = {(id(key), id(value)) for key, value in content.items()}
    return all((id(key), id(value)) in now for key, value in before)


def _left_by(recording: Any) -> tuple[set[Cell], int, int, int]:
    """The Cells that a trace writes to, and the numbers of its other effects."""
    cells = {each for each in recording.writes if isinstance(each, Cell)}
    keeping = recording.keeping
    return cells, len(keeping.changes), len(keeping.setting), len(recording.effects)
