"""Tensors as nodes of JAX's trees, so that `jax.jit`, `jax.tree.map` and the like take them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import numpy as np

from flambeau.core.attributes import handle_on
from flambeau.core.cell import Cell

# Values that are no arrays of JAX's, and no objects by which JAX marks leaves.
_PLAIN: tuple[type, ...] = (
    tuple, list, dict, str, bool, int, float, complex, type(None), type, np.dtype, np.ndarray,
    np.generic,
)  # fmt: skip


def register(cls: type[Any]) -> None:
    """Make the tensors of class ``cls`` nodes of JAX's trees, each with its array as only child.

    A tensor that is put together again is a leaf of the tape, and requires grad if it was a leaf
    that did. A shape, a number or a NumPy array that a function gives for its array, as in
    ``jax.tree.map(lambda a: a.shape, parameters)``, takes its place in the tree.
    """

    def unflatten(requires_grad: bool, children: Any) -> Any:
        (array,) = children
        if isinstance(array, _PLAIN):
            return array
        tensor = handle_on(Cell(array), cls)
        if requires_grad:
            tensor._requires_grad = True
        return tensor

    jax.tree_util.register_pytree_node(cls, _flatten, unflatten)


def _flatten(tensor: Any) -> tuple[tuple[Any], bool]:
    return (tensor._read(),), tensor.requires_grad and tensor.is_leaf


class OwnParts(NamedTuple):
    """Functions that take instances of a class apart, and put them together.

    Attributes:
        take_apart: Gives the parts, and hashable metadata.
        put_together: The inverse, from the metadata, and parts of any kind.
        has_elements: Whether an instance is a tuple that can be taken apart into its elements too.
    """

    take_apart: Callable[[Any], tuple[Iterable[Any], Any]]
    put_together: Callable[[Any, Iterable[Any]], Any]
    has_elements: Callable[[Any], bool]


#: The classes with parts of their own.
OWN_PARTS: dict[type, OwnParts] = {}


def register_parts(cls: type[Any], parts: OwnParts) -> None:
    """Make ``parts`` what the instances of a class consist of, in JAX's trees too.

    A class that JAX knows already keeps its parts there.
    """
    OWN_PARTS[cls] = parts
    with contextlib.suppress(ValueError):
        jax.tree_util.register_pytree_node(cls, parts.take_apart, parts.put_together)


def is_tuple(value: Any) -> bool:
    """Whether ``value`` is a tuple that consists of its elements."""
    return isinstance(value, tuple) and type(value) not in OWN_PARTS


#: Classes that pass for another wherever containers are taken apart, with that other.
PASSES_FOR: dict[type, type] = {}


def kind_of(value: Any) -> type:
    """The class that ``value`` counts as where containers are taken apart."""
    return PASSES_FOR.get(type(value), type(value))
