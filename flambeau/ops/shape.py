"""Tensors put together, repeated and turned: `cat`, `stack`, `repeat`, `flip`, `tril`, …"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from flambeau.core.op import Array, Arrays, function, op
from flambeau.core.promotion import result_dtype
from flambeau.core.tensor import Tensor
from flambeau.ops.checks import wrap_dim
from flambeau.ops.dims import as_int, sizes_of, wrap_listed

__all__ = [
    "cat",
    "stack",
]


# Several tensors as one


@op(linear=True)
def cat(tensors: Arrays, dim: int = 0) -> Array:
    """The tensors one after the other along dimension ``dim``, in their promoted dtype.

    Empty tensors of shape ``[0]`` fit anywhere.

    Raises:
        RuntimeError: There are no tensors, or their other sizes differ.
        IndexError: The dimension is out of range.
    """
    return _joined(tensors, dim, "cat")


def _joined(arrays: tuple[Any, ...], dim: int, name: str) -> Any:
    if not arrays:
        raise RuntimeError(f"{name}(): expected a non-empty list of Tensors")
    for i, each in enumerate(arrays):
        if not each.ndim:
            raise RuntimeError(f"{name}(): tensor {i} is 0-d and cannot be concatenated; stack it")
    arrays = _promoted(arrays)
    # Left over from when every empty tensor was one-dimensional: these fit beside any shape.
    kept = [each for each in arrays if each.shape != (0,)] or list(arrays[:1])
    first = kept[0]
    dim = wrap_dim(dim, first.ndim, name)
    for i, each in enumerate(kept):
        if each.ndim != first.ndim or any(
            a != b for d, (a, b) in enumerate(zip(each.shape, first.shape, strict=True)) if d != dim
        ):
            raise RuntimeError(
                f"{name}(): sizes must match except in dimension {dim}; got {list(first.shape)} "
                f"and, at number {i}, {list(each.shape)}"
            )
    return jnp.concatenate(kept, dim)


def _promoted(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    to = result_dtype(arrays).numpy
    return tuple(each.astype(to) for each in arrays)


@op(linear=True)
def stack(tensors: Arrays, dim: int = 0) -> Array:
    """The tensors, all of one shape, along a new dimension ``dim``.

    Raises:
        RuntimeError: There are no tensors, or their shapes differ.
        IndexError: The dimension is out of range.
    """
    if not tensors:
        raise RuntimeError("stack(): expected a non-empty list of Tensors")
    for i, each in enumerate(tensors):
        if each.shape != tensors[0].shape:
            raise RuntimeError(
                f"stack(): all tensors must have one shape; got {list(tensors[0].shape)} at "
                f"number 0 and {list(each.shape)} at number {i}"
            )
    return jnp.stack(_promoted(tensors), wrap_dim(dim, tensors[0].ndim + 1, "stack"))


