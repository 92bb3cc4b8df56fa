"""Elements selected by index tensors or masks: `gather`, `take`, `index_select`, `nonzero`, …

A position out of range is an error in eager mode on the CPU. In compiled programs and on other
devices it reads NaN, or the least value of an integer dtype.
"""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from flambeau.core.kernels.kernel import Kernel
from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.dispatch import run_with_constants
from flambeau.core.operators.op import function, op
from flambeau.core.support.generations import remembered
from flambeau.core.support.modes import modes
from flambeau.core.values.convert import place
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import wrap_dim
from flambeau.ops.common.derivatives import moved
from flambeau.ops.common.known import present_values
from flambeau.ops.indices.placement import check_positions, first_outside, inside, needs_integers
from flambeau.ops.indices.subscript import as_unknown, picked, positions_in
from flambeau.ops.selections.selection import coordinates
from flambeau.ops.shapes.shape import atleast_1d, broadcast_shapes, stack

__all__ = [
    "argwhere", "gather", "index_select", "masked_select", "nonzero", "nonzero_static", "take",
    "take_along_dim",
]  # fmt: skip


@op(name="gather", linear=True)
def _gather(input: Array, dim: int, index: Array) -> Array:
    if not index.size:
        return jnp.zeros(index.shape, input.dtype)
    if not input.ndim or not index.ndim:
        return _at_flat(input, index, wraps=False)
    part = tuple(slice(None) if d == dim else slice(n) for d, n in enumerate(index.shape))
    along = functools.partial(jnp.take_along_axis, axis=dim, mode="fill")
    return moved(along, input[part], inside(index, input.shape[dim]))


def _at_flat(input: Any, index: Any, *, wraps: bool) -> Any:
    places = inside(index, input.size, wraps=wraps)
    return moved(lambda flat, index: flat.at[index].get(mode="fill"), input.reshape(-1), places)


def check_gathering(input: Any, dim: Any, index: Any, name: str) -> int:
    """Check the index tensor of `gather` and similar operators.

    Returns:
        The dimension, counted from the front.

    Raises:
        RuntimeError: Its dtype is not an integer, it has another number of dimensions than
            ``input``, or it is larger in another dimension than ``dim``.
        IndexError: The dimension is out of range.
    """
    needs_integers(name, index)
    dim = wrap_dim(dim, input.ndim, name)
    if max(input.ndim, 1) != max(index.ndim, 1) and index.numel():
        raise RuntimeError(
            f"{name}(): index has {index.ndim} dimensions and input {input.ndim}; they must have "
            "as many"
        )
    for d, size in enumerate(index.shape):
        if input.ndim and d != dim and index.numel() and size > input.shape[d]:
            raise RuntimeError(
                f"{name}(): index of shape {list(index.shape)} is larger than input of shape "
                f"{list(input.shape)} at dimension {d}"
            )
    return dim


@function(method=True)
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Any:
    """The elements at positions ``index`` along ``dim``: ``out[i, j] = input[index[i, j], j]``.

    Args:
        index: Integers from 0 on, with as many dimensions as ``input`` and no larger than it in
            the others; the result has its shape.
        sparse_grad: Accepted; gradients are dense.

    Raises:
        RuntimeError: ``index`` does not fit, or has elements out of range.
        IndexError: The dimension is out of range.
    """
    dim = check_gathering(input, dim, index, "gather")
    size = input.shape[dim] if input.ndim else 1
    check_positions(index, 0, size, dim, RuntimeError, "gather")
    return _gather(input, dim, index)


@function(method=True)
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Any:
    """`gather` with broadcasting in the other dimensions; without ``dim``, on flattened tensors.

    Raises:
        RuntimeError: ``indices`` does not fit, or has elements out of range.
        IndexError: The dimension is out of range.
    """
    needs_integers("take_along_dim", indices)
    if dim is None:
        input, indices, dim = input.reshape(-1), indices.reshape(-1), 0
    dim = wrap_dim(dim, input.ndim, "take_along_dim")
    if input.ndim != indices.ndim:
        raise RuntimeError(
            f"take_along_dim(): input has {input.ndim} dimensions and indices {indices.ndim}; "
            "they must have as many"
        )
    others = [[1 if d == dim else n for d, n in enumerate(each.shape)] for each in (input, indices)]
    shape = broadcast_shapes(*others)
    sizes = [tuple(n if d != dim else -1 for d, n in enumerate(shape))] * 2
    size = input.shape[dim] if input.ndim else 1
    check_positions(indices, -size, size, dim, RuntimeError, "take_along_dim")
    wrapped = _wrapped(indices, size)
    return _gather(input.expand(sizes[0]), dim, wrapped.expand(sizes[1]))


@op(differentiable=False)
def _wrapped(index: Array, size: int) -> Array:
    return jnp.where(index < 0, index + size, index)


@op(name="index_select", linear=True)
def _index_select(input: Array, dim: int, index: Array) -> Array:
    if not input.ndim:
        return _at_flat(input, index.reshape(()), wraps=False)
    places = inside(index.reshape(-1), input.shape[dim])
    return moved(functools.partial(jnp.take, axis=dim, mode="fill"), input, places)


