"""Rearranging the elements of a tensor: `flip`, `roll`, `rot90`, `tril`, `diag`, …"""

from __future__ import annotations

import functools
import operator
from typing import Any

import jax.numpy as jnp
import numpy as np

from flambeau.core.kernels.kernel import Kernel
from flambeau.core.kernels.kinds import Array, Operand
from flambeau.core.operators.dispatch import run_with_constants
from flambeau.core.operators.op import function, op
from flambeau.core.operators.writing import put
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import wrap_dim
from flambeau.ops.common.dims import as_int, sizes_of, wrap_listed

__all__ = [
    "diag", "diag_embed", "diagflat", "flip", "fliplr", "flipud", "roll", "rot90", "tril", "triu",
]  # fmt: skip


@op(name="flip", linear=True)
def _flip(input: Array, dims: tuple[int, ...]) -> Array:
    along = wrap_listed(dims, input.ndim, "flip")
    return jnp.flip(input, along) if input.ndim else input


@function(method=True)
def flip(input: Tensor, *along: Any, dims: Any = None) -> Any:
    """The elements in reverse order along the given dimensions; a copy.

    Raises:
        RuntimeError: A dimension is named twice.
        IndexError: A dimension is out of range.
    """
    return _flip(input, sizes_of(along, "flip", dims))


@function(method=True)
def fliplr(input: Tensor) -> Any:
    """The columns in reverse order, along dimension 1; a copy.

    Raises:
        RuntimeError: There are fewer than two dimensions.
    """
    if input.ndim < 2:
        raise RuntimeError(f"fliplr() needs at least 2 dimensions, got {input.ndim}")
    return _flip(input, (1,))


@function(method=True)
def flipud(input: Tensor) -> Any:
    """The rows in reverse order, along dimension 0; a copy.

    Raises:
        RuntimeError: The tensor is 0-d.
    """
    if input.ndim < 1:
        raise RuntimeError("flipud() needs at least 1 dimension, got a 0-d tensor")
    return _flip(input, (0,))


@functools.cache
def _roll_kernel(dims: tuple[int, ...] | None) -> Kernel:
    def roll(array: Any, shifts: Any) -> Any:
        if dims is None:
            return jnp.roll(array.reshape(-1), shifts[0]).reshape(array.shape)
        return jnp.roll(array, shifts, dims)

    return Kernel(roll, "roll", "RollBackward0", linear=True)


@function(method=True)
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Any:
    """The elements shifted by ``shifts`` positions along ``dims``, wrapping around.

    Args:
        shifts: A number of positions, or one for each of ``dims``.
        dims: A dimension or several; by default the flattened tensor is shifted.

    Raises:
        RuntimeError: The numbers of shifts and dimensions differ.
        IndexError: A dimension is out of range.
    """
    by = sizes_of((shifts,), "roll") if isinstance(shifts, list | tuple) else (shifts,)
    along = () if dims is None else dims if isinstance(dims, list | tuple) else (dims,)
    if len(by) != len(along) and not (len(by) == 1 and not along):
        raise RuntimeError(f"roll(): {len(by)} shifts do not fit {len(along)} dimensions")
    if along and not input.ndim:
        raise IndexError(f"roll(): a 0-d tensor has no dimension {along[0]}")
    wrapped = tuple([wrap_dim(dim, input.ndim, "roll") for dim in along]) or None
    if not input.numel():
        return input.clone()
    kernel = _roll_kernel(wrapped)
    by = [as_int(each, "roll(): a shift") for each in by]
    return run_with_constants(kernel, (input,), (np.array(by, np.int64),))


