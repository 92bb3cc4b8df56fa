"""Differences of neighbouring elements, and integrals by the trapezoidal rule."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array, Number
from flambeau.core.kernels.promotion import promote, result_dtype
from flambeau.core.operators.op import function, op
from flambeau.core.support import errors
from flambeau.core.support.dtype import FLOATING, get_default_dtype
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import category, wrap_dim

__all__ = ["cumulative_trapezoid", "diff", "trapezoid", "trapz"]


@op(widen=True, method=True, node="SubBackward0", linear=True)
def diff(
    input: Array,
    n: int = 1,
    dim: int = -1,
    prepend: Array | None = None,
    append: Array | None = None,
) -> Array:
    """Each element along a dimension minus the previous one; for bools, whether they differ.

    Args:
        input: A tensor.
        n: The number of times to take differences.
        dim: The dimension, which becomes shorter by ``n``.
        prepend: A tensor to put before ``input`` first.
        append: A tensor to put after ``input`` first.

    Raises:
        RuntimeError: ``input`` is 0-d, or ``n`` is negative.
        IndexError: There is no such dimension.

    >>> import flambeau
    >>> flambeau.diff(flambeau.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    if input.ndim == 0:
        raise RuntimeError("diff() needs at least one dimension, got a 0-d tensor")
    if n < 0:
        raise RuntimeError(f"diff(): the order n must not be negative, got {n}")
    dim = wrap_dim(dim, input.ndim, "diff")
    parts = [each for each in (prepend, input, append) if each is not None]
    to = result_dtype(tuple(parts)).numpy
    joined = jnp.concatenate([each.astype(to) for each in parts], dim)
    for _ in range(min(n, joined.shape[dim])):
        above, below = _neighbours(joined, dim)
        joined = above ^ below if joined.dtype == jnp.bool_ else above - below
    return joined


def _neighbours(array: Any, dim: int) -> tuple[Any, Any]:
    """All elements along ``dim`` except the first, and all except the last."""
    size = array.shape[dim]
    above = jax.lax.slice_in_dim(array, min(1, size), size, axis=dim)
    return above, jax.lax.slice_in_dim(array, 0, max(size - 1, 0), axis=dim)


def _areas(name: str, y: Any, x: Any, dx: Any, dim: int) -> tuple[Any, int]:
    """The areas between neighbouring sample points, and the dimension along which they lie."""
    if y.ndim == 0:
        raise errors.IndexError(f"{name}() needs at least one dimension, got a 0-d tensor")
    dim = wrap_dim(dim, y.ndim, name)
    if category(y) < FLOATING:
        y = y.astype(get_default_dtype().numpy)
    above, below = _neighbours(y, dim)
    if x is None:
        return (above + below) * (jnp.asarray(dx, y.dtype) / 2), dim
    along = dim if x.ndim == y.ndim else 0
    if x.ndim not in (1, y.ndim) or x.shape[along] != y.shape[dim]:
        raise RuntimeError(
            f"{name}(): sample points of shape {list(x.shape)} for values of shape "
            f"{list(y.shape)}; there must be one for each along dimension {dim}"
        )
    if x.ndim != y.ndim:
        x = x.reshape([x.shape[0] if d == dim else 1 for d in range(y.ndim)])
    right, left = _neighbours(x, dim)
    total, width = promote(above + below, right - left)
    return total * width / 2, dim


@op(widen=True, name="trapezoid", node="MulBackward1")
def _trapezoid(y: Array, x: Array | None, dx: Array | Number, dim: int) -> Array:
    areas, dim = _areas("trapezoid", y, x, dx, dim)
    return jnp.sum(areas, dim)


@op(widen=True, name="cumulative_trapezoid", node="CumsumBackward0")
def _cumulative_trapezoid(y: Array, x: Array | None, dx: Array | Number, dim: int) -> Array:
    areas, dim = _areas("cumulative_trapezoid", y, x, dx, dim)
    return jnp.cumsum(areas, dim)


def _checked_spacing(name: str, x: Tensor | None, dx: Any) -> Any:
    if isinstance(dx, Tensor) or (x is not None and dx is not None):
        raise TypeError(f"{name}() takes sample points x, or one number dx as their distance")
    return 1 if dx is None else dx


@function
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Any:
    """The integral of sampled values along a dimension, by the trapezoidal rule.

    Args:
        y: The values.
        x: The sample points: 1-d, or of the shape of ``y``.
        dx: The distance between samples, 1 by default.
        dim: The dimension to integrate along.

    Raises:
        RuntimeError: The number of sample points differs from the number of values.
        TypeError: Both ``x`` and ``dx`` are given.
    """
    return _trapezoid(y, x, _checked_spacing("trapezoid", x, dx), dim)


@function
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1
) -> Any:
    """The running integral of sampled values along a dimension; see `trapezoid`."""
    return _cumulative_trapezoid(y, x, _checked_spacing("cumulative_trapezoid", x, dx), dim)


trapz = trapezoid
