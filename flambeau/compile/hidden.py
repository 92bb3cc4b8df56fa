"""Objects from outside that the trace did not discover, found by the references to them.

For example a library returns an object that it also keeps, or a list has too many members to be
inspected. Each call must store or return that same object, while objects that the function creates
are created at each call.
"""

from __future__ import annotations

import gc
from types import CellType, FrameType, GeneratorType, TracebackType
from typing import Any

from flambeau.compile import making
from flambeau.compile.ownership import state_of
from flambeau.compile.reaching import reaches_trace
from flambeau.compile.replaced_objects import left_by
from flambeau.compile.stand_ins import STAND_INS
from flambeau.compile.structure import is_plain_dataclass
from flambeau.core.tensor import Tensor

# Objects that hold references while code runs, or after an exception in it.
_OF_CODE = (CellType, FrameType, GeneratorType, TracebackType)


def hidden_objects(recording: Any, returned: Any) -> dict[int, Any]:
    """The objects, by id, that the function stores or returns and that existed before.

    Args:
        recording: The trace.
        returned: The result of the function.
    """
    is_outside = recording.trace.reads_outside.knows
    graph = left_by(recording, returned)
    clean: dict[int, Any] = {}
    unsure = {
        id(each): each
        for each in graph
        if _can_be_new(each) and not is_outside(each) and not reaches_trace(each, is_outside, clean)
    }
    del clean
    outside = _referred_to(unsure, graph) if unsure else {}
    # References from garbage do not count, most of which is young.
    for generation in (1, 2):
        if outside:
            del outside
            gc.collect(generation)
            outside = _referred_to(unsure, graph)
    return outside


def _can_be_new(value: Any) -> bool:
    if isinstance(value, Tensor | dict | list | tuple):
        return False
    return (
        isinstance(value, set) or making.is_copied(value)
        or is_plain_dataclass(value) or making.has_only_attributes(value)
    )  # fmt: skip


def _referred_to(unsure: dict[int, Any], graph: list[Any]) -> dict[int, Any]:
    """The objects of ``unsure`` with a reference from outside of ``graph`` and of running code."""
    # Python creates the dictionary of an object's attributes when it is first read.
    own = {id(graph), id(unsure), *map(id, graph), *(id(state_of(each)) for each in graph)}
    outside: dict[int, Any] = {}
    for each in gc.get_referrers(*unsure.values()):
        is_own = id(each) in own or isinstance(each, _OF_CODE) or type(each) in STAND_INS.values()
        if not is_own and each is not outside:
            held = (inner for inner in gc.get_referents(each) if id(inner) in unsure)
            outside.update((id(inner), inner) for inner in held)
    return outside
