"""Tensors combined and repeated: `cat`, `stack`, `repeat`, `meshgrid`, `cartesian_prod`, …"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from flambeau.core.kernels.kinds import Array, Arrays
from flambeau.core.kernels.promotion import result_dtype
from flambeau.core.operators.misfits import require_tensors
from flambeau.core.operators.op import function, op
from flambeau.core.operators.viewing import make_view
from flambeau.core.support import errors
from flambeau.core.support.warning import warn
from flambeau.core.values.steps import Reshape
from flambeau.core.values.tensor import Size, Tensor
from flambeau.ops.common.checks import wrap_dim
from flambeau.ops.common.dims import sizes_of
from flambeau.ops.shapes.views import expanded

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes",
    "broadcast_tensors", "cartesian_prod", "cat", "column_stack", "combinations", "concat",
    "concatenate", "dstack", "hstack", "meshgrid", "row_stack", "stack", "vstack",
]  # fmt: skip


# Several tensors as one


@op(linear=True)
def cat(tensors: Arrays, dim: int = 0) -> Array:
    """The tensors concatenated along dimension ``dim``, in their promoted dtype.

    Empty tensors of shape ``[0]`` fit anywhere.

    Raises:
        ValueError: There are no tensors.
        RuntimeError: A tensor is 0-d, or sizes differ in another dimension.
        IndexError: The dimension is out of range.
    """
    return _joined(tensors, dim, "cat")


def _joined(arrays: Sequence[Any], dim: int, name: str) -> Any:
    if not arrays:
        raise errors.ValueError(f"{name}(): expected a non-empty list of Tensors")
    for i, each in enumerate(arrays):
        if not each.ndim:
            raise RuntimeError(f"{name}(): tensor {i} is 0-d and cannot be concatenated; stack it")
    arrays = _promoted(arrays)
    # PyTorch accepts these next to any shape: once every empty tensor had one dimension.
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


def _promoted(arrays: Sequence[Any]) -> tuple[Any, ...]:
    to = result_dtype(tuple(arrays)).numpy
    return tuple(each.astype(to) for each in arrays)


@op(linear=True, node="CatBackward0")
def concat(tensors: Arrays, dim: int = 0) -> Array:
    """`cat` under another name."""
    return _joined(tensors, dim, "concat")


@op(linear=True, node="CatBackward0")
def concatenate(tensors: Arrays, dim: int = 0) -> Array:
    """`cat` under another name."""
    return _joined(tensors, dim, "concatenate")


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


@op(linear=True, node="CatBackward0")
def hstack(tensors: Arrays) -> Array:
    """The tensors concatenated along dimension 1, or 0 for vectors and numbers."""
    raised = _at_least(tensors, 1, "hstack")
    return _joined(raised, 0 if raised[0].ndim == 1 else 1, "hstack")


@op(linear=True, node="CatBackward0")
def vstack(tensors: Arrays) -> Array:
    """The tensors concatenated along dimension 0; a vector is a row."""
    return _joined(_at_least(tensors, 2, "vstack"), 0, "vstack")


@op(linear=True, node="CatBackward0")
def row_stack(tensors: Arrays) -> Array:
    """`vstack` under another name."""
    return _joined(_at_least(tensors, 2, "row_stack"), 0, "row_stack")


@op(linear=True, node="CatBackward0")
def dstack(tensors: Arrays) -> Array:
    """The tensors concatenated along dimension 2."""
    return _joined(_at_least(tensors, 3, "dstack"), 2, "dstack")


@op(linear=True, node="CatBackward0")
def column_stack(tensors: Arrays) -> Array:
    """The tensors concatenated along dimension 1; a vector or number is a column."""
    if not tensors:
        raise RuntimeError("column_stack(): expected a non-empty list of Tensors")
    columns = [each if each.ndim > 1 else each.reshape(-1, 1) for each in tensors]
    return _joined(columns, 1, "column_stack")


def _at_least(arrays: Sequence[Any], ndim: int, name: str) -> list[Any]:
    if not arrays:
        raise RuntimeError(f"{name}(): expected a non-empty list of Tensors")
    return [each.reshape(_raised(each.shape, ndim)) for each in arrays]


def _raised(shape: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """``shape`` with dimensions of size 1 added where NumPy's ``atleast`` functions add them."""
    if ndim <= len(shape):
        return tuple(shape)
    if ndim == 3 and len(shape) == 1:
        return (1, *shape, 1)
    if ndim == 3 and len(shape) == 2:
        return (*shape, 1)
    return (*(1,) * (ndim - len(shape)), *shape)


