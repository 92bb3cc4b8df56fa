"""Positions from index arrays: shared by the operators that read and write by index."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from flambeau.core.kernels.kinds import SIZES
from flambeau.core.values.steps import missing
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.values import outside

__all__: list[str] = []

Dims: TypeAlias = Annotated[tuple[int, ...], SIZES]


def inside(index: Any, size: int, *, wraps: bool = False) -> Any:
    """Positions for XLA to read or write; those out of range read NaN or write nothing.

    All positions out of range become ``size``, which the modes "fill" and "drop" ignore. Otherwise
    these modes would count negative positions from the end, and would truncate 64 bits to 32.

    Args:
        index: Integers of any dtype.
        size: The number of valid positions.
        wraps: Whether negative positions, down to ``-size``, count from the end.
    """
    narrow = np.int32 if size <= np.iinfo(np.int32).max else np.int64
    # A number beyond the range of the index's dtype would wrap around.
    index = index.astype(jnp.promote_types(index.dtype, narrow))
    if wraps:
        index = jnp.where(index < 0, index + size, index)
    is_outside = (index < 0) | (index >= size)
    outside = lax.convert_element_type(size, narrow)
    return jnp.where(is_outside, outside, index.astype(narrow))


def all_inside(
    shape: tuple[int, ...], dims: Dims, indices: tuple[Any, ...], *, wraps: bool = False
) -> tuple[Any, ...]:
    """`inside` for index arrays of several dimensions of an array with this shape."""
    pairs = zip(dims, indices, strict=True)
    return tuple(inside(index, shape[dim], wraps=wraps) for dim, index in pairs)


def nan_unless(is_inside: Any, values: Any) -> Any:
    """``values``, with NaN, also as gradient, where an index is out of range."""
    factor = jnp.where(is_inside, np.ones((), values.dtype), np.asarray(np.nan, values.dtype))
    return values * factor


def or_missing(is_inside: Any, values: Any) -> Any:
    """``values``, with NaN (the least integer, True) where an index is out of range."""
    return jnp.where(is_inside, values, missing(values.dtype))


def full_subscript(ndim: int, dims: Dims, indices: tuple[Any, ...]) -> tuple[Any, ...]:
    """The subscript with each index array at its dimension and full slices elsewhere."""
    full: list[Any] = [slice(None)] * ndim
    for dim, index in zip(dims, indices, strict=True):
        full[dim] = index
    return tuple(full)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def overwrite(dims: Dims, array: Any, value: Any, *indices: Any) -> Any:
    """``array`` with the elements at index arrays replaced by ``value``.

    As in PyTorch, every value gets the cotangent of its position, even if several are written to
    one position; JAX's own rule gives it to only one of them, at extra cost.
    """
    return array.at[full_subscript(array.ndim, dims, indices)].set(value, mode="drop")


@overwrite.defjvp
def _overwrite_jvp(dims: Dims, primals: Any, tangents: Any) -> Any:
    array, _, *indices = primals
    subscript = full_subscript(array.ndim, dims, tuple(indices))
    stays = jnp.ones(array.shape, bool).at[subscript].set(False, mode="drop")
    kept = jnp.where(stays, tangents[0], 0)
    # The transpose of adding is reading, for each value.
    return overwrite(dims, *primals), kept.at[subscript].add(tangents[1], mode="drop")


def along(
    function: Callable[..., Any], dim: int, array: Any, index: Any, src: Any | None = None
) -> Any:
    """Apply a function of vectors along one dimension, at every position of the others.

    Args:
        function: Takes a vector of ``array``, one of ``index`` and, if given, one of ``src``; gives
            the new vector of ``array``.
        dim: The dimension of the vectors.
        array: Any shape.
        index: Positions from 0 on, no larger than ``array`` in the other dimensions; the rest of
            ``array`` is unchanged.
        src: No smaller than ``index``; the rest of it is not used.
    """
    if not array.ndim:
        src = src if src is None else src.reshape(-1)
        return along(function, 0, array.reshape(1), index.reshape(-1), src).reshape(())
    part = tuple(slice(None) if d == dim else slice(n) for d, n in enumerate(index.shape))
    operands = [array[part], inside(index, array.shape[dim])]
    if src is not None:
        operands.append(src[tuple(slice(n) for n in index.shape)])
    operands = [jnp.moveaxis(each, dim, -1) for each in operands]
    for _ in range(array.ndim - 1):
        function = jax.vmap(function)
    result = jnp.moveaxis(function(*operands), -1, dim)
    return result if result.shape == array.shape else array.at[part].set(result)


def check_positions(
    index: Tensor, low: int, high: int, dim: int, error: type[Exception], name: str
) -> None:
    """Raise if an index tensor that is known and on the CPU has elements outside a range.

    In a compiled program and on other devices positions out of range are not written, and read NaN
    (the least value of an integer dtype).

    Args:
        index: The indices to check.
        low: The least allowed value.
        high: The upper bound, exclusive: the size of the dimension.
        dim: The indexed dimension, for the message.
        error: The error to raise.
        name: The operator, for the message.
    """
    outside = first_outside(index, low, high)
    if outside is not None:
        raise error(
            f"{name}(): index {outside} is out of bounds for dimension {dim} with size {high}"
        )


def first_outside(index: Any, low: int, high: int) -> int | None:
    """The first element below ``low`` or not below ``high``; ``None`` also if it is unknown."""
    elements = outside(index, low, high)
    if elements is None:
        return None
    return int(elements[(elements < low) | (elements >= high)][0])


def needs_integers(
    name: str, index: Any, *, long_only: bool = False, error: type[Exception] = RuntimeError
) -> None:
    """Raise unless an index has the dtype int64, or int32 if allowed."""
    found = index.dtype.name
    if found != "int64" and (long_only or found != "int32"):
        allowed = "int64" if long_only else "int32 or int64"
        raise error(f"{name}(): index must be of {allowed}, got {found}; convert it first")
