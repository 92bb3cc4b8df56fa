"""Sums that XLA fuses with their summands on a CPU."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from flambeau.core.devices.compiler import cores, cpu_forms

# The lengths of the lines of a block, and their maximum and minimum number.
_LANES = (16, 8, 4)
_MOST_LINES, _LEAST_LINES = 16, 4
# XLA splits longer sums into pieces of this length, and then stores the terms after all.
_LONGEST = 32


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def fused_sum(array: Any, axis: int) -> Any:
    """``jnp.sum(array, axis)`` without storing the summands.

    XLA passes sums to a library that needs their terms in memory. It recognizes sums by their
    addition, which is disguised here. XLA's own loop, which computes the terms on the fly, is fast
    along any axis except the last.

    Args:
        array: The array to sum.
        axis: Not the last one.
    """
    if not cpu_forms():
        return jnp.sum(array, axis)
    axis %= array.ndim
    whole = array.shape[axis] // _LONGEST * _LONGEST
    rest = lax.slice_in_dim(array, whole, None, axis=axis)
    zero = np.zeros((), array.dtype)
    total = lax.reduce(rest, zero, _added, (axis,))
    if not whole:
        return total
    shape = (*array.shape[:axis], whole // _LONGEST, _LONGEST, *array.shape[axis + 1 :])
    blocks = lax.slice_in_dim(array, 0, whole, axis=axis).reshape(shape)
    partial = lax.reduce(blocks, zero, _added, (axis + 1,))
    return jnp.sum(partial, axis) + total


def _added(a: Any, b: Any) -> Any:
    return a - (-b)


@fused_sum.defjvp
def _fused_sum_jvp(axis: int, primals: Any, tangents: Any) -> Any:
    return fused_sum(primals[0], axis), jnp.sum(tangents[0], axis)


@jax.custom_jvp
def fused_row_sums(*arrays: Any) -> tuple[Any, ...]:
    """The sums of arrays along their last axis, without storing the arrays.

    Along a row XLA would add one element at a time. So a row is split into blocks of a few lines,
    which are added elementwise; the rest of each block is a line.

    Args:
        arrays: Of one shape.
    """
    if not cpu_forms():
        return tuple(jnp.sum(each, -1) for each in arrays)
    *lead, size = arrays[0].shape
    lanes = next((each for each in _LANES if size % each == 0), 1)
    lines = max(n for n in range(1, _MOST_LINES + 1) if size // lanes % n == 0)
    if lanes == 1 or lines < _LEAST_LINES:
        return tuple(jnp.sum(each, -1) for each in arrays)
    shape = (*lead, size // (lines * lanes), lines, lanes)
    zeros = tuple(np.zeros((), each.dtype) for each in arrays)
    blocks = tuple(each.reshape(shape) for each in arrays)
    partial = _sums_of_lines(blocks, zeros, len(lead) + 1)
    return tuple(jnp.sum(each, (-2, -1)) for each in partial)


def _sums_of_lines(blocks: tuple[Any, ...], zeros: tuple[Any, ...], axis: int) -> Any:
    if cores() == 1:
        return lax.reduce(blocks, zeros, _all_added, (axis,))
    # XLA divides loops with one result among the cores, but not loops with several.
    return [
        lax.reduce(each, zero, _added, (axis,)) for each, zero in zip(blocks, zeros, strict=True)
    ]


def _all_added(left: Any, right: Any) -> Any:
    return tuple(_added(a, b) for a, b in zip(left, right, strict=True))


@fused_row_sums.defjvp
def _fused_row_sums_jvp(primals: Any, tangents: Any) -> Any:
    return fused_row_sums(*primals), tuple(jnp.sum(each, -1) for each in tangents)
