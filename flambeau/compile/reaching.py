"""References from an object of any class to tracers and stand-ins.

Python's garbage collector knows the references that objects of any class hold, such as iterators,
waiting generators, views of dictionaries and exceptions. Objects from outside are not followed,
since a trace restores them itself.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Container, Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from jax.core import Tracer

from flambeau.compile.ownership import state_of
from flambeau.compile.stand_ins import STAND_INS
from flambeau.core.pytree import OWN_PARTS
from flambeau.core.tensor import Tensor

#: Inspect at most this many objects; those near the value come first.
MOST = 10_000
_PLAIN = {int, float, bool, complex, str, bytes, type(None), range, bytearray}
_STAND_INS = {*STAND_INS.values()}
# Objects of JAX's are not followed; tracers are recognized before.
_MACHINERY = ("jax", "jaxlib")


def reaches_trace(
    value: Any,
    is_outside: Callable[[Any], bool],
    clean: dict[int, Any] | None = None,
    left_out: Iterable[int] = (),
) -> bool:
    """Whether ``value`` is, or refers to, a tracer or a stand-in.

    Args:
        value: Any object.
        is_outside: Whether an object existed before the trace.
        clean: Objects, by id, that are known to refer to none; new ones are added.
        left_out: The ids of objects that do not count.
    """
    clean = {} if clean is None else clean
    visited: list[Any] = []
    for each in led_to([value], is_outside, {*clean, *left_out} if left_out else clean):
        is_tensor = isinstance(each, Tensor) and type(each) not in OWN_PARTS
        each_value = each._cell.array if is_tensor else each
        if isinstance(each_value, Tracer) or type(each_value) in _STAND_INS:
            return True
        visited.append(each)
    clean.update(zip(map(id, visited), visited, strict=True))
    return False


def led_to(
    values: list[Any], is_outside: Callable[[Any], bool], left_out: Container[int] = ()
) -> Iterator[Any]:
    """Some objects, and the objects that they refer to, directly or not.

    Args:
        values: The objects, which are followed in any case.
        is_outside: Whether an object existed before the trace, and is not followed.
        left_out: The ids of objects that are skipped.
    """
    waiting, known = [*values], {*map(id, values)}
    first = len(waiting)
    for i, each in enumerate(waiting):
        if type(each) in _PLAIN or id(each) in left_out:
            continue
        yield each
        if isinstance(each, Tensor) and type(each) not in OWN_PARTS:
            continue
        if i < first or not is_outside(each):
            new = [inner for inner in _held(each) if id(inner) not in known]
            known.update(map(id, new))
            waiting += new[: max(MOST - len(waiting), 0)]


def _held(value: Any) -> Iterable[Any]:
    """The objects that ``value`` refers to, except those that all code shares."""
    if isinstance(value, type | ModuleType | CodeType):
        return ()
    if type(value).__module__.partition(".")[0] in _MACHINERY:
        return ()
    if type(value) in OWN_PARTS:
        return OWN_PARTS[type(value)].take_apart(value)[0]
    if isinstance(value, FunctionType):
        # Not its globals.
        return (
            *(value.__closure__ or ()), *(value.__defaults__ or ()),
            *(value.__kwdefaults__ or {}).values(), *state_of(value).values(),
        )  # fmt: skip
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value.flat
    return gc.get_referents(value)
