"""The handle that a registration returns; it removes the hook."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from flambeau.core.support import world

_next_id = itertools.count()


class RemovableHandle:
    """Removes one hook from the dictionaries it was registered in.

    Works as a context manager that removes the hook on exit, and survives pickling together with
    the dictionaries it refers to.

    Args:
        hooks_dict: The dictionary that holds the hook under this handle's ``id``.
        extra_dict: Further dictionaries with an entry of the same ``id``.
    """

    id: int
    hooks_dict_ref: weakref.ReferenceType[Any]
    extra_dict_ref: tuple[weakref.ReferenceType[Any], ...]

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.id = next(_next_id)
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        extra = () if extra_dict is None else extra_dict
        extra = extra if isinstance(extra, list | tuple) else (extra,)
        self.extra_dict_ref = tuple(weakref.ref(each) for each in extra)

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        world.bump()
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        hooks, self.id, extra = state
        # A dictionary that was not pickled along leaves the handle with nothing to remove.
        self.hooks_dict_ref = weakref.ref(HookDict() if hooks is None else hooks)
        self.extra_dict_ref = tuple(weakref.ref(each) for each in extra if each is not None)
        global _next_id
        _next_id = itertools.count(max(next(_next_id), self.id + 1))

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class HookDict(dict[int, Any]):
    """A dictionary of hooks in order of registration, which a handle can refer to weakly."""

    __slots__ = ("__weakref__",)
