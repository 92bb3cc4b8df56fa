"""Weights divided by their norm.

Weight normalization: https://arxiv.org/abs/1602.07868. Spectral normalization:
https://arxiv.org/abs/1802.05957.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import op
from flambeau.ops.common import loops
from flambeau.ops.common.checks import wrap_dims
from flambeau.ops.common.derivatives import squared_magnitude

__all__: list[str] = []


@op(widen=True)
def norm_except_dim(v: Array, pow: int = 2, dim: int = 0) -> Array:
    """The norm of ``v`` over all dimensions except one, which are kept with size 1.

    Args:
        v: Any shape.
        pow: The order of the norm.
        dim: The dimension that is not reduced; -1 for none, which gives a 0-d tensor.

    Raises:
        IndexError: There is no such dimension.
    """
    return _norm_except(v, pow, dim)


@op(widen=True, node="WeightNormInterfaceBackward0")
def weight_norm(v: Array, g: Array, dim: int) -> Array:
    """``v * g / norm``, with the norm of `norm_except_dim`."""
    return v * (g / _norm_except(v, 2, dim))


def _norm_except(v: Any, order: int, dim: int) -> Any:
    axes = None
    if dim != -1:
        kept = wrap_dims(dim, v.ndim, "weight_norm")
        axes = tuple(i for i in range(v.ndim) if i not in kept)
    powers = squared_magnitude(v) if order == 2 else jnp.abs(v) ** order
    total = jnp.sum(powers, axes, keepdims=axes is not None)
    # The gradient of the norm of zeros is 0.
    is_zero = total == 0
    root = jnp.where(is_zero, jnp.ones_like(total), total) ** (1.0 / order)
    return jnp.where(is_zero, jnp.zeros_like(root), root)


def _as_matrix(weight: Any, dim: int) -> Any:
    """The weight as a matrix, with ``dim`` as its rows and all others as its columns."""
    return jnp.moveaxis(weight, dim, 0).reshape(weight.shape[dim], -1)


def _normalized(vector: Any, eps: float) -> Any:
    return vector / jnp.maximum(jnp.linalg.norm(vector), jnp.asarray(eps, vector.real.dtype))


@op(differentiable=False)
def power_iterations(
    weight: Array, u: Array, v: Array, count: int, dim: int, eps: float, left_first: bool
) -> Array:
    """Improved estimates of the singular vectors of the greatest singular value.

    Args:
        weight: A weight, as a matrix with ``dim`` as rows and all others as columns.
        u: ``(rows,)``, the present estimate of the left vector.
        v: ``(columns,)``, the present estimate of the right vector.
        count: The number of iterations.
        dim: See ``weight``.
        eps: The least norm to divide by.
        left_first: Whether to start with u.
    """
    matrix = _as_matrix(weight, dim)

    def left(pair: Any) -> Any:
        return _normalized(matrix @ pair[1], eps), pair[1]

    def right(pair: Any) -> Any:
        return pair[0], _normalized(jnp.conj(matrix.T) @ pair[0], eps)

    steps = (left, right) if left_first else (right, left)

    def iterate(_: Any, pair: Any) -> Any:
        return steps[1](steps[0](pair))

    return loops.fori_loop(0, count, iterate, (u, v), unroll=count == 1)


@op(widen=True, node="DivBackward0")
def divided_by_sigma(weight: Array, u: Array, v: Array, dim: int) -> Array:
    """The weight divided by its greatest singular value, as computed from its singular vectors."""
    return weight / jnp.vdot(u, _as_matrix(weight, dim) @ v)


@op(differentiable=False)
def right_vector(weight: Array, u: Array, sigma: Array, dim: int) -> Array:
    """The right singular vector for the left one, scaled so that the value is sigma.

    It is the least-squares solution of ``W v = u``.
    """
    matrix = _as_matrix(weight, dim)
    v = jnp.linalg.pinv(matrix.T @ matrix) @ (matrix.T @ u)
    return v * (sigma / jnp.dot(u, matrix @ v))
