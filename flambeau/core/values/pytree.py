"""Tensors as nodes of JAX's trees, as `jax.jit`, `jax.tree.map` and the like need."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

import jax
import numpy as np

from flambeau.core.types import Contents, Leaf, Tensor, Tree
from flambeau.core.values.attributes import handle_on
from flambeau.core.values.cell import Cell

# Values that are neither JAX arrays nor the objects that JAX uses to mark leaves.
_PLAIN: tuple[type, ...] = (
    tuple, list, dict, str, bool, int, float, complex, type(None), type, np.dtype, np.ndarray,
    np.generic,
)  # fmt: skip


def register(cls: type) -> None:
    """Make the tensors of class ``cls`` nodes of JAX's trees, each with its array as only child.

    An unflattened tensor is a leaf of the tape, and requires grad if the original was a leaf that
    did. If a function replaces its array by a shape, a number or a NumPy array, as in
    ``jax.tree.map(lambda a: a.shape, parameters)``, this value takes the tensor's place in the
    tree.
    """

    def unflatten(requires_grad: bool, children: Iterable[Leaf]) -> Leaf:
        (array,) = children
        if isinstance(array, _PLAIN):
            return array
        tensor = handle_on(Cell(array), cls)
        if requires_grad:
            tensor._requires_grad = True
        return tensor

    jax.tree_util.register_pytree_node(cls, _flatten, unflatten)


def _flatten(tensor: Tensor) -> tuple[tuple[Contents], bool]:
    return (tensor._read(),), tensor.requires_grad and tensor.is_leaf


class OwnParts(NamedTuple):
    """Functions that flatten and unflatten the instances of a class.

    Attributes:
        take_apart: Returns the children, and hashable metadata.
        put_together: The inverse, from the metadata and children of any kind.
        has_elements: Whether an instance is a tuple that can also be flattened into its elements.
    """

    take_apart: Callable[[Any], tuple[Iterable[Tree], Hashable]]
    put_together: Callable[[Any, Iterable[Tree]], object]
    has_elements: Callable[[Any], bool]


#: The classes with flatten functions of their own.
OWN_PARTS: dict[type, OwnParts] = {}


def register_parts(cls: type, parts: OwnParts) -> None:
    """Make ``parts`` the flatten functions of a class, in JAX's trees too.

    A class that JAX knows already keeps its registration there.
    """
    OWN_PARTS[cls] = parts
    with contextlib.suppress(ValueError):
        jax.tree_util.register_pytree_node(cls, parts.take_apart, parts.put_together)


def is_tuple(value: object) -> bool:
    """Whether ``value`` is a tuple that consists of its elements."""
    return isinstance(value, tuple) and type(value) not in OWN_PARTS
