"""Derivatives of a function along directions, in forward mode: one direction, or many at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from flambeau.autograd.forward_ad import dual_level, make_dual, unpack_dual
from flambeau.core.forward import zeros_like
from flambeau.core.tensor import Tensor
from flambeau.core.transform import Capture
from flambeau.random.drawing import Descent

_Function = Callable[..., Any]


def along(func: _Function, args: Sequence[Any], directions: dict[int, Any]) -> list[Any]:
    """The outputs of a function, each with its derivative along a direction.

    Args:
        func: Takes the arguments; gives a Tensor, or a tuple or list that holds Tensors.
        args: Its arguments. Those that require grad are leaves of their own inside.
        directions: For some arguments, by place, an array of the same shape.

    Returns:
        For each output a Tensor and the Tensor of its derivative; for what is no Tensor, that and
        ``None``.
    """
    given = [_own(each) for each in args]
    with dual_level():
        for place, direction in directions.items():
            given[place] = make_dual(given[place], Tensor._wrap(direction))
        returned = func(*given)
        outputs = returned if isinstance(returned, list | tuple) else (returned,)
        return [_unpacked(each) for each in outputs]


def along_all(
    func: _Function,
    args: Sequence[Any],
    directions: dict[int, Any],
    chosen: Callable[[list[Any]], Sequence[Any]],
) -> tuple[Any, ...]:
    """`along` many directions, which are the first dimension of each array, in one run.

    Args:
        func: See `along`.
        args: See `along`.
        directions: See `along`.
        chosen: Takes what `along` gives; gives Tensors.

    Returns:
        The arrays of these, stacked.
    """
    descent, places = Descent(), list(directions)

    def run(*arrays: Any) -> tuple[Any, ...]:
        with Capture(), descent:
            pairs = along(func, args, dict(zip(places, arrays, strict=True)))
            return tuple([each._read() for each in chosen(pairs)])

    return jax.vmap(run)(*directions.values())


def _own(argument: Any) -> Any:
    """An argument that requires grad as a leaf of the run's own; anything else as it is."""
    if not isinstance(argument, Tensor) or not argument.requires_grad:
        return argument
    own = Tensor._wrap(argument.detach()._read())
    own._requires_grad = True
    return own


def _unpacked(output: Any) -> tuple[Any, Any]:
    if not isinstance(output, Tensor):
        return output, None
    tangent = unpack_dual(output).tangent
    return output, zeros_like(output) if tangent is None else tangent
