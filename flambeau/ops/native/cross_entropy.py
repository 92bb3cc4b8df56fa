"""The cross entropy of rows of scores by native kernels."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from flambeau.ops.cpu_forms.linear_maps import LinearMap
from flambeau.ops.native.call import call_kernel, has_kernel

__all__: list[str] = []


# XLA's loops are as fast for rows shorter than a vector, and for few elements.
_FEWEST_ELEMENTS = 1 << 9
_SHORTEST_ROW = 16


def takes(scores: Any, axis: int) -> bool:
    """Whether the kernels support the cross entropy of these scores along ``axis``."""
    return (
        has_kernel("cross_entropy_gradient", scores)
        and scores.dtype == jnp.float32
        and axis == scores.ndim - 1
        and scores.shape[-1] >= _SHORTEST_ROW
        and scores.size >= _FEWEST_ELEMENTS
    )


@jax.custom_jvp
def cross_entropy(scores: Any, index: Any) -> Any:
    """The negative logarithm of the softmax of scores ``(..., C)`` at ``index``, ``(...)``.

    NaN where the index is C.
    """
    return _losses(scores, index, *_log_sums(scores))


@jax.custom_jvp
def _log_sums(scores: Any) -> tuple[Any, ...]:
    """The greatest score of each row, and the logarithm of the sum of ``exp(score - greatest)``.

    Only their sum has derivatives: the first is treated as a constant.
    """
    shape = scores.shape[:-1]
    return call_kernel("log_sum", [shape, shape], scores, batch=len(shape))


@_log_sums.defjvp
def _log_sums_jvp(primals: Any, tangents: Any) -> Any:
    (scores,) = primals
    greatest, logarithm = _log_sums(scores)
    nowhere = jnp.full(greatest.shape, -1, jnp.int32)
    (moved,) = _DERIVATIVE((scores, greatest, logarithm, nowhere), tangents)
    return (greatest, logarithm), (jnp.zeros_like(greatest), moved)


def _losses(scores: Any, index: Any, greatest: Any, logarithm: Any) -> Any:
    chosen = jnp.take_along_axis(scores, index[..., None], -1, mode="fill")[..., 0]
    return logarithm - (chosen - greatest)


@cross_entropy.defjvp
def _cross_entropy_jvp(primals: Any, tangents: Any) -> Any:
    scores, index = primals
    found = _log_sums(scores)
    places = jnp.where(index < scores.shape[-1], index.astype(jnp.int32), -1)
    (moved,) = _DERIVATIVE((scores, *found, places), tangents[:1])
    return _losses(scores, index, *found), moved


def _moved(fixed: Any, linear: Any) -> Any:
    (scores, greatest, logarithm, places), (moved,) = fixed, linear
    weights = jnp.exp(scores - greatest[..., None] - logarithm[..., None])
    chosen = jax.lax.broadcasted_iota(jnp.int32, scores.shape, scores.ndim - 1) == places[..., None]
    return (jnp.sum(jnp.where(chosen, weights - 1, weights) * moved, -1),)


def _pulled(fixed: Any, cotangents: Any) -> Any:
    scores = fixed[0]
    return call_kernel(
        "cross_entropy_gradient", [scores.shape], *fixed, *cotangents, batch=scores.ndim - 1
    )


#: The tangents of cross entropies, from those of the scores, with the results of `_log_sums`, and
#: the indices of the targets; -1 for no target.
_DERIVATIVE = LinearMap(_moved, _pulled, batches=True, native=True)