@op(method=True, linear=True)
def rot90(input: Array, k: int = 1, dims: tuple[int, ...] = (0, 1)) -> Array:
    """The plane of two dimensions rotated ``k`` times by 90 degrees, from the first to the second.

    Raises:
        RuntimeError: The dimensions are not two different ones, or the tensor has fewer.
        IndexError: A dimension is out of range.
    """
    if len(dims) != 2:
        raise RuntimeError(f"rot90() turns a plane of 2 dimensions, got {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"rot90() needs at least 2 dimensions, got {input.ndim}")
    first, second = wrap_listed(dims, input.ndim, "rot90")
    return jnp.rot90(input, k, (first, second))


# Triangles and diagonals


def _triangle(input: Any, name: str) -> tuple[Any, Any]:
    if input.ndim < 2:
        raise RuntimeError(f"{name}() needs at least 2 dimensions, got {input.ndim}")
    rows, columns = input.shape[-2:]
    return jnp.arange(rows)[:, None], jnp.arange(columns)


@op(method=True, inplace=True, linear=True)
def tril(input: Array, diagonal: Operand = 0) -> Array:
    """The lower triangle of each matrix, up to a diagonal, and zeros above it.

    Args:
        diagonal: 0 for the main diagonal, positive for those above it.

    Raises:
        RuntimeError: There are fewer than two dimensions.
    """
    row, column = _triangle(input, "tril")
    return jnp.where(column <= row + diagonal, input, jnp.zeros((), input.dtype))


@op(method=True, inplace=True, linear=True)
def triu(input: Array, diagonal: Operand = 0) -> Array:
    """The upper triangle of each matrix, from a diagonal on, and zeros below it.

    Args:
        diagonal: 0 for the main diagonal, positive for those above it.

    Raises:
        RuntimeError: There are fewer than two dimensions.
    """
    row, column = _triangle(input, "triu")
    return jnp.where(column >= row + diagonal, input, jnp.zeros((), input.dtype))


@op(node="DiagonalBackward0_copy", linear=True)
def _diagonal_copy(input: Array, offset: int) -> Array:
    return jnp.diagonal(input, offset)


@function(method=True)
def diag(input: Tensor, diagonal: int = 0) -> Any:
    """A copy of a matrix's diagonal, or a matrix with a vector as its diagonal.

    Raises:
        RuntimeError: The tensor has neither one nor two dimensions.
    """
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim == 2:
        return _diagonal_copy(input, diagonal)
    raise RuntimeError(f"diag() takes a vector or a matrix, got {input.ndim} dimensions")


@op(method=True, linear=True)
def diag_embed(input: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """Matrices, in dimensions ``dim1`` and ``dim2``, with the last dimension as their diagonals.

    Args:
        offset: Positive for diagonals above the main one, negative for those below.

    Raises:
        RuntimeError: ``dim1`` and ``dim2`` are the same.
        IndexError: A dimension is out of range.
    """
    ndim = input.ndim + 1
    first, second = wrap_dim(dim1, ndim, "diag_embed"), wrap_dim(dim2, ndim, "diag_embed")
    if first == second:
        raise RuntimeError(f"diag_embed(): dim1 and dim2 are the same, {dim1} and {dim2}")
    size = input.shape[-1] + abs(offset)
    along = jnp.arange(input.shape[-1])
    result = jnp.zeros((*input.shape[:-1], size, size), input.dtype)
    result = result.at[..., along - min(offset, 0), along + max(offset, 0)].set(input)
    return jnp.moveaxis(result, (-2, -1), (first, second))


@op(linear=True)
def _with_diagonal(input: Array, value: Operand, wrap: bool) -> Array:
    if input.ndim < 2:
        raise RuntimeError(f"fill_diagonal_() needs at least 2 dimensions, got {input.ndim}")
    if input.ndim > 2 and len(set(input.shape)) > 1:
        raise RuntimeError(
            f"fill_diagonal_() of more than 2 dimensions needs equal sizes, got {list(input.shape)}"
        )
    along = [
        jnp.arange(n).reshape((-1,) + (1,) * (input.ndim - d - 1))
        for d, n in enumerate(input.shape)
    ]
    if wrap and input.ndim == 2:
        # After an empty row, the diagonal of a tall matrix starts again.
        along[0] = along[0] % (input.shape[1] + 1)
    on = functools.reduce(operator.and_, (along[0] == each for each in along[1:]))
    return jnp.where(on, jnp.asarray(value, input.dtype), input)


@function(method=True)
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Any:
    """Fill the main diagonal in place; with ``wrap`` it starts again further down a tall matrix.

    Raises:
        RuntimeError: There are fewer than two dimensions, or more and of different sizes.
        TypeError: ``fill_value`` is not a number.
    """
    if not isinstance(fill_value, int | float | complex | np.generic):
        kind = type(fill_value).__name__
        raise TypeError(f"fill_diagonal_(): fill_value must be a number, got {kind}")
    return put(self, _with_diagonal(self, fill_value, wrap), "fill_diagonal_")


@function(method=True)
def diagflat(input: Tensor, offset: int = 0) -> Any:
    """A matrix with all elements, in order, as its diagonal."""
    return diag_embed(input.reshape(-1), offset)
