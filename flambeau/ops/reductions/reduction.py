"""Reductions: sums, means, products, variances and logical ones."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array
from flambeau.core.kernels.single_precision import single
from flambeau.core.operators.op import function, op
from flambeau.core.support import dtype as dtypes
from flambeau.core.support import errors
from flambeau.core.support.dtype import FLOATING, INTEGER, from_numpy_dtype
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import Dims, cast_first, category, needs_ordered, wrap_dims
from flambeau.ops.common.derivatives import where_chosen, with_derivatives

__all__ = [
    "all", "any", "count_nonzero", "mean", "nanmean", "nansum", "prod", "std", "std_mean",
    "sum", "var", "var_mean",
]  # fmt: skip


def _summable(input: Any, dtype: Any) -> Any:
    """``input`` as ``dtype``; by default, bools and integers as int64."""
    if dtype is not None:
        return cast_first(input, dtype)
    return input.astype(dtypes.int64.numpy) if category(input) <= INTEGER else input


def _sum(input: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    wide = single(input)
    # With an explicit dtype, since JAX would add narrow integers in wider ones.
    return jnp.sum(wide, dims, dtype=wide.dtype, keepdims=keepdim).astype(input.dtype)


@op(method=True, linear=True, node=lambda dim, keepdim, dtype: f"SumBackward{int(dim is not None)}")
def sum(
    input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: dtypes.dtype | None = None
) -> Array:
    """The sum of all elements, or over some dimensions.

    Args:
        input: A tensor; integers and bools are summed as int64.
        dim: One dimension or several; all of them by default.
        keepdim: Keep the reduced dimensions, with size 1.
        dtype: Convert to this dtype first.

    Raises:
        IndexError: There is no such dimension.

    >>> import flambeau
    >>> flambeau.sum(flambeau.tensor([[1, 2], [3, 4]]), 0)
    tensor([4, 6])
    """
    dims = wrap_dims(dim, input.ndim, "sum")
    return _sum(_summable(input, dtype), dims, keepdim)


@op(method=True)
def nansum(
    input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: dtypes.dtype | None = None
) -> Array:
    """`sum`, with NaN counted as zero."""
    needs_ordered("nansum", input)
    dims = wrap_dims(dim, input.ndim, "nansum")
    kept = jnp.where(jnp.isnan(input), jnp.zeros_like(input), input)
    return _sum(_summable(kept, dtype), dims, keepdim)


def averaged(name: str, input: Any, dtype: Any) -> Any:
    """``input`` as ``dtype``, checked to be floating point or complex.

    Raises:
        RuntimeError: It is neither.
    """
    target = from_numpy_dtype(input.dtype) if dtype is None else dtype
    if target.category < FLOATING:
        raise RuntimeError(
            f"{name}() of {target.name}: the result would not be an integer; pass a floating point "
            "dtype or convert the tensor with float()"
        )
    return cast_first(input, target)


@op(
    method=True, linear=True,
    node=lambda dim, keepdim, dtype: f"MeanBackward{int(dim is not None)}",
)  # fmt: skip
def mean(
    input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: dtypes.dtype | None = None
) -> Array:
    """The mean of all elements, or over some dimensions.

    Args:
        input: A tensor.
        dim: One dimension or several; all of them by default.
        keepdim: Keep the reduced dimensions, with size 1.
        dtype: Convert to this dtype first.

    Raises:
        RuntimeError: The dtype is neither floating point nor complex.
        IndexError: There is no such dimension.
    """
    dims = wrap_dims(dim, input.ndim, "mean")
    input = averaged("mean", input, dtype)
    return jnp.mean(single(input), dims, keepdims=keepdim).astype(input.dtype)


@op(method=True, node="DivBackward0")
def nanmean(
    input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: dtypes.dtype | None = None
) -> Array:
    """`mean` of the elements that are not NaN."""
    needs_ordered("nanmean", input)
    dims = wrap_dims(dim, input.ndim, "nanmean")
    input = averaged("nanmean", input, dtype)
    absent = jnp.isnan(input)
    count = jnp.sum(~absent, dims, keepdims=keepdim)
    present = single(jnp.where(absent, jnp.zeros_like(input), input))
    total = jnp.sum(present, dims, keepdims=keepdim)
    return (total / count.astype(total.dtype)).astype(input.dtype)


@op(method=True, node=lambda dim, keepdim, dtype: f"ProdBackward{int(dim is not None)}")
def prod(
    input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: dtypes.dtype | None = None
) -> Array:
    """The product of all elements, or over one dimension.

    Args:
        input: A tensor; integers and bools are multiplied as int64.
        dim: A dimension; all of them by default.
        keepdim: Keep the reduced dimension, with size 1.
        dtype: Convert to this dtype first.

    Raises:
        IndexError: There is no such dimension.
        TypeError: ``dim`` is not an integer.
    """
    if isinstance(dim, tuple):
        raise errors.TypeError(f"prod() reduces one dimension or all, got {dim}")
    dims = wrap_dims(dim, input.ndim, "prod")
    input = _summable(input, dtype)
    wide = single(input)
    return jnp.prod(wide, dims, dtype=wide.dtype, keepdims=keepdim).astype(input.dtype)


# Variances


def spread_arguments(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, float, bool]:
    """The dimensions, correction and keepdim of a call of `var` or an operator like it.

    PyTorch takes ``(dim=None, *, correction=1, keepdim=False)``, the older
    ``(dim, unbiased=True, keepdim=False)``, and ``(unbiased)``.
    """
    aliases = {"axis": "dim", "keepdims": "keepdim"}
    given = {aliases.get(key, key): value for key, value in kwargs.items()}
    names = ("unbiased",) if args and isinstance(args[0], bool) else ("dim", "unbiased", "keepdim")
    if len(args) > len(names):
        raise TypeError(f"{name}() takes {names}, got {len(args)} positional arguments")
    for key, value in zip(names, args, strict=False):
        if key in given:
            raise TypeError(f"{name}() got {key} twice")
        given[key] = value
    unknown = sorted(set(given) - {"dim", "unbiased", "keepdim", "correction"})
    if unknown:
        raise TypeError(f"{name}() got unexpected arguments {unknown}")
    if "unbiased" in given and "correction" in given:
        raise TypeError(f"{name}() takes correction or unbiased, not both")
    correction = given.get("correction")
    if correction is None:
        unbiased = given.get("unbiased", True)
        if not isinstance(unbiased, bool):
            raise TypeError(f"{name}(): unbiased must be True or False, got {unbiased!r:.80}")
        correction = int(unbiased)
    return given.get("dim"), correction, bool(given.get("keepdim", False))


def mean_and_variance(
    name: str, input: Any, dim: Any, correction: float, keepdim: bool, mask: Any = None
) -> tuple[Any, Any]:
    """The mean and the variance on arrays, of the elements where ``mask`` is true if there is one.

    Args:
        name: The operator, for messages.
        input: An array.
        dim: One dimension or several, or ``None`` for all.
        correction: The number to subtract from the number of elements in the divisor.
        keepdim: Keep the reduced dimensions, with size 1.
        mask: Bools that broadcast to ``input``.
    """
    dims = wrap_dims(dim, input.ndim, name)
    if category(input) < FLOATING:
        raise RuntimeError(
            f"{name}() needs a floating point or complex tensor, got "
            f"{from_numpy_dtype(input.dtype).name}"
        )
    wide = single(input)
    variance = _variance(wide, mask, dims, correction).astype(jnp.real(input).dtype)
    average = jnp.mean(wide, dims, keepdims=True, where=mask).astype(input.dtype)
    if keepdim:
        return average, variance
    return jnp.squeeze(average, dims), jnp.squeeze(variance, dims)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _variance(input: Any, mask: Any, dims: tuple[int, ...], correction: float) -> Any:
    deviation, freedom = _deviation(input, mask, dims, correction)
    squares = jnp.real(deviation * jnp.conj(deviation))
    return jnp.sum(squares, dims, keepdims=True) / freedom


def _deviation(input: Any, mask: Any, dims: tuple[int, ...], correction: float) -> tuple[Any, Any]:
    """The difference of each element from the mean, and the degrees of freedom as an array."""
    deviation = input - jnp.mean(input, dims, keepdims=True, where=mask)
    if mask is None:
        freedom: Any = max(math.prod(input.shape[each] for each in dims) - correction, 0)
    else:
        deviation = jnp.where(mask, deviation, jnp.zeros_like(deviation))
        count = jnp.sum(jnp.broadcast_to(mask, input.shape), dims, keepdims=True)
        freedom = jnp.maximum(count - correction, 0)
    # An array, so that zero degrees of freedom give NaN or infinity.
    return deviation, jnp.asarray(freedom, jnp.real(input).dtype)


@_variance.defjvp
def _variance_jvp(dims: tuple[int, ...], correction: float, primals: Any, tangents: Any) -> Any:
    # Not through the mean, whose contribution cancels, unless an element is infinite.
    (input, mask), (tangent, _) = primals, tangents
    deviation, freedom = _deviation(input, mask, dims, correction)
    along = jnp.real(jnp.conj(deviation * (2 / freedom)) * tangent)
    return _variance(input, mask, dims, correction), jnp.sum(along, dims, keepdims=True)


def _along_root(tangent: Any, result: Any, variance: Any) -> Any:
    zero = variance == 0
    return where_chosen(~zero, tangent) / (2 * jnp.where(zero, 1, result))


@with_derivatives(_along_root)
def root(variance: Any) -> Any:
    """The square root, whose gradient is 0 rather than infinite if all elements are equal."""
    return jnp.sqrt(variance)


@op(name="var", widen=True)
def _var(input: Array, dim: Dims, correction: float, keepdim: bool) -> Array:
    return mean_and_variance("var", input, dim, correction, keepdim)[1]


@op(name="std", widen=True)
def _std(input: Array, dim: Dims, correction: float, keepdim: bool) -> Array:
    return root(mean_and_variance("std", input, dim, correction, keepdim)[1])


@op(name="var_mean", widen=True)
def _var_mean(input: Array, dim: Dims, correction: float, keepdim: bool) -> Any:
    average, variance = mean_and_variance("var_mean", input, dim, correction, keepdim)
    return variance, average


@op(name="std_mean", widen=True)
def _std_mean(input: Array, dim: Dims, correction: float, keepdim: bool) -> Any:
    average, variance = mean_and_variance("std_mean", input, dim, correction, keepdim)
    return root(variance), average


@function(method=True)
def var(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """The variance over some dimensions, by default all.

    ``var(input, dim=None, *, correction=1, keepdim=False)``; the older forms
    ``var(input, dim, unbiased=True, keepdim=False)`` and ``var(input, unbiased)`` work too.

    Args:
        input: A floating point or complex tensor.
        *args: ``dim``, one dimension or several; the older forms' arguments.
        **kwargs: ``correction``, the number to subtract from the number of elements in the divisor
            (1 is Bessel's correction), and ``keepdim``.

    Raises:
        RuntimeError: The dtype is neither floating point nor complex.
        IndexError: There is no such dimension.
    """
    return _var(input, *spread_arguments("var", args, kwargs))


@function(method=True)
def std(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """The standard deviation, the root of `var`, with the same arguments."""
    return _std(input, *spread_arguments("std", args, kwargs))


@function
def var_mean(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """`var` and the mean, with the arguments of `var`."""
    return _var_mean(input, *spread_arguments("var_mean", args, kwargs))


@function
def std_mean(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """`std` and the mean, with the arguments of `var`."""
    return _std_mean(input, *spread_arguments("std_mean", args, kwargs))


# Logic and counts


def _as_flags(input: Any) -> tuple[Any, Any]:
    """Whether each element is nonzero, and the dtype of a logical result."""
    return input != 0, jnp.uint8 if input.dtype == jnp.uint8 else jnp.bool_


@op(method=True, differentiable=False)
def all(input: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    """Whether all elements are true, of the whole tensor or over some dimensions."""
    flags, dtype = _as_flags(input)
    dims = () if dim == () else wrap_dims(dim, input.ndim, "all")
    return jnp.all(flags, dims, keepdims=keepdim).astype(dtype)


@op(method=True, differentiable=False)
def any(input: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    """Whether some element is true, of the whole tensor or over some dimensions."""
    flags, dtype = _as_flags(input)
    dims = () if dim == () else wrap_dims(dim, input.ndim, "any")
    return jnp.any(flags, dims, keepdims=keepdim).astype(dtype)


@op(method=True, differentiable=False)
def count_nonzero(input: Array, dim: Dims = None) -> Array:
    """The number of elements that are not zero, in total or over some dimensions, as int64."""
    dims = wrap_dims(dim, input.ndim, "count_nonzero")
    return jnp.sum(input != 0, dims, dtype=jnp.int64)
