"""The order of elements: the indices of extremes, and the indices that sort.

NaN is greater than every number, and wins every search for an extreme element.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

_INDEX_BITS = 32


def first_extreme(input: Any, dim: int, greatest: bool) -> Any:
    """The index of the first greatest or least element along ``dim``, kept with size 1.

    Two reductions of one array each: XLA vectorizes these, but not one reduction over pairs.
    """
    reduce = jnp.max if greatest else jnp.min
    found = input == reduce(input, dim, keepdims=True)
    if jnp.issubdtype(input.dtype, jnp.floating):
        found |= jnp.isnan(input)
    positions = _positions(input, dim)
    last = jnp.asarray(max(input.shape[dim] - 1, 0), positions.dtype)
    return jnp.min(jnp.where(found, positions, last), dim, keepdims=True)


def _positions(input: Any, dim: int) -> Any:
    index_type = jnp.int32 if input.shape[dim] < 2**31 else jnp.int64
    return jax.lax.broadcasted_iota(index_type, input.shape, dim)


def sorting_order(input: Any, dim: int, descending: bool = False) -> Any:
    """The int64 indices that sort ``input`` along ``dim``; equal elements keep their order.

    Elements of up to 32 bits are sorted as 64-bit integers with the element in the high bits and
    its index in the low bits: XLA sorts one array of integers several times faster than pairs.
    """
    input = jax.lax.stop_gradient(input)
    if input.dtype == jnp.bool_:
        input = input.astype(jnp.int8)
    if input.dtype.itemsize > 4 or input.shape[dim] >= 2**_INDEX_BITS:
        return jnp.argsort(input, dim, stable=True, descending=descending)
    key = _as_integer(input)
    key = ~key if descending else key
    index = jax.lax.broadcasted_iota(jnp.int64, input.shape, dim)
    packed = jax.lax.sort((key << _INDEX_BITS) + index, dimension=dim, is_stable=False)
    return packed & (2**_INDEX_BITS - 1)


def _as_integer(input: Any) -> Any:
    """int64 numbers with at most 32 bits and a sign, in the same order as ``input``."""
    if jnp.issubdtype(input.dtype, jnp.integer):
        middle = 2**31 if input.dtype == jnp.uint32 else 0
        return input.astype(jnp.int64) - middle
    single = input.astype(jnp.float32)
    # Both zeros are equal, and so are all NaNs.
    single = jnp.where(single == 0, jnp.zeros_like(single), single)
    bits = jax.lax.bitcast_convert_type(single, jnp.int32)
    # The bits of negative numbers increase with their magnitude.
    key = jnp.where(bits < 0, bits ^ jnp.int32(0x7FFFFFFF), bits)
    return jnp.where(jnp.isnan(single), jnp.int32(0x7FFFFFFF), key).astype(jnp.int64)
