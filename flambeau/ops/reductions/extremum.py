"""The greatest, least, median and most frequent elements, and their indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from flambeau import return_types
from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import function, op
from flambeau.core.support import errors
from flambeau.core.support.dtype import BOOLEAN
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import (
    Dims,
    category,
    needs_ordered,
    needs_real_number,
    wrap_dim,
    wrap_dims,
)
from flambeau.ops.common.derivatives import shared_by_equals
from flambeau.ops.common.ordering import first_extreme, sorting_order
from flambeau.ops.elementwise.selection import maximum, minimum

__all__ = [
    "amax", "amin", "aminmax", "argmax", "argmin", "max", "median", "min", "mode", "nanmedian",
]  # fmt: skip


def check_not_empty(name: str, input: Any, dims: tuple[int, ...]) -> None:
    """Raise if a reduction without a neutral element has no elements.

    Raises:
        IndexError: It has no elements.
    """
    for dim in dims:
        if input.shape[dim] == 0:
            raise errors.IndexError(
                f"{name}(): dimension {dim} of a tensor of shape {list(input.shape)} has no "
                "elements to choose from"
            )


def _check_any(name: str, input: Any, error: Callable[[str], Exception] = RuntimeError) -> None:
    if input.size == 0:
        raise error(
            f"{name}() of a tensor of shape {list(input.shape)}, which has no elements; name a "
            "dimension that has some with dim="
        )


def picked(input: Any, indices: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """The elements at ``indices``, of size 1 in ``dim``; only these get the gradient."""
    values = jnp.take_along_axis(input, indices, dim)
    if not keepdim:
        values, indices = jnp.squeeze(values, dim), jnp.squeeze(indices, dim)
    return values, indices.astype(jnp.int64)


def of_scalar(input: Any) -> tuple[Any, Any]:
    """The result along a dimension of a 0-d tensor: itself, at index 0."""
    return input, jnp.zeros((), jnp.int64)


# The greatest and the least


def _extreme(name: str, reduce: Any, input: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    needs_ordered(name, input)
    if not dims:
        return input
    value = reduce(jax.lax.stop_gradient(input), dims, keepdims=True)
    if jnp.issubdtype(input.dtype, jnp.floating):
        value = shared_by_equals(input, dims, value)
    return value if keepdim else jnp.squeeze(value, dims)


def _over_dims(name: str, reduce: Any, input: Any, dim: Dims, keepdim: bool) -> Any:
    dims = wrap_dims(dim, input.ndim, name)
    if dim is None or dim == ():
        _check_any(name, input)
    check_not_empty(name, input, dims)
    return _extreme(name, reduce, input, dims, keepdim)


@op(method=True)
def amax(input: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    """The greatest element, of the whole tensor or over some dimensions.

    Equal greatest elements share the gradient.

    Args:
        input: A tensor.
        dim: One dimension or several; all of them by default.
        keepdim: Keep the reduced dimensions, with size 1.

    Raises:
        IndexError: There is no such dimension, or it has size 0.
        RuntimeError: The tensor has no elements and no dimension is given.
    """
    return _over_dims("amax", jnp.max, input, dim, keepdim)


@op(method=True)
def amin(input: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    """The least element, of the whole tensor or over some dimensions; see `amax`."""
    return _over_dims("amin", jnp.min, input, dim, keepdim)


@op(method=True, returns=return_types.aminmax)
def aminmax(input: Array, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The least and the greatest element, of the whole tensor or along a dimension.

    Raises:
        IndexError: There is no such dimension, or it has size 0.
        RuntimeError: The tensor has no elements and no dimension is given.
    """
    return (
        _over_dims("aminmax", jnp.min, input, dim, keepdim),
        _over_dims("aminmax", jnp.max, input, dim, keepdim),
    )


@op(name="max", node="MaxBackward1")
def _max_of_all(input: Array) -> Array:
    _check_any("max", input)
    return _extreme("max", jnp.max, input, tuple(range(input.ndim)), False)


