"""Counting elements: distinct ones, by value, and by range.

The number of distinct elements depends on their values, so `unique` and `unique_consecutive` need
known values and fail in a compiled program. There `bincount` needs ``minlength``.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from flambeau.core.kernels.kinds import Array, Number
from flambeau.core.operators.op import function, op
from flambeau.core.support.dtype import INTEGER, float32, float64
from flambeau.core.values.convert import place
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import needs_floating, wrap_dim
from flambeau.ops.common.known import is_traced, known_values
from flambeau.ops.common.values import concrete_values
from flambeau.ops.indices.placement import inside

__all__ = ["bincount", "histc", "unique", "unique_consecutive"]


def _beside(tensor: Tensor, *arrays: np.ndarray) -> Any:
    """Arrays as tensors on the device of ``tensor``; a single one without a tuple."""
    results = tuple(Tensor._wrap(place(each, tensor.device)) for each in arrays)
    return results[0] if len(results) == 1 else results


def _as_integers(positions: np.ndarray) -> np.ndarray:
    return positions.astype(np.int64)


@function(method=True)
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements, sorted, or the distinct slices along a dimension.

    It has no gradient.

    Args:
        input: A tensor. NaNs are distinct from one another.
        sorted: Ignored: the results are always sorted.
        return_inverse: Also return, for each element or slice, the index of its distinct value.
        return_counts: Also return how often each distinct value occurs.
        dim: The dimension whose slices are compared; without it, the elements of the whole tensor.

    Returns:
        A tensor, or a tuple of it with the requested inverse and counts.

    Raises:
        TracedValueError: In a compiled program, since the shape depends on the elements.
        IndexError: There is no such dimension.

    >>> import flambeau
    >>> flambeau.unique(flambeau.tensor([3, 1, 3]))
    tensor([1, 3])
    """
    values = known_values("unique", input)
    if dim is not None:
        dim = wrap_dim(dim, values.ndim, "unique")
        rows, inverse, counts = _unique_rows(np.moveaxis(np.atleast_1d(values), dim, 0))
        found = np.moveaxis(rows, 0, dim)
    else:
        found, inverse, counts = np.unique(
            values, return_inverse=True, return_counts=True, equal_nan=False
        )
        inverse = inverse.reshape(values.shape)
    extra = [inverse] * return_inverse + [counts] * return_counts
    return _beside(input, found, *map(_as_integers, extra))


def _unique_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct rows in lexicographic order, the index of each row's, and their counts."""
    columns = rows.reshape(rows.shape[0], -1).T
    order = np.lexsort(columns[::-1]) if columns.size else np.arange(len(rows))
    ordered = rows[order]
    starts = _starts(ordered)
    inverse = np.empty(len(rows), np.int64)
    inverse[order] = np.cumsum(starts) - 1
    return ordered[starts], inverse, np.bincount(inverse, minlength=int(starts.sum()))


def _starts(rows: np.ndarray) -> np.ndarray:
    """Whether each row differs from the one before it."""
    starts = np.ones(len(rows), bool)
    if len(rows) > 1:
        starts[1:] = (rows[1:] != rows[:-1]).reshape(len(rows) - 1, -1).any(1)
    return starts


