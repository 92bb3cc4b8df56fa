"""Changes of flambeau's own objects, such as a GradScaler, by a traced function.

Users do not read the attributes of these objects, so no program follows them. A trace may fill
missing ones, as a distribution does that computes its variance when it is first read, and they
are removed again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.compile.errors import CompileError
from flambeau.compile.ownership import state_of
from flambeau.core.support import naming
from flambeau.core.support.identity import MISSING
from flambeau.core.values.before import Before

# Packages whose objects run on their own, or describe programs.
_LEFT_OUT = ("compile", "core", "futures", "multiprocessing", "nn", "profiler", "utils")


class OwnState:
    """The attributes of flambeau's own objects, and the content of their containers.

    Args:
        before: Remembers them from before the trace.
    """

    def __init__(self, before: Before) -> None:
        self._before = before
        self._objects: dict[int, Any] = {}
        self._containers: dict[int, Any] = {}

    def know(self, value: Any) -> None:
        """Remember an object."""
        room = naming.module_of(type(value)).split(".")[1:2]
        if id(value) in self._objects or (room and room[0] in _LEFT_OUT):
            return
        self._objects[id(value)] = value
        self._before.note(value, state_of)
        waiting = [*state_of(value).values()]
        for each in waiting:
            if type(each) in (dict, list, set) and id(each) not in self._containers:
                self._containers[id(each)] = each
                self._before.note(each)
                waiting += each.values() if isinstance(each, dict) else each

    def settle(self, is_of_trace: Callable[[Any], bool], kept: set[int]) -> None:
        """Remove the values that a trace has filled in and that belong to it.

        Args:
            is_of_trace: Whether a value belongs to the trace.
            kept: The ids of objects whose attributes each call sets.

        Raises:
            CompileError: The trace has replaced earlier values.
        """
        for value in self._objects.values():
            state, before = state_of(value), self._before.of(value, state_of)
            is_kept = not kept.isdisjoint((id(value), id(state)))
            if is_kept or not self._before.is_changed(value, state_of):
                continue
            for name, each in [*state.items()]:
                if each is before.get(name, MISSING) or not is_of_trace(each):
                    continue
                if name in before:
                    self._refuse(value)
                del state[name]
        for container in self._containers.values():
            if self._before.is_changed(container) and is_of_trace(container):
                self._refuse(self._holder_of(container))

    def _holder_of(self, container: Any) -> Any:
        for value in self._objects.values():
            if any(each is container for each in self._before.of(value, state_of).values()):
                return value
        return container

    def _refuse(self, value: Any) -> None:
        raise CompileError(
            f"the compiled function calls a method of {type(value).__name__} that keeps a tensor "
            "of the call for later methods, and no program does that; call the method outside of "
            "the compiled function, after it"
        )
