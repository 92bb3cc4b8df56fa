"""Norms of vectors and of slices, and the distance of two tensors."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array, Number, TensorOperand
from flambeau.core.kernels.promotion import promote
from flambeau.core.operators.op import function, op
from flambeau.core.operators.writing import make_in_place
from flambeau.core.support import dtype as dtypes
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import Dims, wrap_dim, wrap_dims
from flambeau.ops.common.derivatives import (
    magnitude,
    shared_by_equals,
    squared_magnitude,
    where_chosen,
)
from flambeau.ops.reductions.reduction import averaged

__all__ = ["dist", "norm", "renorm"]


@op(name="norm", node="LinalgVectorNormBackward0")
def vector_norm(
    input: Array,
    p: float = 2.0,
    dim: Dims = None,
    keepdim: bool = False,
    dtype: dtypes.dtype | None = None,
) -> Array:
    """The p-norm of a tensor seen as one vector, or of each vector along some dimensions.

    ``(sum |x|^p)^(1/p)``; the largest magnitude for infinity, the smallest for minus infinity, and
    the number of nonzero elements for 0. Its gradient is 0 where the norm is not differentiable.

    Raises:
        RuntimeError: The dtype is neither floating point nor complex, or there are no elements and
            the norm is undefined without them.
        IndexError: There is no such dimension.
    """
    dims = wrap_dims(dim, input.ndim, "norm")
    _check_dtype(input, dtype)
    input = averaged("norm", input, dtype)
    if (p < 0 or p == math.inf) and 0 in [input.shape[each] for each in dims]:
        raise RuntimeError(f"norm() with p={p} of no elements is not defined")
    narrow = jnp.finfo(input.dtype).dtype
    if narrow.itemsize == 2:
        input = input.astype(jnp.float32)
    return norm_of(input, p, dims, keepdim).astype(narrow)


def _check_dtype(input: Any, dtype: dtypes.dtype | None) -> None:
    wanted = dtypes.COMPLEX if jnp.iscomplexobj(input) else dtypes.FLOATING
    if dtype is not None and dtype.category != wanted:
        kind = "complex" if wanted == dtypes.COMPLEX else "a floating point dtype"
        raise RuntimeError(
            f"norm(): the dtype of norms of {input.dtype} must be {kind}, not {dtype}"
        )


def norm_of(input: Any, p: float, dims: tuple[int, ...], keepdim: bool) -> Any:
    """The p-norm over ``dims``, in the real dtype; where it is 0, its gradient is 0."""
    if p == 2:
        found = _euclidean_norm(input, dims)
        return found if keepdim else jnp.squeeze(found, dims)
    size = magnitude(input)
    if abs(p) == math.inf:
        reduce = jnp.max if p > 0 else jnp.min
        value = reduce(jax.lax.stop_gradient(size), dims, keepdims=True)
        value = shared_by_equals(size, dims, value)
        return value if keepdim else jnp.squeeze(value, dims)
    if p == 0:
        return jnp.sum((size != 0).astype(size.dtype), dims, keepdims=keepdim)
    if p == 1:
        return jnp.sum(size, dims, keepdims=keepdim)
    found = _power_norm(size, p, dims)
    return found if keepdim else jnp.squeeze(found, dims)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _euclidean_norm(input: Any, dims: tuple[int, ...]) -> Any:
    """The 2-norm over ``dims``, which are kept with size 1.

    Magnitudes would lose the second derivative at elements that are 0.
    """
    return jnp.sqrt(jnp.sum(squared_magnitude(input), dims, keepdims=True))


@_euclidean_norm.defjvp
def _euclidean_norm_jvp(dims: tuple[int, ...], primals: Any, tangents: Any) -> Any:
    (input,), (tangent,) = primals, tangents
    found = _euclidean_norm(input, dims)
    share = jnp.conj(input) / jnp.where(found == 0, 1, found)
    products = jnp.real(share * where_chosen(found != 0, tangent))
    return found, jnp.sum(products, dims, keepdims=True)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _power_norm(size: Any, p: float, dims: tuple[int, ...]) -> Any:
    """``(sum x^p)^(1/p)`` over ``dims``, which are kept with size 1."""
    return jnp.sum(size**p, dims, keepdims=True) ** (1 / p)


@_power_norm.defjvp
def _power_norm_jvp(p: float, dims: tuple[int, ...], primals: Any, tangents: Any) -> Any:
    (size,), (tangent,) = primals, tangents
    found = _power_norm(size, p, dims)
    # The norm of zeros has no derivative; if p is below 1 it has none at any zero.
    flat = (found == 0) | ((size == 0) & ~jnp.isnan(found) if p < 1 else False)
    share = jnp.where(flat, 1, size) ** (p - 1) / jnp.where(flat, 1, found) ** (p - 1)
    return found, jnp.sum(where_chosen(~flat, tangent) * share, dims, keepdims=True)


@op(name="norm", node="SumBackward1")
def _nuclear_norm(input: Array, dim: Dims, keepdim: bool, dtype: dtypes.dtype | None) -> Array:
    dims = wrap_dims(dim, input.ndim, "norm")
    if len(dims) != 2:
        raise RuntimeError(f"norm(): the nuclear norm is of matrices, got dimensions {dims}")
    input = averaged("norm", input, dtype)
    values = jnp.linalg.svd(jnp.moveaxis(input, dims, (-2, -1)), compute_uv=False)
    total = jnp.sum(values, -1)
    return jnp.expand_dims(total, dims) if keepdim else total


@function(method=True)
def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    dtype: dtypes.dtype | None = None,
) -> Any:
    """The norm of a tensor seen as one vector, or of each vector along some dimensions.

    Args:
        input: A floating point or complex tensor.
        p: The order: a number; ``"fro"`` is 2, ``"nuc"`` the sum of a matrix's singular values.
        dim: One dimension or several; all of them by default.
        keepdim: Keep the reduced dimensions, with size 1.
        dtype: Convert to this dtype first.

    Raises:
        RuntimeError: The dtype is neither floating point nor complex, or ``p`` is unknown.
        IndexError: There is no such dimension.
    """
    if p is None or p == "fro":
        p = 2.0
    if p == "nuc":
        return _nuclear_norm(input, dim, keepdim, dtype)
    if isinstance(p, int | float):
        return vector_norm(input, float(p), dim, keepdim, dtype)
    raise RuntimeError(f"norm(): p must be a number, 'fro' or 'nuc', got {p!r}")


@op(method=True, widen=True)
def dist(input: TensorOperand, other: TensorOperand, p: float = 2.0) -> Array:
    """The p-norm of ``input - other``, broadcast.

    Raises:
        RuntimeError: The dtype is neither floating point nor complex; the shapes do not broadcast.
    """
    input, other = promote(input, other)
    difference = averaged("dist", input - other, None)
    return norm_of(difference, float(p), tuple(range(difference.ndim)), False)


@op(name="renorm", widen=True)
def _renorm(input: Array, p: float, dim: int, maxnorm: Array | Number) -> Array:
    input = averaged("renorm", input, None)
    dim = wrap_dim(dim, input.ndim, "renorm")
    others = tuple(d for d in range(input.ndim) if d != dim)
    found = norm_of(jax.lax.stop_gradient(input), float(p), others, True)
    limit = jnp.asarray(maxnorm, found.dtype)
    longer = found > limit
    # The others are not measured, so that a NaN among them gives no gradient.
    measured = jnp.where(longer, input, jnp.ones_like(input))
    size = norm_of(measured, float(p), others, True)
    # PyTorch's own small number keeps the quotient finite.
    scale = jnp.where(longer, limit / (size + jnp.asarray(1e-7, size.dtype)), 1)
    return input * scale.astype(input.dtype)


@function(method=True)
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """``input`` with each slice along a dimension scaled down to a p-norm of at most ``maxnorm``.

    Args:
        input: A tensor of two dimensions or more.
        p: The order of the norm, above 0.
        dim: The dimension of the slices.
        maxnorm: The maximum norm of a slice.

    Raises:
        RuntimeError: There are fewer than two dimensions, ``p`` is not positive, or ``maxnorm`` is
            negative.
        IndexError: There is no such dimension.
    """
    if p <= 0:
        raise RuntimeError(f"renorm(): the order of the norm must be positive, got p={p}")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm(): maxnorm must not be negative, got {maxnorm}")
    if input.ndim < 2:
        raise RuntimeError(
            f"renorm() needs at least two dimensions, got a tensor of shape {list(input.shape)}"
        )
    return _renorm(input, p, dim, maxnorm)


Tensor.renorm_ = make_in_place(renorm, "renorm")
