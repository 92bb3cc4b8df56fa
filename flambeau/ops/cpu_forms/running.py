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
