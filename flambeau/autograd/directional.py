"""Derivatives of a function along directions, in forward mode: one, or several at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from flambeau.autograd.forward_ad import dual_level, make_dual, unpack_dual
from flambeau.core.tape.forward import zeros_like
from flambeau.core.tape.transform import Capture
from flambeau.core.values.tensor import Tensor
from flambeau.random.drawing import Descent

_Function = Callable[..., Any]


def along(func: _Function, args: Sequence[Any], directions: dict[int, Any]) -> list[Any]:
    """The outputs of a function, each with its derivative along a direction.

    Args:
        func: A function of the arguments that returns a Tensor, or a tuple or list that holds
            Tensors.
        args: Its arguments. Arguments that require grad are separate leaves inside.
        directions: By argument number, an array of the argument's shape.

    Returns:
        For each output a Tensor and the Tensor of its derivative; for an output that is not a
        Tensor, the output and ``None``.
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
    """`along` several directions, stacked in the first dimension of each array, in one run.

    Args:
        func: See `along`.
        args: See `along`.
        directions: See `along`.
        chosen: Takes the result of `along`; gives Tensors.

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
    """An argument that requires grad as a separate leaf; any other argument unchanged."""
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
