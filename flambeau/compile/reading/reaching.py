"""References from an object of any class to tracers.

Python's garbage collector knows the references that objects of any class hold, such as iterators,
waiting generators, views of dictionaries and exceptions.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from jax.core import Tracer

from flambeau.compile.ownership import state_of
from flambeau.core.operators.number import Number
from flambeau.core.values.pytree import OWN_PARTS
from flambeau.core.values.tensor import Tensor

#: Inspect at most this many objects; those near the value come first.
MOST = 10_000
_PLAIN = {int, float, bool, complex, str, bytes, type(None), range, bytearray}
# Objects of JAX's are not followed; tracers are recognized before.
_MACHINERY = ("jax", "jaxlib")


def reaches_trace(
    value: Any,
    is_outside: Callable[[Any], bool] = lambda _: False,
    left_out: Iterable[int] = (),
) -> bool:
    """Whether ``value`` is, or refers to, a tracer.

    Args:
        value: Any object.
        is_outside: Whether an object existed before the trace, and is not followed.
        left_out: The ids of objects that do not count.
    """
    waiting, known = [value], {id(value), *left_out}
    for i, each in enumerate(waiting):
        if type(each) in _PLAIN:
            continue
        is_tensor = isinstance(each, Tensor) and type(each) not in OWN_PARTS
        if isinstance(each._cell.array if is_tensor else each, Tracer | Number):
            return True
        if is_tensor or (i and is_outside(each)):
            continue
        new = [inner for inner in _held(each) if id(inner) not in known]
        known.update(map(id, new))
        waiting += new[: max(MOST - len(waiting), 0)]
    return False


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
