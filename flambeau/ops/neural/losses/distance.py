"""Distances and similarities of vectors, with PyTorch's gradients for equal vectors."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flambeau.core.kernels.kinds import Array, Operand, TensorOperand
from flambeau.core.operators.op import op
from flambeau.core.support import errors
from flambeau.ops.common.checks import floating, needs_floating, wrap_dim
from flambeau.ops.matrices.norms import norm_of

__all__ = ["cdist", "cosine_similarity", "pairwise_distance", "pdist"]


@op(widen=True, promote="type")
def cosine_similarity(x1: Operand, x2: Operand, dim: int = 1, eps: float = 1e-8) -> Array:
    """``x1 . x2 / (max(|x1|, eps) * max(|x2|, eps))`` along ``dim``.

    Args:
        x1: Any shape.
        x2: A shape that broadcasts with it.
        dim: The dimension of the vectors, counted after broadcasting.
        eps: The least norm.

    Raises:
        RuntimeError: The tensors are not floating point.
        IndexError: There is no dimension ``dim``.
    """
    needs_floating("cosine_similarity", x1)
    x1, x2 = jnp.broadcast_arrays(x1, x2)
    dim = wrap_dim(dim, x1.ndim, "cosine_similarity")
    if x1.ndim == 0:
        x1, x2 = x1[None], x2[None]
    x1, x2 = jnp.moveaxis(x1, dim, -1), jnp.moveaxis(x2, dim, -1)
    return jnp.sum(_unit(x1, eps) * _unit(x2, eps), -1)


def _unit(vectors: Any, eps: float) -> Any:
    norms = norm_of(vectors, 2.0, (vectors.ndim - 1,), True)
    # As in PyTorch, the gradient flows through the norm even if eps bounds it.
    bounded = norms + jax.lax.stop_gradient(
        jnp.maximum(norms, jnp.asarray(eps, norms.dtype)) - norms
    )
    return vectors / bounded


@op(widen=True, promote="type")
def pairwise_distance(
    x1: TensorOperand, x2: TensorOperand, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Array:
    """The ``p``-norm of ``x1 - x2 + eps`` along the last dimension.

    Args:
        x1: ``(N, D)`` or ``(D,)``.
        x2: A shape that broadcasts with it.
        p: The order of the norm.
        eps: Added to the differences.
        keepdim: Keep the last dimension, with size 1.
    """
    x1, x2 = floating(x1, x2)
    difference = x1 - x2 + jnp.asarray(eps, jnp.result_type(x1))
    if difference.ndim == 0:
        difference, keepdim = difference[None], False
    return norm_of(difference, float(p), (difference.ndim - 1,), keepdim)


def _check_norm(name: str, p: float) -> None:
    if not p >= 0:
        raise RuntimeError(f"{name}(): p must not be negative, got {p}")


@op(widen=True)
def pdist(input: Array, p: float = 2.0) -> Array:
    """The distances of all pairs of rows: ``N * (N - 1) / 2`` of them.

    Args:
        input: ``(N, D)``.
        p: The order of the norm.

    Raises:
        RuntimeError: ``input`` is not a matrix, or ``p`` is negative.
    """
    _check_norm("pdist", p)
    if input.ndim != 2:
        raise RuntimeError(f"pdist(): input must be 2-d, got shape {list(input.shape)}")
    # All distances take less time than gathering pairs of rows, and adding up their gradients.
    distances = norm_of(input[:, None] - input, float(p), (2,), False)
    first, second = np.triu_indices(input.shape[0], 1)
    return distances.reshape(-1)[first * input.shape[0] + second]


@op(widen=True)
def cdist(x1: Array, x2: Array, p: float = 2.0, compute_mode: str | None = None) -> Array:
    """The distances of each row of ``x1`` from each row of ``x2``.

    Args:
        x1: ``(..., P, D)``.
        x2: ``(..., R, D)``.
        p: The order of the norm.
        compute_mode: For ``p=2``, whether distances are computed through a matrix product:
            ``"use_mm_for_euclid_dist"``, ``"donot_use_mm_for_euclid_dist"``, or by default if ``P``
            or ``R`` exceeds 25.

    Returns:
        ``(..., P, R)``.

    Raises:
        RuntimeError: The shapes do not match, or ``p`` is negative.
        ValueError: ``compute_mode`` is unknown.
    """
    _check_norm("cdist", p)
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            "cdist() takes tensors of shapes (..., P, D) and (..., R, D), "
            f"got {list(x1.shape)} and {list(x2.shape)}"
        )
    modes = {
        None: max(x1.shape[-2], x2.shape[-2]) > 25,
        "use_mm_for_euclid_dist_if_necessary": max(x1.shape[-2], x2.shape[-2]) > 25,
        "use_mm_for_euclid_dist": True,
        "donot_use_mm_for_euclid_dist": False,
    }
    if compute_mode not in modes:
        raise errors.ValueError(
            f"cdist(): {compute_mode!r} is not a compute_mode; use one of {list(modes)}"
        )
    if p == 2 and modes[compute_mode]:
        return _euclidean(x1, x2)
    difference = x1[..., :, None, :] - x2[..., None, :, :]
    return norm_of(difference, float(p), (difference.ndim - 1,), False)


def _euclidean(x1: Any, x2: Any) -> Any:
    # |a - b|^2 = |a|^2 + |b|^2 - 2 a.b, one matrix product
    squares = jnp.sum(jnp.square(x1), -1)[..., :, None] + jnp.sum(jnp.square(x2), -1)[..., None, :]
    total = jnp.maximum(squares - 2 * jnp.matmul(x1, jnp.swapaxes(x2, -1, -2)), 0)
    return jnp.where(total == 0, 0.0, jnp.sqrt(jnp.where(total == 0, 1.0, total)))
