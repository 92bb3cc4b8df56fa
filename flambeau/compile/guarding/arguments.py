"""The arguments and results of a compiled function: tensors, and the structure around them."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Container, Iterator
from typing import Any

import jax
import numpy as np

from flambeau.compile.guarding import structure
from flambeau.compile.guarding.value_text import Plain
from flambeau.core.devices.device import available_devices, device
from flambeau.core.operators.number import KINDS
from flambeau.core.support.handle import HookDict, RemovableHandle
from flambeau.core.support.identity import Same, exactly
from flambeau.core.support.jax_private import ArrayImpl
from flambeau.core.tape.node import Node
from flambeau.core.values.attributes import handle_on
from flambeau.core.values.cell import Cell
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import TracedValueError
from flambeau.core.values.trees import LEAF, Structure

_BY_VALUE = (int, float, bool, complex, str, bytes, type(None), np.generic, device)


# The signature of a number with any value.
_ANY = {kind: Plain(f"any {kind.__name__}") for kind in KINDS}

#: The number of positional arguments, the keywords, and the structure of each argument.
Around = tuple[int, tuple[str, ...], tuple[Structure, ...]]


def flatten(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Around]:
    """The leaves of a call's arguments, and the structure around them."""
    for each in args:
        if type(each) is not Tensor:
            break
    else:
        if not kwargs:
            return list(args), (len(args), (), (LEAF,) * len(args))
    leaves: list[Any] = []
    parts = [structure.flatten(each, leaves) for each in (*args, *kwargs.values())]
    return leaves, (len(args), tuple(kwargs), tuple(parts))


def unflatten(around: Around, leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inverse of `flatten`, with other leaves."""
    count, names, parts = around
    remaining = iter(leaves)
    values = [structure.unflatten(each, remaining) for each in parts]
    return tuple(values[:count]), dict(zip(names, values[count:], strict=True))


def classes_in(around: Around) -> Iterator[type]:
    """The classes of the containers among the arguments."""
    for each in around[2]:
        yield from structure.classes_in(each)


def signature(leaves: list[Any], varying: Container[int] = ()) -> tuple[Any, ...]:
    """The key of the program that a call needs.

    Gradients of the tensors are appended to ``leaves``, unless they are among them.

    Args:
        leaves: The leaves of the arguments.
        varying: The positions of numbers whose values do not matter.

    Raises:
        TypeError: An argument is a NumPy or JAX array, whose values a program would freeze.
    """
    specs: list[Any] = []
    places = places_of(leaves)
    for i, leaf in enumerate(leaves):
        if type(leaf) is Tensor:
            array = leaf._read()
            grad = -1
            if leaf._grad is not None:
                grad = places.setdefault(id(leaf._grad), len(leaves))
                if grad == len(leaves):
                    leaves.append(leaf._grad)
            specs.append(
                (
                    array.shape, array.dtype, leaf.requires_grad, _on_tape(leaf),
                    _place(array), places[id(leaf)], grad,
                )
            )  # fmt: skip
        else:
            specs.append(_ANY[type(leaf)] if i in varying else _spec_of_other(leaf))
    return tuple(specs)


def _on_tape(leaf: Tensor) -> Any:
    """The hooks of a leaf; for a result, whether it retains its gradient."""
    return leaf._leaf_hooks() if leaf._grad_fn is None else leaf._grad_fn.retains(leaf)


def places_of(leaves: list[Any]) -> dict[int, int]:
    """The first position of each leaf, by its id."""
    return {id(leaves[i]): i for i in range(len(leaves) - 1, -1, -1)}


def _place(array: Any) -> Any:
    """The sharding of an array; ``None`` on a machine with one device."""
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
    if isinstance(leaf, bytearray | array):
        return type(leaf), getattr(leaf, "typecode", ""), bytes(leaf)
    if isinstance(leaf, range):
        return range, leaf.start, leaf.stop, leaf.step
    if isinstance(leaf, set | frozenset):
        # In the set's own order, which a loop over it follows.
        return type(leaf), tuple(_spec_of_other(each) for each in leaf)
    return Same(leaf)


def is_input(leaf: Any) -> bool:
    """Whether a leaf's array becomes an input of the program.

    Parameters and other subclasses keep their identity: the program captures their Cells instead.
    """
    return type(leaf) is Tensor


def is_on_meta(leaf: Any) -> bool:
    """Whether a leaf is a tensor without elements."""
    return isinstance(leaf, Tensor) and leaf.is_meta


def stand_in(leaf: Tensor, cell: Cell) -> Tensor:
    """The tensor on ``cell`` that a traced function gets instead of the argument ``leaf``.

    It has no gradient, and is not a view.
    """
    tensor = handle_on(cell, Tensor)
    tensor._requires_grad = leaf.requires_grad
    if leaf.grad_fn is not None:
        tensor._grad_fn = OuterNode(leaf.grad_fn.name())
        if leaf.retains_grad:
            tensor._grad_fn.retain(tensor)
    elif leaf._hooks or leaf._post_accumulate_hooks:
        tensor._hooks = HookDict(leaf._hooks or {})
        tensor._post_accumulate_hooks = HookDict(leaf._post_accumulate_hooks or {})
    return tensor


class OuterNode(Node):
    """In a trace, the ``grad_fn`` of an argument that the caller computed."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        super().__init__((None,))
        self._name = name
        # Older than every node of the trace, so backward ends here.
        self.sequence = -1

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Fail: each call brings another node."""
        raise TracedValueError(
            f"a hook on {self.name()}, the grad_fn of an argument, cannot be registered inside a "
            "compiled function; register it on the tensor, or outside"
        )

    register_prehook = register_hook

    def name(self) -> str:
        """The name of the node that the argument had in the traced call."""
        return self._name


def are_different(args: tuple[Any, ...]) -> bool:
    """Whether all arguments are different objects."""
    return len({*map(id, args)}) == len(args)


def is_simple(leaf: Any) -> bool:
    """Whether an argument is a plain tensor without a view or gradient."""
    return (
        type(leaf) is Tensor
        and leaf._view is None
        and not leaf._requires_grad
        and leaf._grad is None
        and type(leaf._cell.array) is ArrayImpl
    )
