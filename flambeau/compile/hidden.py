"""Objects from outside that nothing has led the trace to, told by what else refers to them.

For example an object that a library returns and also keeps, or a member far back in a long list.
Each call must leave or return that very object; an object that the function made is made each time.
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
from flambeau.core.tensor import Tensor

# What refers to objects while code runs, or after an exception in it.
_OF_CODE = (CellType, FrameType, GeneratorType, TracebackType)


def hidden_objects(recording: Any, returned: Any) -> dict[int, Any]:
    """The objects, by id, that the function leaves or returns and that were there before.

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
        if _is_made(each) and not is_outside(each) and not reaches_trace(each, is_outside, clean)
    }
    if not unsure:
        return {}
    del clean
    if _others(unsure, graph):
        # Garbage does not count as a reference.
        gc.collect()
        return _others(unsure, graph)
    return {}


def _is_made(value: Any) -> bool:
    if isinstance(value, Tensor | dict | list | tuple):
        return False
    return (
        isinstance(value, set) or making.is_copied(value)
        or making.has_fields(value) or making.has_only_attributes(value)
    )  # fmt: skip


def _others(unsure: dict[int, Any], graph: list[Any]) -> dict[int, Any]:
    """Those to which something refers that is neither in ``graph`` nor running."""
    # Python makes the dictionary of an object's attributes when it is first asked for.
    own = {id(graph), id(unsure), *map(id, graph), *(id(state_of(each)) for each in graph)}
    found: dict[int, Any] = {}
    for each in gc.get_referrers(*unsure.values()):
        is_own = id(each) in own or isinstance(each, _OF_CODE) or type(each) in STAND_INS.values()
        if not is_own and each is not found:
            held = (inner for inner in gc.get_referents(each) if id(inner) in unsure)
            found.update((id(inner), inner) for inner in held)
    return found
