"""Tensors of a trace that outlive it, for example in a cache.

Each call of a program creates the tensors that the function returns or stores. A tensor of the
trace that is kept in another way, such as by a generator, would never have a value.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from types import CellType, FrameType, FunctionType, GeneratorType
from typing import Any

from jax.core import Tracer

from flambeau.compile.errors import CompileError, NotYetMadeError
from flambeau.compile.ownership import is_own, state_of
from flambeau.compile.reading.caches import CACHED, Caches
from flambeau.compile.source import FILE
from flambeau.core.programs.finishing import is_full
from flambeau.core.support import debugger, jax_private, naming
from flambeau.core.support.tracebacks import OWN_FOLDERS
from flambeau.core.values.cell import Cell
from flambeau.core.values.tensor import Tensor

# Look for a holder with a name at most this many references away.
_FAR = 5
# A container without a name is most likely a part of flambeau's own work.
_ANYWHERE = {list, tuple, dict}
# The modules of objects that a program consists of.
_OF_PROGRAMS = ("flambeau.compile", "flambeau.core.support.identity")


@contextlib.contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the garbage collector, so that all objects of the block are young at its end.

    Frozen objects are unfrozen: otherwise the collector does not list them as caches, or as holders
    of a tensor.
    """
    gc.unfreeze()
    is_enabled = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if is_enabled:
            gc.enable()


class Leftovers:
    """The tensors that one trace of JAX leaves; made while it runs.

    Args:
        caches: The caches of `functools`.
    """

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._collections = _collections()
        trace = jax_private.running_trace()
        self._trace: Callable[[], Any] = (lambda: None) if trace is None else weakref.ref(trace)

    def refuse(self) -> None:
        """Fail if tensors are left after everything else of the trace was released.

        Raises:
            CompileError: A tensor is left; a `NotYetMadeError` if a cache holds it, since the eager
                call that fills the cache leaves a tensor there that later calls use.
        """
        cells = self._cells()
        # Only references from elsewhere count, not those of garbage, which is most likely young.
        for generation in (1, 2):
            if cells:
                found = [*map(weakref.ref, cells)]
                cells.clear()
                gc.collect(generation)
                cells = [cell for each in found if (cell := each()) is not None]
        place = ""
        while cells and not place:
            # Taken out, so that the list does not count as a holder.
            place = _place_of(cells.pop())
        if place:
            kind = NotYetMadeError if self._caches.put_back() else CompileError
            raise kind(
                f"the compiled function leaves a tensor in {place}, where no later call replaces "
                "it; return the tensor, set it as an attribute, or call the function that keeps "
                "it once before"
            )

    def _cells(self) -> list[Cell]:
        """The Cells that hold tracers of the trace."""
        trace = self._trace()
        if trace is None:
            return []
        is_all_young = self._collections == _collections()
        objects = gc.get_objects(0) + gc.get_objects(1) if is_all_young else gc.get_objects()
        return [each for each in objects if type(each) is Cell and _is_of(trace, each)]


def _collections() -> list[int]:
    """How often Python has moved objects to the oldest generation."""
    return [each["collections"] for each in gc.get_stats()[1:]]


def _is_of(trace: Any, cell: Cell) -> bool:
    """Whether a Cell holds a tracer of ``trace``."""
    if not is_full(cell) or not isinstance(cell.array, Tracer):
        return False
    return any(each is trace for each in gc.get_referents(cell.array))


def let_go(recording: Any) -> Callable[[], None]:
    """Release a finished trace; return the function that fails if tensors of it are left."""
    trace, leftovers = recording.trace, recording.leftovers
    for each in (trace.facts, trace, recording):
        vars(each).clear()
    return leftovers.refuse


def _place_of(cell: Cell) -> str:
    """The name of the place that keeps a Cell alive; "" if only the program itself does."""
    running, kind = {*map(id, _stack())}, ""
    near: list[Any] = [cell]
    for _ in range(_FAR):
        own, held = {id(near), *running}, {*map(id, near)}
        near = [e for e in gc.get_referrers(*near) if id(e) not in own and not _is_of_program(e)]
        if not near:
            return ""
        for each in near:
            if name := _name_of(each, held):
                return name
            if not (kind or isinstance(each, Tensor) or type(each) in _ANYWHERE):
                kind = f"an object of class {type(each).__name__}"
    return kind


def _is_of_program(holder: Any) -> bool:
    if isinstance(holder, FrameType):
        # Of a trace that an interrupt has ended; its traceback may live on.
        return holder.f_code.co_filename.startswith(OWN_FOLDERS)
    if isinstance(holder, CellType):
        # A variable of the function that is made of the program's lines.
        closures = gc.get_referrers(*filter(_is_tuple, gc.get_referrers(holder)))
        functions = (each for each in closures if isinstance(each, FunctionType))
        return any(each.__code__.co_filename == FILE for each in functions)
    return debugger.keeps(holder) or naming.module_of(type(holder)).startswith(_OF_PROGRAMS)


def _is_tuple(value: Any) -> bool:
    return type(value) is tuple


def _stack() -> Iterator[FrameType]:
    """The frames of the code that is running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _name_of(holder: Any, held: set[int]) -> str:
    """The name of the place in ``holder`` of an object whose id is in ``held``; "" without one."""
    if type(holder) is CACHED:
        return f"the cache of {holder.__name__}()"
    if isinstance(holder, GeneratorType):
        return f"the generator {holder.__name__}()"
    if isinstance(holder, FrameType):
        return f"a variable of {holder.f_code.co_name}(), such as through an exception"
    if type(holder) is dict:
        key = next((key for key, value in holder.items() if id(value) in held), None)
        for owner in gc.get_referrers(holder):
            if state_of(owner) is holder and not is_own(type(owner)):
                return f"{getattr(owner, '__name__', type(owner).__name__)}.{key}"
    return ""
