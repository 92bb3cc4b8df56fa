"""Reductions over segments of rows: `segment_reduce`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import function, op
from flambeau.core.support.dtype import FLOATING
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.known import is_unknown
from flambeau.ops.indices.placement import nan_unless, needs_integers
from flambeau.ops.indices.scattering import combined

__all__ = ["segment_reduce"]

_REDUCTIONS = {"sum": "sum", "mean": "mean", "prod": "prod", "max": "amax", "min": "amin"}
_REDUCTIONS |= {"amax": "amax", "amin": "amin"}
#: The results for empty segments without ``initial``.
_EMPTY = {"sum": 0.0, "mean": np.nan, "prod": 1.0, "amax": -np.inf, "amin": np.inf}


@function
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Any:
    """The reduction of each segment along a dimension.

    Elements outside all segments are ignored.

    Args:
        data: Floating-point elements.
        reduce: ``"sum"``, ``"mean"``, ``"prod"``, ``"max"`` or ``"min"``. Equal extremes share the
            gradient.
        lengths: The lengths of the segments, ``(*data.shape[:axis], S)``; integers.
        indices: Not supported, as in PyTorch.
        offsets: The starts of the segments, and the end of the last one, ``(*data.shape[:axis], S +
            1)``; takes precedence over ``lengths``.
        axis: The dimension of the segments, the last one of ``lengths`` or ``offsets``.
        unsafe: Do not check the values of ``lengths``. In a compiled function they are never
            checked.
        initial: The initial value of each segment. Without it empty segments give 0, 1, infinities
            or, for a mean, NaN.

    Returns:
        Shape ``(*data.shape[:axis], S, *data.shape[axis + 1:])``.

    Raises:
        RuntimeError: There are neither ``lengths`` nor ``offsets``, their shape does not fit,
            lengths are negative or do not add up to the size of the dimension (the result is NaN
            for such lengths in compiled functions), or ``reduce`` is unknown.
        NotImplementedError: ``data`` is not of floating-point numbers, or lengths are no integers.

    >>> import flambeau
    >>> data = flambeau.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> flambeau.segment_reduce(data, "max", lengths=flambeau.tensor([2, 1]))
    tensor([[3., 4.],
            [5., 6.]])
    """
    if reduce not in _REDUCTIONS:
        raise RuntimeError(
            "segment_reduce(): reduce argument must be either sum, prod, mean, amax or amin, got "
            f"{reduce}"
        )
    if indices is not None:
        raise RuntimeError(
            "segment_reduce(): indices based reduction is not supported yet; give lengths, or call "
            "scatter_reduce"
        )
    given = lengths if offsets is None else offsets
    if given is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if data.dtype.category != FLOATING:
        raise NotImplementedError(
            f"segment_reduce() of {data.dtype}: convert the data to floating point first"
        )
    needs_integers("segment_reduce", given, error=NotImplementedError)
    if axis != given.ndim - 1 or axis >= data.ndim or data.shape[:axis] != given.shape[:axis]:
        raise RuntimeError(
            "segment_reduce(): Expected axis to be the last dimension of lengths but got "
            f"{axis}, for data of shape {list(data.shape)} and segments of shape "
            f"{list(given.shape)}"
        )
    if offsets is None and not unsafe:
        _check_lengths(given._read(), data.shape[axis])
    return _segment_reduce(
        data, _REDUCTIONS[reduce], given, axis, offsets is not None, initial, unsafe
    )


def _check_lengths(lengths: Any, size: int) -> None:
    if is_unknown(lengths):
        return
    lengths = np.asarray(lengths)
    if lengths.size and lengths.min() < 0:
        raise RuntimeError("segment_reduce(): lengths contains negative value!")
    totals = lengths.sum(-1)
    if np.any(totals != size):
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to the size of the "
            f"dimension, {size}, got {totals.tolist()}; with unsafe=True other lengths are allowed"
        )


@op(name="segment_reduce")
def _segment_reduce(
    data: Array, reduce: str, given: Array, axis: int, are_offsets: bool, initial: float | None,
    unsafe: bool,
) -> Array:  # fmt: skip
    batch, size, rest = data.shape[:axis], data.shape[axis], data.shape[axis + 1 :]
    bounds = given
    if not are_offsets:
        ends = jnp.cumsum(given, -1)
        bounds = jnp.concatenate([jnp.zeros_like(ends[..., :1]), ends], -1)
    count = bounds.shape[-1] - 1
    if not (count and data.size):
        start = _EMPTY[reduce] if initial is None else initial
        return jnp.full((*batch, count, *rest), start, data.dtype)
    flat = data.reshape(-1, size, int(np.prod(rest)))

    def of_column(column: Any, bounds: Any) -> Any:
        index = jnp.searchsorted(bounds, jnp.arange(size), side="right") - 1
        return _combined(column, jnp.where(index < 0, count, index), count, reduce, initial)

    of_rows = jax.vmap(of_column, in_axes=(1, None), out_axes=1)
    found = jax.vmap(of_rows)(flat, bounds.reshape(-1, count + 1))
    found = found.reshape(*batch, count, *rest)
    if are_offsets or unsafe:
        return found
    return nan_unless(jnp.all(given >= 0) & jnp.all(jnp.sum(given, -1) == size), found)


def _combined(column: Any, index: Any, count: int, reduce: str, initial: float | None) -> Any:
    start = jnp.full(count, _EMPTY[reduce] if initial is None else initial, column.dtype)
    if reduce in ("amax", "amin"):
        found = combined(start, index, column, reduce=reduce, include_self=False)
        if initial is None:
            return found
        # If an element of the segment equals the initial value, it gets the gradient.
        is_beaten = found < initial if reduce == "amax" else found > initial
        return jnp.where(is_beaten, start, found)
    if reduce != "mean":
        return combined(start, index, column, reduce=reduce, include_self=True)
    before = jnp.full(count, initial or 0, column.dtype)
    total = combined(before, index, column, reduce="sum", include_self=True)
    length = jnp.zeros(count, jnp.int32).at[index].add(1, mode="drop")
    return jnp.where(length == 0, start, total / jnp.maximum(length, 1).astype(column.dtype))