@op(linear=True, name="block_diag")
def _block_diag(tensors: Arrays) -> Array:
    blocks = []
    for i, each in enumerate(_promoted(tensors)):
        if each.ndim > 2:
            raise RuntimeError(
                f"block_diag() takes tensors of at most 2 dimensions, number {i} has {each.ndim}"
            )
        blocks.append(each.reshape((1,) * (2 - each.ndim) + each.shape))
    rows, columns = (sum(each.shape[d] for each in blocks) for d in (0, 1))
    result = jnp.zeros((rows, columns), blocks[0].dtype)
    row = column = 0
    for each in blocks:
        height, width = each.shape
        result = result.at[row : row + height, column : column + width].set(each)
        row, column = row + height, column + width
    return result


@function
def block_diag(*tensors: Tensor) -> Any:
    """A matrix with the tensors along its diagonal and zeros elsewhere.

    Args:
        tensors: Matrices, vectors (rows) and numbers.

    Raises:
        RuntimeError: A tensor has more than two dimensions.
    """
    if not tensors:
        return Tensor._wrap(jnp.zeros((1, 0), np.float32))
    return _block_diag(list(tensors))


# Broadcasting


@op(name="sum_to_size", node="SumBackward1", linear=True)
def _sum_to_size(input: Array, size: tuple[int, ...]) -> Array:
    added = input.ndim - len(size)
    if added < 0 or any(
        n not in (1, have) for have, n in zip(input.shape[added:], size, strict=True)
    ):
        raise RuntimeError(
            f"sum_to_size(): {list(size)} does not expand to the tensor's shape {list(input.shape)}"
        )
    summed = jnp.sum(input, tuple(range(added)), dtype=input.dtype)
    kept = tuple(d for d, n in enumerate(size) if n == 1)
    return jnp.sum(summed, kept, keepdims=True, dtype=input.dtype)


@function(method=True)
def sum_to_size(self: Tensor, *size: Any) -> Any:
    """The tensor summed over the dimensions along which ``size`` would be expanded.

    Raises:
        RuntimeError: ``size`` does not expand to the shape.
    """
    wanted = sizes_of(size, "sum_to_size")
    return self if wanted == self.shape else _sum_to_size(self, wanted)


@function
def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """Views of the tensors, all expanded to the shape they broadcast to.

    Raises:
        RuntimeError: The shapes do not broadcast.
    """
    given = _listed(tensors)
    for each in given:
        require_tensors("broadcast_tensors", tensor=each)
    shape = broadcast_shapes(*(each.shape for each in given))
    return tuple(
        [
            each if each.shape == shape else expanded(each, shape, "broadcast_tensors")
            for each in given
        ]
    )