@function(method=True)
def index_select(input: Tensor, dim: int, index: Tensor) -> Any:
    """The slices at positions ``index`` of dimension ``dim``, in that order; a copy.

    Args:
        index: A vector, or a number, of integers from 0 on.

    Raises:
        IndexError: ``index`` is not a vector, or has elements out of range, or ``dim`` is.
        RuntimeError: ``index`` is not of an integer dtype.
    """
    needs_integers("index_select", index)
    dim = wrap_dim(dim, input.ndim, "index_select")
    if index.ndim > 1:
        raise IndexError(f"index_select(): index must be a vector, got shape {list(index.shape)}")
    size = input.shape[dim] if input.ndim else 1
    if not input.ndim and index.numel() != 1:
        raise RuntimeError(
            f"index_select(): Index to scalar can have only 1 value, got {index.numel()}; a tensor "
            "without dimensions has no others"
        )
    check_positions(index, 0, size, dim, IndexError, "index_select")
    return _index_select(input, dim, index)


@op(name="take", linear=True)
def _take(input: Array, index: Array) -> Array:
    return _at_flat(input, index, wraps=True)


@function(method=True)
def take(input: Tensor, index: Tensor) -> Any:
    """The elements at positions ``index`` of the flattened tensor, in the shape of ``index``.

    Raises:
        IndexError: A position is out of range; negative ones count from the end.
        RuntimeError: ``index`` is not of int64.
    """
    needs_integers("take", index, long_only=True)
    check_flat(input, index, "take")
    return _take(input, index)


def check_flat(input: Tensor, index: Tensor, name: str) -> None:
    """Raise an IndexError if known positions exceed the flattened tensor."""
    count = input.numel()
    outside = first_outside(index, -count, count)
    if outside is not None:
        raise IndexError(f"{name}(): index {outside} is out of range for {count} elements")


# Elements under a mask: their number depends on its values


@remembered
def _masked_select_kernel(shape: tuple[int, ...]) -> Kernel:
    def masked_select(array: Any, positions: Any) -> Any:
        return jnp.broadcast_to(array, shape).reshape(-1)[positions]

    return Kernel(masked_select, "masked_select", "MaskedSelectBackward0", linear=True)


@function(method=True)
def masked_select(input: Tensor, mask: Tensor) -> Any:
    """The elements where ``mask`` is true, as a vector; the two are broadcast.

    In a compiled program, where the number of elements is unknown, the result is a `Selection`.

    Raises:
        RuntimeError: ``mask`` is not of bool, or the shapes do not broadcast.
    """
    if mask.dtype.name != "bool":
        raise RuntimeError(f"masked_select(): mask must be of bool, got {mask.dtype}")
    shape = tuple(broadcast_shapes(input.shape, mask.shape))
    if modes.trace is not None:
        # A mask of the same shape is kept unchanged, so that it is recognized later.
        fits = tuple(mask.shape) == shape
        return atleast_1d(input.expand(shape))[atleast_1d(mask if fits else mask.expand(shape))]
    known = present_values("masked_select", mask._read(), "use flambeau.where(mask, x, 0)")
    (positions,) = positions_in(np.broadcast_to(known, shape).reshape(-1))
    return run_with_constants(_masked_select_kernel(shape), (input,), (positions,))


@function(method=True)
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not zero.

    In a compiled program, where their number is unknown, each result is a `Selection`.

    Args:
        as_tuple: Return one vector per dimension instead of a matrix with a row per element.
    """
    trace = modes.trace
    if trace is not None and input.ndim and not input.is_meta:
        trace.note(input)
        mask = as_unknown(input._read())
        if mask.dtype != np.bool_:
            mask = mask != 0
        positions = picked(mask)
        if positions is None:
            found = coordinates(mask)
        else:
            found = tuple(map(Tensor._wrap, positions))
        return found if as_tuple else stack(found, 1)
    known = present_values("nonzero", input._read(), "use flambeau.where(condition, x, y)")
    along = positions_in(np.atleast_1d(known))
    if as_tuple:
        return tuple([_indices(each, input) for each in along])
    return _indices(np.stack(along, -1)[:, : known.ndim], input)


def _indices(found: np.ndarray, beside: Tensor) -> Tensor:
    return Tensor._wrap(place(np.ascontiguousarray(found, np.int64), beside.device))


@op(name="nonzero_static", differentiable=False)
def _nonzero_static(input: Array, size: int, fill_value: int) -> Array:
    if size < 0:
        raise RuntimeError(f"nonzero_static(): size must not be negative, got {size}")
    if not input.ndim:
        return jnp.zeros((size, 0), np.int64)
    found = jnp.nonzero(input, size=size, fill_value=fill_value)
    return jnp.stack(found, -1).astype(np.int64)


@function(method=True)
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Any:
    """The indices of the first ``size`` elements that are not zero, a row for each.

    Its shape does not depend on the elements, so compiled programs can use it.

    Args:
        size: The number of rows.
        fill_value: The value of surplus rows.

    Raises:
        RuntimeError: ``size`` is negative.
    """
    return _nonzero_static(input, size, fill_value)


@function(method=True)
def argwhere(input: Tensor) -> Any:
    """The indices of the elements that are not zero, a row for each; see `nonzero`."""
    return nonzero(input)
