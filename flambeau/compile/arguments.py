"""The arguments and results of a compiled function: tensors, and the structure around them."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

from flambeau.compile import structure
from flambeau.core.cell import Cell
from flambeau.core.device import available_devices, device
from flambeau.core.identity import Same, exactly
from flambeau.core.tensor import Tensor

_BY_VALUE = (int, float, bool, complex, str, bytes, type(None), np.generic, device)


def flatten(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """The leaves of a call's arguments, tensors among them, and the structure around them."""
    for each in args:
        if type(each) is not Tensor:
            break
    else:
        if not kwargs:
            return list(args), len(args)
    leaves: list[Any] = []
    inner = structure.flatten([*args, *kwargs.values()], leaves)
    return leaves, (len(args), tuple(kwargs), inner)


def unflatten(around: Any, leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that `flatten` took apart, with other leaves, in the caller's order."""
    if isinstance(around, int):
        return tuple(leaves), {}
    count, names, inner = around
    values = structure.unflatten(inner, iter(leaves))
    return tuple(values[:count]), dict(zip(names, values[count:], strict=True))


def signature(leaves: list[Any]) -> tuple[Any, ...]:
    """What distinguishes calls that need different programs.

    Raises:
        TypeError: An argument is a NumPy or JAX array, which a program would freeze.
    """
    specs: list[Any] = []
    for i, leaf in enumerate(leaves):
        if type(leaf) is Tensor:
            array = leaf._read()
            twin = -1
            for j in range(i):
                if leaves[j] is leaf:
                    twin = j
                    break
            specs.append(
                (
                    array.shape, array.dtype, leaf.requires_grad, leaf._grad is not None,
                    _place(array), twin,
                )
            )  # fmt: skip
        else:
            specs.append(_spec_of_other(leaf))
    return tuple(specs)


def _place(array: Any) -> Any:
    """What tells where an array is; nothing on a machine where all arrays are in one place."""
    return getattr(array, "sharding", None) if have_many_places() else None


@functools.cache
def have_many_places() -> bool:
    """Whether this machine has more than one device."""
    return len(available_devices()) > 1


def _spec_of_other(leaf: Any) -> Any:
    if isinstance(leaf, _BY_VALUE):
        return exactly(leaf)
    if isinstance(leaf, np.ndarray | jax.Array):
        raise TypeError(
            f"a compiled function got a {type(leaf).__name__} of shape {leaf.shape}, whose values "
            "would be frozen into the program; pass it as a Tensor (flambeau.from_numpy, "
            "flambeau.from_jax)"
        )
    if isinstance(leaf, range):
        return range, leaf.start, leaf.stop, leaf.step
    if isinstance(leaf, set | frozenset):
        # In its own order, in which code that goes through it meets its members.
        return type(leaf), tuple(_spec_of_other(each) for each in leaf)
    return Same(leaf)


def is_input(leaf: Any) -> bool:
    """Whether a leaf's array becomes an input of the program.

    Parameters and other subclasses keep their identity: the program captures their Cells instead.
    """
    return type(leaf) is Tensor


def stand_in(leaf: Tensor, array: Any, grad: Any) -> Tensor:
    """The tensor that a traced function sees in place of an argument."""
    made = object.__new__(Tensor)
    made._cell = Cell(array)
    made._requires_grad = leaf.requires_grad
    vars(made).update(leaf._user_attributes())
    if grad is not None:
        made._grad = Tensor._wrap(grad)
    return made