def _listed(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors passed separately or as one sequence."""
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        return tuple(tensors[0])
    return tensors


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that the shapes broadcast to.

    Raises:
        RuntimeError: They do not broadcast.
        ValueError: A size is negative.

    >>> import flambeau
    >>> flambeau.broadcast_shapes((2, 1), (3,))
    flambeau.Size([2, 3])
    """
    given = [(each,) if isinstance(each, int) else tuple(each) for each in shapes]
    if any(size < 0 for shape in given for size in shape):
        raise ValueError(f"broadcast_shapes(): sizes must not be negative, got {given}")
    try:
        return Size(np.broadcast_shapes(*given))
    except ValueError:
        shown = " and ".join(str(list(each)) for each in given)
        raise RuntimeError(f"shapes {shown} do not broadcast") from None


def _made_at_least(tensors: tuple[Any, ...], ndim: int) -> Any:
    for each in _listed(tensors):
        require_tensors(f"atleast_{ndim}d", tensors=each)
    views = tuple(
        [
            each if each.ndim >= ndim else _with_ones(each, _raised(tuple(each.shape), ndim))
            for each in _listed(tensors)
        ]
    )
    alone = len(tensors) == 1 and not isinstance(tensors[0], list | tuple)
    return views[0] if alone else views


def _with_ones(tensor: Tensor, shape: tuple[int, ...]) -> Any:
    return make_view(tensor, Reshape(shape), "unsqueeze")


@function
def atleast_1d(*tensors: Any) -> Any:
    """Views with at least one dimension; several tensors, or a sequence, give a tuple."""
    return _made_at_least(tensors, 1)


@function
def atleast_2d(*tensors: Any) -> Any:
    """Views with at least two dimensions, a vector as a row; several tensors give a tuple."""
    return _made_at_least(tensors, 2)


@function
def atleast_3d(*tensors: Any) -> Any:
    """Views with at least three dimensions, a matrix with depth 1; several tensors give a tuple."""
    return _made_at_least(tensors, 3)


@function
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Any, ...]:
    """The coordinates of a grid: the i-th result varies along dimension i like the i-th vector.

    Args:
        tensors: Vectors or numbers of one dtype, passed separately or as a sequence.
        indexing: ``"ij"`` (the default) as described; ``"xy"`` exchanges the first two dimensions.

    Raises:
        RuntimeError: A tensor has more than one dimension, the dtypes differ, or ``indexing`` is
            neither.
    """
    vectors = _listed(tensors)
    if indexing is None:
        warn("meshgrid(): pass indexing='ij' or 'xy'; 'ij' is taken")
    elif indexing not in ("ij", "xy"):
        raise RuntimeError(f"meshgrid(): indexing must be 'ij' or 'xy', got {indexing!r}")
    if not vectors:
        raise RuntimeError("meshgrid(): expected a non-empty list of Tensors")
    for each in vectors:
        require_tensors("meshgrid", tensor=each)
        if each.ndim > 1:
            raise RuntimeError(f"meshgrid() takes vectors, got shape {list(each.shape)}")
        _check_one_dtype("meshgrid", vectors[0], each)
    if swapped := indexing == "xy" and len(vectors) > 1:
        vectors = _first_two_swapped(vectors)
    shape = tuple([each.numel() for each in vectors])
    grids = [
        expanded(_with_ones(each, _shape_along(len(shape), d, shape[d])), shape, "meshgrid")
        for d, each in enumerate(vectors)
    ]
    return _first_two_swapped(grids) if swapped else tuple(grids)


def _first_two_swapped(items: Sequence[Any]) -> tuple[Any, ...]:
    return (items[1], items[0], *items[2:])


def _shape_along(ndim: int, dim: int, size: int) -> tuple[int, ...]:
    """The shape of a vector that lies along one of ``ndim`` dimensions."""
    return (1,) * dim + (size,) + (1,) * (ndim - dim - 1)


# Combinations of elements


@op(node="StackBackward0", linear=True, name="cartesian_prod")
def _cartesian_prod(tensors: Arrays) -> Array:
    vectors = _promoted(tensors)
    grids = jnp.meshgrid(*vectors, indexing="ij")
    return jnp.stack([each.reshape(-1) for each in grids], -1)


def _check_one_dtype(name: str, first: Tensor, other: Tensor) -> None:
    if other.dtype is not first.dtype:
        raise RuntimeError(
            f"{name}(): meshgrid expects all tensors to have the same dtype, got {first.dtype} and "
            f"{other.dtype}; convert one"
        )


@function
def cartesian_prod(*tensors: Tensor) -> Any:
    """All tuples with one element from each vector, as rows; for one vector, its elements.

    Raises:
        RuntimeError: A tensor is not a vector, or has another dtype than the others.
    """
    for each in tensors:
        if each.ndim != 1:
            raise RuntimeError(f"cartesian_prod() takes vectors, got shape {list(each.shape)}")
        _check_one_dtype("cartesian_prod", tensors[0], each)
    return tensors[0] if len(tensors) == 1 else _cartesian_prod(list(tensors))


@op(node="StackBackward0", linear=True)
def combinations(input: Array, r: int = 2, with_replacement: bool = False) -> Array:
    """All combinations of ``r`` elements of a vector, in order, as rows.

    Raises:
        RuntimeError: ``input`` is not a vector, or ``r`` is negative.
    """
    if input.ndim != 1:
        raise RuntimeError(f"combinations() takes a vector, got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"combinations(): r must not be negative, got {r}")
    if r == 0:
        return jnp.zeros((0,), input.dtype)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(range(input.shape[0]), r)), np.int64).reshape(-1, r)
    return input[rows] if math.prod(rows.shape) else jnp.zeros(rows.shape, input.dtype)
