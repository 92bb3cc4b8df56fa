"""Tensors as nodes of JAX's trees, so that `jax.jit`, `jax.tree.map` and the like take them."""

from __future__ import annotations

from typing import Any

import jax

from flambeau.core.cell import Cell


def register(cls: type[Any]) -> None:
    """Make the tensors of class ``cls`` nodes of JAX's trees, each with its array as only child.

    A tensor that is put together again is a leaf of the tape, and requires grad if it was a leaf
    that did.
    """

    def unflatten(requires_grad: bool, children: Any) -> Any:
        tensor = object.__new__(cls)
        (array,) = children
        tensor._cell = Cell(array)
        if requires_grad:
            tensor._requires_grad = True
        return tensor

    jax.tree_util.register_pytree_node(cls, _flatten, unflatten)


def _flatten(tensor: Any) -> tuple[tuple[Any], bool]:
    return (tensor._read(),), tensor.requires_grad and tensor.is_leaf
