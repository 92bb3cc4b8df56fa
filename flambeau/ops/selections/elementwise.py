"""Operators that treat every lane separately."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flambeau.core.kernels.promotion import result_type
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trees import map_tensors
from flambeau.ops.elementwise.selection import where
from flambeau.ops.selections.calls import agreeing, refuse_length_of_other
from flambeau.ops.selections.selection import Selection, broadcastable

__all__: list[str] = []

_ARRAYS = (np.ndarray, jax.Array)


def elementwise(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute all lanes. Other operands broadcast over the lanes."""
    name = func.__name__
    operands = (*args, *kwargs.values())
    first = agreeing(name, operands)
    common = _common_dtype(operands)

    def enter(value: Any) -> Any:
        if isinstance(value, Selection):
            if value.depth != first.depth:
                refuse_length_of_other(name, first, value.lanes.shape)
            return value.lanes
        value = Tensor._wrap(jnp.asarray(value)) if isinstance(value, _ARRAYS) else value
        return broadcast(name, first, value, common) if isinstance(value, Tensor) else value

    entered = [enter(each) for each in args], {key: enter(each) for key, each in kwargs.items()}
    if name.endswith("_"):
        return _in_place(func, args, *entered)
    result = func(*entered[0], **entered[1])
    return map_tensors(lambda lanes: first.like(lanes, lanes.ndim - first.depth), result)


def converted(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `to`, which reads only the dtype and device of another tensor."""
    source, *others = [each.lanes if isinstance(each, Selection) else each for each in args]
    found = func(source, *others, **kwargs)
    return args[0].like(found) if isinstance(args[0], Selection) else found


def _in_place(
    func: Callable[..., Any], given: tuple[Any, ...], args: list[Any], kwargs: dict[str, Any]
) -> Any:
    target = given[0]
    if not isinstance(target, Selection):
        refuse_length_of_other(func.__name__, agreeing(func.__name__, given), target.shape)
    func(*args, **kwargs)
    return target


def broadcast(
    name: str, selection: Selection, value: Tensor, common: Any = None, depth: int | None = None
) -> Tensor:
    """A tensor that is the same for every lane; only selected lanes send gradients back.

    Args:
        name: The operator, for messages.
        selection: The Selection with the lanes.
        value: A tensor without a dimension for the lanes, or with size 1 there.
        common: The dtype of the result: a 0-d tensor has a lower priority in type promotion, but is
            no longer 0-d among lanes.
        depth: The dimension of the lanes, if not that of ``selection``.

    Raises:
        TracedValueError: It has as many elements as another dimension.
    """
    depth = selection.depth if depth is None else depth
    if value.ndim >= depth and value.shape[-depth] != 1:
        refuse_length_of_other(name, selection, value.shape)
    if not value.requires_grad:
        return value
    if common is not None and not value.ndim:
        value = value.to(common)
    return where(broadcastable(selection.mask, depth), value, 1)


def _common_dtype(operands: tuple[Any, ...]) -> Any:
    kinds = Tensor | bool | int | float | complex
    return result_type(*(each for each in operands if isinstance(each, kinds)))