@function(method=True)
def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The elements, or the slices along a dimension, that differ from the one before them.

    It has no gradient.

    Args:
        input: A tensor.
        return_inverse: Also return, for each element or slice, the index of its run.
        return_counts: Also return the length of each run.
        dim: The dimension whose slices are compared; without it, the elements of the flattened
            tensor.

    Returns:
        A tensor, or a tuple of it with the requested inverse and counts.

    Raises:
        TracedValueError: In a compiled program, since the shape depends on the elements.
        IndexError: There is no such dimension.
    """
    values = known_values("unique_consecutive", input)
    if dim is None:
        rows, shape, dim = values.ravel(), values.shape, 0
    else:
        dim = wrap_dim(dim, values.ndim, "unique_consecutive")
        rows = np.moveaxis(np.atleast_1d(values), dim, 0)
        shape = (len(rows),)
    starts = _starts(rows)
    inverse = np.cumsum(starts) - 1
    extra = [inverse.reshape(shape)] * return_inverse
    extra += [np.bincount(inverse, minlength=int(starts.sum()))] * return_counts
    return _beside(input, np.moveaxis(rows[starts], 0, dim), *map(_as_integers, extra))


@function(method=True)
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Any:
    """The counts of the integers 0, 1, 2, ..., or the sums of their weights.

    Args:
        input: Integers that are not negative, shape ``(n,)``.
        weights: A weight for each, shape ``(n,)``.
        minlength: The minimum length of the result. In a compiled program it is the length, and
            larger elements are not counted.

    Returns:
        Counts as int64; sums of weights as float32 for float32 weights, else as float64.

    Raises:
        TracedValueError: In a compiled program without ``minlength``, since the shape depends on
            the elements.
        RuntimeError: ``input`` is not 1-d or has negative elements; the weights do not fit.
        NotImplementedError: ``input`` is not of an integer dtype.
    """
    if input.dtype.category != INTEGER:
        raise NotImplementedError(f"bincount() counts integers, got {input.dtype.name}")
    if minlength < 0:
        raise RuntimeError(f"bincount(): minlength must not be negative, got {minlength}")
    if minlength and is_traced(input):
        return _bincount(input, weights, minlength)
    values = known_values("bincount", input, "give it minlength")
    if values.ndim != 1 or (values.size and values.min() < 0):
        least = f" with least element {values.min()}" if values.size else ""
        raise RuntimeError(
            "bincount() takes a 1-d tensor of integers that are not negative, got shape "
            f"{list(values.shape)}{least}"
        )
    if weights is None:
        return _beside(input, _as_integers(np.bincount(values, minlength=minlength)))
    if weights.shape != input.shape:
        raise RuntimeError(
            f"bincount(): weights of shape {list(weights.shape)} for an input of shape "
            f"{list(input.shape)}"
        )
    factors = known_values("bincount", weights).astype(np.float64)
    sums = np.bincount(values, factors, minlength)
    to = float32 if weights.dtype is float32 else float64
    return _beside(input, sums.astype(to.numpy))


@op(differentiable=False)
def _bincount(input: Array, weights: Array | None, length: int) -> Array:
    if input.ndim != 1:
        raise RuntimeError(
            "bincount() takes a 1-d tensor of integers that are not negative, got shape "
            f"{list(input.shape)}"
        )
    if weights is None:
        amounts = jnp.ones((), np.int64)
    elif weights.shape != input.shape:
        raise RuntimeError(
            f"bincount(): weights of shape {list(weights.shape)} for an input of shape "
            f"{list(input.shape)}"
        )
    else:
        amounts = weights if weights.dtype == np.float32 else weights.astype(np.float64)
    return jnp.zeros(length, amounts.dtype).at[inside(input, length)].add(amounts, mode="drop")


@op(name="histc", differentiable=False)
def _histc(input: Array, bins: int, min: Array | Number, max: Array | Number) -> Array:
    needs_floating("histc", input)
    flat = jnp.ravel(input)
    low, high = jnp.asarray(min, input.dtype), jnp.asarray(max, input.dtype)
    if flat.size:
        unset = low == high
        low, high = jnp.where(unset, flat.min(), low), jnp.where(unset, flat.max(), high)
    # An empty range is widened by one on both sides.
    low, high = jnp.where(low == high, low - 1, low), jnp.where(low == high, high + 1, high)
    position = jnp.floor((flat - low) / (high - low) * bins)
    position = jnp.where(flat == high, bins - 1, position)
    inside = (flat >= low) & (flat <= high)
    index = jnp.where(inside, position, bins).astype(jnp.int32)
    return jnp.zeros(bins, input.dtype).at[index].add(1, mode="drop")


@function(method=True)
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """The number of elements in each of some ranges of equal width.

    Args:
        input: A floating point tensor, of any shape.
        bins: The number of ranges.
        min: The start of the first range.
        max: The end of the last range; elements outside are not counted. If ``min`` and ``max`` are
            equal, the least and the greatest element are used instead.

    Returns:
        Shape ``(bins,)``, in the dtype of ``input``.

    Raises:
        RuntimeError: There are no bins, or the range is empty or not finite.
        NotImplementedError: ``input`` is not floating point.
    """
    if bins < 1:
        raise RuntimeError(f"histc(): the number of bins must be positive, got {bins}")
    found = concrete_values(input) if min == max else None
    ends = (min, max) if found is None or not found.size else (found.min(), found.max())
    if not all(map(math.isfinite, ends)):
        raise RuntimeError(f"histc(): the range from {ends[0]} to {ends[1]} is not finite")
    if min > max:
        raise RuntimeError(f"histc(): max must be larger than min, got {max} and {min}")
    return _histc(input, bins, min, max)
