"""Caches of `functools` that a traced function fills or reads.

A function with a cache runs at its first call only, so a trace in which it runs tells of no later
call: the first call is eager, and fills the cache. Programs compare the content of the caches that
they have read.
"""

from __future__ import annotations

import functools
import gc
import itertools
import sys
import weakref
from collections.abc import Iterator
from typing import Any

from flambeau.compile.errors import NotYetMadeError
from flambeau.compile.ownership import MACHINERY, is_of_library_module

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
        self._counts = [each.cache_info() for each in self._users]

    def refuse_filled(self) -> None:
        """Fail if a function of the user's with a cache has run.

        Raises:
            NotYetMadeError: One has run; the next call may find its result in the cache.
        """
        for cache, info in zip(self._users, self._counts, strict=True):
            if cache.cache_info().misses > info.misses:
                raise NotYetMadeError(
                    f"the compiled function calls {cache.__name__}(), which has a cache, and which "
                    "runs at each call; call it once before, or leave out its cache"
                )

    def read(self) -> Iterator[tuple[str, functools.partial[bool]]]:
        """The caches whose results were used: names, and functions that say whether they last."""
        for cache, info in zip(self._users, self._counts, strict=True):
            if cache.cache_info().hits > info.hits:
                content = _content(cache)
                before = [*content.items()]
                yield f"the cache of {cache.__name__}()", functools.partial(_lasts, content, before)

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
        # The references to `CACHED` besides those of its objects, at their fewest: frames of a
        # traceback hold some for a while.
        self._others = sys.maxsize
        self._caches: list[weakref.ref[Any]] = []

    def all(self) -> list[Any]:
        """All caches."""
        found = [each() for each in self._caches]
        # Each object refers to its class.
        if None in found or sys.getrefcount(CACHED) - len(found) != self._others:
            found = [each for each in gc.get_referrers(CACHED) if type(each) is CACHED]
            self._caches = [*map(weakref.ref, found)]
            self._others = min(self._others, sys.getrefcount(CACHED) - len(found))
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
