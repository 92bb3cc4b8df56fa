"""Values written to positions along one dimension: `scatter`, `scatter_add`, `scatter_reduce`.

A position out of range is an error in eager mode on the CPU. In compiled programs and on other
devices it is not written.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array, Operand
from flambeau.core.kernels.single_precision import spread
from flambeau.core.operators.op import function, op
from flambeau.core.operators.writing import check_fits, put
from flambeau.core.values.tensor import Tensor
from flambeau.ops.indices.gathering import check_gathering
from flambeau.ops.indices.placement import along, check_positions, overwrite

__all__ = ["scatter", "scatter_add", "scatter_reduce"]


def _check(input: Tensor, dim: Any, index: Tensor, src: Any, name: str) -> int:
    """Check the arguments of a scatter; return the dimension, counted from the front."""
    dim = check_gathering(input, dim, index, name)
    if isinstance(src, Tensor):
        if src.dtype is not input.dtype:
            raise RuntimeError(
                f"{name}(): src of {src.dtype} cannot go into a tensor of {input.dtype}; "
                "convert one first"
            )
        if max(src.ndim, 1) != max(index.ndim, 1) and index.numel():
            raise RuntimeError(
                f"{name}(): index has {index.ndim} dimensions and src {src.ndim}; they must have "
                "as many"
            )
        for d, size in enumerate(index.shape):
            if src.ndim and size > src.shape[d] and index.numel():
                raise RuntimeError(
                    f"{name}(): index of shape {list(index.shape)} is larger than src of shape "
                    f"{list(src.shape)} at dimension {d}"
                )
    size = input.shape[dim] if input.ndim else 1
    check_positions(index, 0, size, dim, RuntimeError, name)
    return dim


# Overwriting


def _set(vector: Any, index: Any, src: Any) -> Any:
    return overwrite((0,), vector, src, index)


@op(name="scatter", linear=True)
def _scatter(input: Array, dim: int, index: Array, src: Array) -> Array:
    return along(_set, dim, input, index, src) if index.size else input


@op(name="scatter", node="ScatterBackward1", linear=True)
def _scatter_value(input: Array, dim: int, index: Array, value: Operand) -> Array:
    src = spread(jnp.asarray(value, input.dtype), index.shape)
    return along(_set, dim, input, index, src) if index.size else input


@function(method=True)
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Any:
    """A copy with values written to positions ``index`` along ``dim``; for ``dim`` 0 of a matrix,
    ``out[index[i, j], j] = src[i, j]``.

    If several values have one position, any of them may be stored; each gets the position's
    gradient.

    Args:
        index: Integers from 0 on, with as many dimensions as ``input`` and no larger than ``src``,
            nor in the other dimensions than ``input``.
        src: A tensor of the same dtype, or a number.
        value: A number, instead of ``src``.
        reduce: ``"add"`` or ``"multiply"`` combines with the present element instead.

    Raises:
        RuntimeError: ``index`` or ``src`` does not fit, or positions are out of range.
        IndexError: The dimension is out of range.
    """
    return _scattered(input, dim, index, src, value, reduce, "scatter")


@function(method=True)
def scatter_(
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Any:
    """`scatter`, in place: the tensor is overwritten and returned."""
    return put(self, _scattered(self, dim, index, src, value, reduce, "scatter_"), "scatter_")


def _scattered(
    input: Tensor, dim: int, index: Tensor, src: Any, value: Any, reduce: str | None, name: str
) -> Any:
    if (src is None) == (value is None):
        raise TypeError(f"{name}() takes either src or value")
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError(f"{name}(): reduce must be 'add' or 'multiply', got {reduce!r}")
    is_value = not isinstance(src, Tensor)
    filling = value if src is None else src
    if isinstance(filling, str | list | tuple):
        kind = type(filling).__name__
        raise TypeError(f"{name}(): src must be a Tensor or a number, got {kind}: {filling!r:.80}")
    dim = _check(input, dim, index, None if is_value else src, name)
    if is_value:
        if not isinstance(filling, Tensor):
            check_fits(filling, input, name)
        if reduce is None:
            return _scatter_value(input, dim, index, filling)
        src = _filled(index, filling, input.dtype)
    if reduce is None:
        return _scatter(input, dim, index, src)
    return _scatter_reduce(input, dim, index, src, "sum" if reduce == "add" else "prod", True)


@op(differentiable=False)
def _filled(index: Array, value: Operand, dtype: object) -> Array:
    return jnp.broadcast_to(jnp.asarray(value, dtype.numpy), index.shape)  # type: ignore[attr-defined]


# Combining


def _add(vector: Any, index: Any, src: Any) -> Any:
    return vector.at[index].add(src, mode="drop")


@op(name="scatter_add", widen=True, linear=True)
def _scatter_add(input: Array, dim: int, index: Array, src: Array) -> Array:
    return along(_add, dim, input, index, src) if index.size else input


@function(method=True)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Any:
    """A copy with values added at positions ``index`` along ``dim``; repeated positions accumulate.

    Raises:
        RuntimeError: ``index`` or ``src`` does not fit, or positions are out of range.
        IndexError: The dimension is out of range.
    """
    return _scatter_add(input, _check(input, dim, index, src, "scatter_add"), index, src)


@function(method=True)
def scatter_add_(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Any:
    """`scatter_add`, in place: the tensor is overwritten and returned."""
    dim = _check(self, dim, index, src, "scatter_add_")
    return put(self, _scatter_add(self, dim, index, src), "scatter_add_")


_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@op(name="scatter_reduce", widen=True)
def _scatter_reduce(
    input: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool
) -> Array:
    if not index.size:
        return input
    combine = functools.partial(combined, reduce=reduce, include_self=include_self)
    return along(combine, dim, input, index, src)


@function(method=True)
def scatter_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Any:
    """A copy in which the values for each position are combined.

    Args:
        index: As for `scatter`.
        src: The values.
        reduce: ``"sum"``, ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``.
        include_self: Whether the present element is included; if not, only positions without values
            keep it.

    Raises:
        RuntimeError: ``index`` or ``src`` does not fit, positions are out of range, or ``reduce``
            is unknown.
        IndexError: The dimension is out of range.
    """
    dim = _check(input, dim, index, src, "scatter_reduce")
    return _scatter_reduce(input, dim, index, src, _known(reduce), include_self)


@function(method=True)
def scatter_reduce_(
    self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """`scatter_reduce`, in place: the tensor is overwritten and returned."""
    dim = _check(self, dim, index, src, "scatter_reduce_")
    result = _scatter_reduce(self, dim, index, src, _known(reduce), include_self)
    return put(self, result, "scatter_reduce_")


def _known(reduce: str) -> str:
    if reduce not in _REDUCTIONS:
        raise RuntimeError(
            f"scatter_reduce(): reduce must be one of {', '.join(_REDUCTIONS)}, got {reduce!r}"
        )
    return reduce


def combined(vector: Any, index: Any, src: Any, *, reduce: str, include_self: bool) -> Any:
    """A vector with the values for each position combined; see `scatter_reduce`."""
    if reduce in ("amax", "amin"):
        return _extreme(reduce, include_self, vector, src, index)
    neutral = 1 if reduce == "prod" else 0
    if not include_self:
        vector = jnp.where(_touched(vector, index), jnp.asarray(neutral, vector.dtype), vector)
    if reduce == "prod":
        return _product(vector, src, index)
    total = _add(vector, index, src)
    if reduce == "sum":
        return total
    count = _add(jnp.full(vector.shape, int(include_self)), index, 1)
    count = jnp.maximum(count, 1)
    if jnp.issubdtype(total.dtype, jnp.inexact):
        return total / count.astype(total.dtype)
    return total // count.astype(total.dtype)


def _touched(vector: Any, index: Any) -> Any:
    return jnp.zeros(vector.shape, bool).at[index].set(True, mode="drop")


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _extreme(reduce: str, include_self: bool, vector: Any, src: Any, index: Any) -> Any:
    if not include_self:
        vector = jnp.where(_touched(vector, index), _worst(reduce, vector.dtype), vector)
    place = vector.at[index]
    return (place.max if reduce == "amax" else place.min)(src, mode="drop")


def _worst(reduce: str, dtype: Any) -> Any:
    """The value that every other value beats."""
    if dtype == jnp.bool_:
        return jnp.asarray(reduce == "amin")
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.asarray(-jnp.inf if reduce == "amax" else jnp.inf, dtype)
    limits = jnp.iinfo(dtype)
    return jnp.asarray(limits.min if reduce == "amax" else limits.max, dtype)


@_extreme.defjvp
def _extreme_jvp(reduce: str, include_self: bool, primals: Any, tangents: Any) -> tuple[Any, Any]:
    # All values equal to the extreme one share its gradient.
    vector, src, index = primals
    result = _extreme(reduce, include_self, vector, src, index)
    own = vector == result
    if not include_self:
        own &= ~_touched(vector, index)
    theirs = src == result.at[index].get(mode="fill")
    count = _add(own.astype(result.dtype), index, theirs.astype(result.dtype))
    moved = _add(jnp.where(own, tangents[0], 0), index, jnp.where(theirs, tangents[1], 0))
    return result, moved / jnp.maximum(count, 1)


@jax.custom_jvp
def _product(vector: Any, src: Any, index: Any) -> Any:
    return vector.at[index].multiply(src, mode="drop")


@_product.defjvp
def _product_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    # The derivative by a factor is the product of the others. Division gives it except for zeros:
    # it is the product of the rest if a zero is the only one, and zero otherwise.
    vector, src, index = primals
    own_zero, their_zero = vector == 0, src == 0
    zeros = _add(own_zero.astype(jnp.int32), index, their_zero.astype(jnp.int32))
    vector_rest, src_rest = jnp.where(own_zero, 1, vector), jnp.where(their_zero, 1, src)
    rest = _product(vector_rest, src_rest, index)

    def others(rest: Any, zeros: Any, is_zero: Any, factor: Any) -> Any:
        return jnp.where(zeros == is_zero, rest / factor, 0).astype(rest.dtype)

    by_own = others(rest, zeros, own_zero, vector_rest)
    at = functools.partial(jnp.take, indices=index, mode="fill", fill_value=0)
    by_theirs = others(at(rest), at(zeros), their_zero, src_rest)
    moved = _add(by_own * tangents[0], index, by_theirs * tangents[1])
    return jnp.where(zeros == 0, rest, 0).astype(rest.dtype), moved