@op(name="min", node="MinBackward1")
def _min_of_all(input: Array) -> Array:
    _check_any("min", input)
    return _extreme("min", jnp.min, input, tuple(range(input.ndim)), False)


def _along(name: str, input: Any, dim: Any, keepdim: bool) -> tuple[Any, Any]:
    needs_ordered(name, input)
    dim = wrap_dim(dim, input.ndim, name)
    if input.ndim == 0:
        return of_scalar(input)
    check_not_empty(name, input, (dim,))
    index = first_extreme(jax.lax.stop_gradient(input), dim, greatest=name == "max")
    return picked(input, index, dim, keepdim)


@op(name="max", returns=return_types.max)
def _max_along(input: Array, dim: int, keepdim: bool) -> Any:
    return _along("max", input, dim, keepdim)


@op(name="min", returns=return_types.min)
def _min_along(input: Array, dim: int, keepdim: bool) -> Any:
    return _along("min", input, dim, keepdim)


def dimension_or_other(name: str, dim: Any, other: Any, keepdim: Any) -> tuple[Any, Any]:
    """The overload of PyTorch's `max` and `min` that a call selects."""
    if isinstance(dim, Tensor):
        dim, other = None, dim
    if other is not None and (dim is not None or keepdim):
        raise TypeError(f"{name}() compares with a tensor or reduces a dimension, not both")
    if other is not None and not isinstance(other, Tensor):
        raise TypeError(f"{name}(): other must be a Tensor, got {type(other).__name__}")
    return dim, other


@function(method=True)
def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The greatest element; the greatest along a dimension and its index; or the greater of two.

    ``max(input)`` gives a 0-d tensor, and equal greatest elements share its gradient. ``max(input,
    dim, keepdim=False)`` gives ``(values, indices)``, where the first of several equal elements has
    the index and gets the gradient. ``max(input, other)`` is `maximum`.

    Raises:
        IndexError: There is no such dimension, or it has size 0.
        RuntimeError: The tensor has no elements and no dimension is given.

    >>> import flambeau
    >>> flambeau.max(flambeau.tensor([[1, 5], [7, 2]]), 1).indices
    tensor([1, 0])
    """
    dim, other = dimension_or_other("max", dim, other, keepdim)
    if other is not None:
        return maximum(input, other)
    return _max_of_all(input) if dim is None else _max_along(input, dim, keepdim)


@function(method=True)
def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The least element; the least along a dimension and its index; or the lesser of two.

    See `max`, which has the same overloads and errors.
    """
    dim, other = dimension_or_other("min", dim, other, keepdim)
    if other is not None:
        return minimum(input, other)
    return _min_of_all(input) if dim is None else _min_along(input, dim, keepdim)


def _position(name: str, input: Any, dim: Any, keepdim: bool) -> Any:
    needs_ordered(name, input)
    if category(input) == BOOLEAN:
        raise RuntimeError(f"{name}() is not defined for bool tensors; convert with int() first")
    ndim = input.ndim
    if dim is None:
        _check_any(name, input, errors.IndexError)
        input, dim = jnp.ravel(input), 0
    elif ndim == 0:
        wrap_dim(dim, 0, name)
        input, dim = input[None], 0
    else:
        dim = wrap_dim(dim, ndim, name)
        check_not_empty(name, input, (dim,))
    found = first_extreme(input, dim, greatest=name == "argmax").astype(jnp.int64)
    if input.ndim == ndim:
        return found if keepdim else jnp.squeeze(found, dim)
    return found.reshape((1,) * ndim if keepdim else ())


