"""Quantiles: the values below which a given part of the elements lies."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from flambeau.core.kernels.kinds import Array, Number
from flambeau.core.operators.op import function, op
from flambeau.core.support.modes import modes
from flambeau.core.values.cell import is_abstract
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import wrap_dim
from flambeau.ops.common.ordering import sorting_order
from flambeau.ops.elementwise.arithmetic import interpolated

__all__ = ["nanquantile", "quantile"]

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _check(name: str, input: Any, q: Any, interpolation: str) -> None:
    if input.dtype not in (jnp.float32, jnp.float64):
        raise RuntimeError(f"{name}() takes float32 or float64, got {input.dtype}")
    if not getattr(q, "weak_type", False) and q.dtype != input.dtype:
        raise RuntimeError(f"{name}(): q of {q.dtype} for an input of {input.dtype}")
    if q.ndim > 1:
        raise RuntimeError(f"{name}(): q must be a number or 1-d, got shape {list(q.shape)}")
    if interpolation not in _INTERPOLATIONS:
        known = ", ".join(_INTERPOLATIONS)
        raise RuntimeError(f"{name}(): interpolation must be one of {known}, got {interpolation!r}")
    if input.size == 0:
        raise RuntimeError(f"{name}() of a tensor of shape {list(input.shape)}, without elements")


def _ranks(ordered: Any, q: Any, ignore_nan: bool) -> Any:
    """The fractional position of each quantile along the last dimension: shape (..., q)."""
    size = ordered.shape[-1]
    if not ignore_nan:
        # If an element is NaN, the quantile is the last sorted one, which is NaN.
        with_nan = jnp.isnan(ordered[..., -1:])
        return jnp.where(with_nan, size - 1, q * (size - 1))
    count = jnp.sum(~jnp.isnan(ordered), -1, keepdims=True)
    return q * jnp.maximum(count - 1, 0).astype(q.dtype)


def _between(ordered: Any, ranks: Any, interpolation: str) -> Any:
    """The elements at fractional positions along the last dimension."""
    if interpolation == "lower":
        ranks = jnp.floor(ranks)
    elif interpolation == "higher":
        ranks = jnp.ceil(ranks)
    elif interpolation == "nearest":
        ranks = jnp.round(ranks)
    below = jnp.floor(ranks)
    low = jnp.take_along_axis(ordered, below.astype(jnp.int64), -1)
    if interpolation not in ("linear", "midpoint"):
        return low
    high = jnp.take_along_axis(ordered, jnp.ceil(ranks).astype(jnp.int64), -1)
    weight = 0.5 if interpolation == "midpoint" else ranks - below
    between = interpolated(low, high, jnp.asarray(weight, low.dtype))
    return jnp.where((low == high) & jnp.isinf(low), low, between)


@op(name="quantile")
def _quantile(
    input: Array,
    q: Array | Number,
    dim: int | None,
    keepdim: bool,
    interpolation: str,
    ignore_nan: bool,
) -> Array:
    name = "nanquantile" if ignore_nan else "quantile"
    q = jnp.asarray(q)
    _check(name, input, q, interpolation)
    points = jnp.atleast_1d(q).astype(input.dtype)
    if dim is None:
        rows, kept = jnp.ravel(input), (1,) * input.ndim
    else:
        dim = wrap_dim(dim, input.ndim, name)
        rows = jnp.moveaxis(jnp.atleast_1d(input), dim, -1)
        kept = tuple(1 if d == dim else size for d, size in enumerate(input.shape))
    order = sorting_order(rows, rows.ndim - 1)
    ordered = jnp.take_along_axis(rows, order, -1)
    ranks = _ranks(jax.lax.stop_gradient(ordered), points, ignore_nan)
    ranks = jnp.broadcast_to(ranks, (*ordered.shape[:-1], points.shape[0]))
    found = jnp.moveaxis(_between(ordered, ranks, interpolation), -1, 0)
    if keepdim:
        found = found.reshape(points.shape[0], *kept)
    return found if q.ndim else found[0]


def _quantiles(
    input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool
) -> Any:
    values = q._read() if isinstance(q, Tensor) else q
    if not isinstance(q, Tensor | float | int):
        raise TypeError(f"quantile(): q must be a number or a Tensor, got {type(q).__name__}")
    known = modes.trace is None and not isinstance(values, Tracer) and not is_abstract(values)
    if known and not np.all((np.asarray(values) >= 0) & (np.asarray(values) <= 1)):
        raise RuntimeError(f"quantile(): q must be in [0, 1], got {q}")
    return _quantile(input, q, dim, keepdim, interpolation, ignore_nan)


@function(method=True)
def quantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Any:
    """The values below which the fractions ``q`` of the elements lie; NaN if an element is.

    Args:
        input: A float32 or float64 tensor.
        q: A number in [0, 1], or a 1-d tensor of them, of the dtype of ``input``.
        dim: The dimension to reduce; by default the flattened tensor.
        keepdim: Keep the reduced dimensions, with size 1.
        interpolation: The value between two elements: ``"linear"``, ``"lower"``, ``"higher"``,
            ``"midpoint"`` or ``"nearest"``.

    Returns:
        The reduced shape, with a leading dimension for the elements of a 1-d ``q``.

    Raises:
        RuntimeError: ``q`` is outside [0, 1] or of the wrong shape or dtype; no elements.
        IndexError: There is no such dimension.

    >>> import flambeau
    >>> flambeau.quantile(flambeau.tensor([0.0, 1.0, 2.0]), 0.25)
    tensor(0.5000)
    """
    return _quantiles(input, q, dim, keepdim, interpolation, False)


@function(method=True)
def nanquantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Any:
    """`quantile` of the elements that are not NaN."""
    return _quantiles(input, q, dim, keepdim, interpolation, True)
