"""Running sums, products and extremes as loops, or as matrix products along a last dimension.

A loop over the dimension computes each step for all other positions at once, which is faster than
XLA's own running sums. Along the last dimension these positions are far apart in memory, and matrix
products are faster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flambeau.ops.common import loops
from flambeau.ops.common.derivatives import with_derivatives

# The number of elements of a row that one matrix product sums.
_BLOCK = 32


def loop(combine: Callable[[Any, Any], Any], start: Any, input: Any, dim: int) -> Any:
    """The running results of ``combine``, inclusive, starting with ``start``."""
    wide = jnp.float64 if input.dtype == jnp.float32 else input.dtype
    rows = jnp.moveaxis(input, dim, 0)

    def step(before: Any, row: Any) -> tuple[Any, Any]:
        after = combine(before, row.astype(wide))
        return after, after.astype(row.dtype)

    _, found = loops.scan(step, jnp.full(rows.shape[1:], start, wide), rows)
    return jnp.moveaxis(found, 0, dim)


def sums(input: Any, dim: int) -> Any:
    """``jnp.cumsum``."""
    is_real = jnp.issubdtype(input.dtype, jnp.floating)
    if is_real and dim == input.ndim - 1 and input.shape[dim] > _BLOCK:
        return _row_sums(input)
    return loop(jnp.add, 0, input, dim)


def logs_of_sums(input: Any, dim: int) -> Any:
    """The logarithms of the running sums of the exponentials, ``log(cumsum(exp(x)))``."""
    wide = jnp.float64 if input.dtype == jnp.float32 else input.dtype
    found = _logs_of_sums(jnp.moveaxis(input, dim, 0).astype(wide))
    return jnp.moveaxis(found, 0, dim).astype(input.dtype)


def _along_logs_of_sums(tangent: Any, result: Any, rows: Any) -> Any:
    """Run the linear recurrence of the tangents, with factors computed outside of the loop.

    JAX drops a custom derivative rule inside a loop when the loop is differentiated twice.
    """
    before = jnp.concatenate([jnp.full_like(result[:1], -jnp.inf), result[:-1]])

    def step(before: Any, factors: Any) -> tuple[Any, Any]:
        kept, added = factors
        after = kept * before + added
        return after, after

    factors = _part(before, rows), _part(rows, before) * tangent
    return loops.scan(step, jnp.zeros_like(tangent[0]), factors)[1]


def _part(own: Any, other: Any) -> Any:
    """The derivative of ``logaddexp(own, other)`` with respect to ``own``."""
    # Next to minus infinity an element counts fully, and so does infinity next to any.
    alone = (other == -jnp.inf) | (own == jnp.inf)
    # If the choice is 1, the other branch is kept finite for the gradient of the gradient.
    apart = jnp.where(alone, 0, other) - jnp.where(alone, 0, own)
    return jnp.where(alone, 1, jax.nn.sigmoid(-apart))


@with_derivatives(_along_logs_of_sums)
def _logs_of_sums(rows: Any) -> Any:
    def step(before: Any, row: Any) -> tuple[Any, Any]:
        after = jnp.logaddexp(before, row)
        return after, after

    return loops.scan(step, jnp.full_like(rows[0], -jnp.inf), rows)[1]


@jax.custom_jvp
def _row_sums(input: Any) -> Any:
    """Running sums along the last dimension."""
    found = _sums_by_blocks(input)
    # The product multiplies later elements by zero, and zero times infinity is not zero.
    return jax.lax.cond(
        jnp.isfinite(found[..., -1]).all(),
        lambda input, found: found,
        lambda input, found: jnp.cumsum(input, -1),
        input,
        found,
    )


@_row_sums.defjvp
def _row_sums_jvp(primals: Any, tangents: Any) -> Any:
    return _row_sums(*primals), _sums_by_blocks(*tangents)


def _sums_by_blocks(input: Any) -> Any:
    *lead, size = input.shape
    count = -(-size // _BLOCK)
    padded = jnp.pad(input, [(0, 0)] * len(lead) + [(0, count * _BLOCK - size)])
    triangle = np.triu(np.ones((_BLOCK, _BLOCK), input.dtype))
    within = jnp.matmul(
        padded.reshape(*lead, count, _BLOCK), triangle, precision=jax.lax.Precision.HIGHEST
    )
    totals = jnp.cumsum(within[..., :-1, -1:], -2)
    before = jnp.pad(totals, [(0, 0)] * len(lead) + [(1, 0), (0, 0)])
    found = within + before
    return found.reshape(*lead, count * _BLOCK)[..., :size]


def records(beats: Any, input: Any, dim: int) -> Any:
    """The running extreme elements and the index of each; NaN, once met, stays the extreme."""
    rows = jnp.moveaxis(input, dim, 0)

    def step(best: Any, given: Any) -> tuple[Any, Any]:
        row, position = given
        # NaN beats every number, and only NaN beats NaN.
        is_record = beats(row, best[0]) | (row != row)
        best = jnp.where(is_record, row, best[0]), jnp.where(is_record, position, best[1])
        return best, best

    start = rows[0], jnp.zeros(rows.shape[1:], jnp.int64)
    _, (values, indices) = loops.scan(step, start, (rows, jnp.arange(rows.shape[0])))
    return jnp.moveaxis(values, 0, dim), jnp.moveaxis(indices, 0, dim)