@op(method=True, differentiable=False)
def argmax(input: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """The index of the greatest element, the first among equals, as int64.

    Args:
        input: A tensor.
        dim: The dimension to search; without it the index is that of the flattened tensor.
        keepdim: Keep the reduced dimensions, with size 1.

    Raises:
        IndexError: There is no such dimension, or there are no elements.
    """
    return _position("argmax", input, dim, keepdim)


@op(method=True, differentiable=False)
def argmin(input: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """The index of the least element, the first among equals, as int64; see `argmax`."""
    return _position("argmin", input, dim, keepdim)


# The middle


def _middle_index(input: Any, dim: int, ignore_nan: bool) -> Any:
    """The position of the median along ``dim``; for an even number, the lower of the middle two."""
    order = sorting_order(input, dim)
    absent = jnp.isnan(input)
    count = jnp.sum(~absent, dim, keepdims=True)
    middle = jnp.maximum((count if ignore_nan else input.shape[dim]) - 1, 0) // 2
    index = jnp.take_along_axis(order, jnp.broadcast_to(middle, count.shape), dim)
    if ignore_nan:
        return index
    first_nan = first_extreme(absent, dim, greatest=True)
    return jnp.where(count < input.shape[dim], first_nan, index)


def _median_of_all(name: str, input: Any, ignore_nan: bool) -> Any:
    needs_real_number(name, input)
    if input.size == 0:
        if not jnp.issubdtype(input.dtype, jnp.floating):
            raise RuntimeError(f"{name}() of no integers is not defined")
        return jnp.full((), jnp.nan, input.dtype)
    flat = jnp.ravel(input)
    value = jnp.take(jax.lax.stop_gradient(flat), _middle_index(flat, 0, ignore_nan))
    if jnp.issubdtype(input.dtype, jnp.floating):
        value = shared_by_equals(flat, (0,), value)
    return value[0]


def _median_along(name: str, input: Any, dim: int, keepdim: bool, ignore_nan: bool) -> Any:
    needs_real_number(name, input)
    dim = wrap_dim(dim, input.ndim, name)
    if input.ndim == 0:
        return of_scalar(input)
    check_not_empty(name, input, (dim,))
    indices = _middle_index(jax.lax.stop_gradient(input), dim, ignore_nan)
    return picked(input, indices, dim, keepdim)


@op(name="median")
def _median(input: Array) -> Array:
    return _median_of_all("median", input, False)


@op(name="median", node="MedianBackward1", returns=return_types.median)
def _median_dim(input: Array, dim: int, keepdim: bool) -> Any:
    return _median_along("median", input, dim, keepdim, False)


@op(name="nanmedian")
def _nanmedian(input: Array) -> Array:
    return _median_of_all("nanmedian", input, True)


@op(name="nanmedian", node="NanmedianBackward1", returns=return_types.nanmedian)
def _nanmedian_dim(input: Array, dim: int, keepdim: bool) -> Any:
    return _median_along("nanmedian", input, dim, keepdim, True)


@function(method=True)
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median, for an even number of elements the lower of the middle two; NaN if any is.

    ``median(input)`` gives a 0-d tensor, ``median(input, dim, keepdim=False)`` the named tuple
    ``(values, indices)``.

    Raises:
        IndexError: There is no such dimension, or it has size 0.
    """
    return _median(input) if dim is None else _median_dim(input, dim, keepdim)


@function(method=True)
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """`median` of the elements that are not NaN."""
    return _nanmedian(input) if dim is None else _nanmedian_dim(input, dim, keepdim)


# The most frequent


@op(method=True, returns=return_types.mode)
def mode(input: Array, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent element along a dimension, and its last index.

    Among equally frequent elements it is the least.

    Raises:
        IndexError: There is no such dimension, or it has size 0.
    """
    needs_ordered("mode", input)
    dim = wrap_dim(dim, input.ndim, "mode")
    if input.ndim == 0:
        return of_scalar(input)
    check_not_empty("mode", input, (dim,))
    fixed = jax.lax.stop_gradient(input)
    order = sorting_order(fixed, dim)
    ordered = jnp.take_along_axis(fixed, order, dim)
    positions = jax.lax.broadcasted_iota(jnp.int64, ordered.shape, dim)
    before = jnp.roll(ordered, 1, dim)
    starts = jnp.where((positions == 0) | (ordered != before), positions, 0)
    run = positions - jax.lax.cummax(starts, dim)
    # The first run to reach the greatest length is that of the least value.
    ends = first_extreme(run, dim, greatest=True)
    return picked(input, jnp.take_along_axis(order, ends, dim), dim, keepdim)
