"""Operators on many tensors as one vector: norm, scaling and splitting."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array, Arrays, Number
from flambeau.core.operators.op import op
from flambeau.core.support.dtype import FLOATING, from_numpy_dtype
from flambeau.ops.common.checks import category, needs_floating
from flambeau.ops.common.derivatives import squared_magnitude
from flambeau.ops.native import many as native

__all__: list[str] = []

# Keeps the division finite if the norm is 0; the value is PyTorch's.
_TINY = 1e-6

# At least this many tensors, of up to this many elements, are copied into one before their norm is
# computed.
_MANY, _SHORT = 8, 4096


@op(differentiable=False)
def total_norm(tensors: Arrays, order: float) -> Array:
    """The norm of the norms of the tensors, 0-d."""
    return _total(tensors, order)


@op(differentiable=False)
def scaled_to_norm(tensors: Arrays, total: Array, max_norm: Array | Number) -> Array:
    """The tensors times ``max_norm / total``, or unchanged if that is greater than 1."""
    return _scaled(tensors, total, max_norm)


@op(differentiable=False)
def clipped_to_norm(tensors: Arrays, max_norm: Array | Number, order: float) -> Array:
    """The `total_norm` of the tensors, and the result of `scaled_to_norm`."""
    if order == 2 and tensors and native.takes("clip", tensors):
        return native.clip(
            tensors, max_norm, _TINY, lambda limit, *given: _clipped(given, limit, order)
        )
    return _clipped(tensors, max_norm, order)


@op(differentiable=False)
def clipped_to_value(tensors: Arrays, limit: Array | Number) -> Array:
    """The tensors with elements clamped to ``±limit``."""
    needs_floating("clip_grad_value_", *tensors)
    return tuple(_clamped(each, jnp.asarray(limit, each.dtype)) for each in tensors)


@op(node="SplitWithSizesBackward0", linear=True)
def split_to_shapes(vector: Array, shapes: Any) -> Array:
    """The elements of a vector split into tensors of these shapes."""
    parts = []
    start = 0
    for shape in shapes:
        size = math.prod(shape)
        parts.append(vector[start : start + size].reshape(shape))
        start += size
    return tuple(parts)


def _clipped(tensors: tuple[Any, ...], max_norm: Any, order: float) -> tuple[Any, ...]:
    total = _total(tensors, order)
    return total, *_scaled(tensors, total, max_norm)


def _clamped(array: Any, limit: Any) -> Any:
    return jnp.minimum(jnp.maximum(array, -limit), limit)


def _total(tensors: tuple[Any, ...], order: float) -> Any:
    for each in tensors:
        if category(each) < FLOATING:
            raise RuntimeError(
                "a common norm needs floating point or complex tensors, but one is "
                f"{from_numpy_dtype(each.dtype).name}; convert it with float()"
            )
    # Tensors of one shape share one trace, which XLA inlines at each call.
    norm = jax.jit(_norm, static_argnums=1)
    norms = [norm(each, order) for each in _gathered(tensors, order)]
    dtype = jnp.result_type(*norms)
    return _norm(jnp.stack([each.astype(dtype) for each in norms]), order)


def _gathered(tensors: tuple[Any, ...], order: float) -> list[Any]:
    """Arrays with the norm of ``tensors``: short ones are concatenated: XLA compiles each."""
    if order == 0:  # The norm of norms counts tensors.
        return list(tensors)
    short = defaultdict(list)
    for each in tensors:
        if each.size <= _SHORT:
            short[each.dtype].append(each)
    many = {dtype: group for dtype, group in short.items() if len(group) >= _MANY}
    left = [each for each in tensors if each.size > _SHORT or each.dtype not in many]
    return left + [jnp.concatenate([each.ravel() for each in group]) for group in many.values()]


def _norm(array: Any, order: float) -> Any:
    """The norm of an array as a vector, in its real dtype.

    The array is not flattened: XLA would gather an array that is sharded in several dimensions.
    """
    magnitudes = jnp.abs(array)
    if order == 2:
        # Magnitudes would lose the second derivative at elements that are 0.
        return jnp.sqrt(jnp.sum(squared_magnitude(_wide(array)))).astype(magnitudes.dtype)
    return _norm_of_magnitudes(magnitudes, order).astype(magnitudes.dtype)


def _norm_of_magnitudes(magnitudes: Any, order: float) -> Any:
    if order == float("inf"):
        return jnp.max(magnitudes, initial=0)
    if order == float("-inf"):
        return jnp.min(magnitudes, initial=jnp.inf)
    wide = _wide(magnitudes)
    if order == 0:
        return jnp.sum(wide != 0, dtype=wide.dtype)
    if order == 1:
        return jnp.sum(wide)
    return jnp.sum(wide**order) ** (1.0 / order)


def _wide(array: Any) -> Any:
    """In single precision or wider: sums in half precision overflow."""
    return array.astype(jnp.promote_types(array.dtype, jnp.float32))


def _scaled(tensors: tuple[Any, ...], total: Any, max_norm: Any) -> tuple[Any, ...]:
    factor = jnp.minimum(max_norm / (total + _TINY), 1.0)
    return tuple((each * factor).astype(each.dtype) for each in tensors)
