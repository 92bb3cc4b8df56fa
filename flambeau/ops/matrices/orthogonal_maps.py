"""Maps from matrices to orthogonal matrices, and their inverses.

Trivializations: M. Lezcano-Casado, "Trivializations for gradient-based optimization on manifolds",
https://arxiv.org/abs/1909.09501.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import op
from flambeau.ops.matrices.exponential import matrix_exponential

__all__: list[str] = []


@op(node="LinalgMatrixExpBackward0")
def orthogonal_map(input: Array, base: Array | None, kind: str) -> Array:
    """A matrix with orthonormal columns, or rows if there are more columns than rows.

    Args:
        input: ``(..., n, k)``; only the part below the diagonal is used.
        base: ``(..., m, m)`` with m the greater of n and k, multiplied to the result; or ``None``.
        kind: ``"matrix_exp"`` for the exponential of a skew-symmetric matrix, ``"cayley"`` for its
            Cayley transform, or ``"householder"`` for a product of reflections.

    Returns:
        ``(..., n, k)``.
    """
    wide = input.shape[-2] < input.shape[-1]
    tall = input.mT if wide else input
    found = _reflected(tall) if kind == "householder" else _rotated(tall, kind)
    if base is not None:
        found = base @ found
    return found.mT if wide else found


def _rotated(input: Any, kind: str) -> Any:
    rows, columns = input.shape[-2:]
    lower = jnp.tril(input)
    padding = [(0, 0)] * (input.ndim - 1) + [(0, rows - columns)]
    lower = jnp.pad(lower, padding)
    skew = lower - jnp.conj(lower.mT)
    if kind == "matrix_exp":
        return matrix_exponential(skew)[..., :columns]
    identity = jnp.eye(rows, dtype=input.dtype)
    return jnp.linalg.solve(identity - skew / 2, identity + skew / 2)[..., :columns]


def _reflected(input: Any) -> Any:
    """The product of the reflections whose vectors are below the diagonal of the columns.

    Its factored form ``I - V T V^T``, with ``T^-1`` the part of ``V^T V`` above the diagonal and
    half of its diagonal: X. Sun and C. Bischof, https://doi.org/10.1137/S0895479894276370.
    """
    rows, columns = input.shape[-2:]
    identity = jnp.eye(rows, columns, dtype=input.dtype)
    vectors = jnp.tril(input, -1) + identity
    products = vectors.mT @ vectors
    halves = jnp.diagonal(products, axis1=-2, axis2=-1) / 2
    inverse = jnp.triu(products, 1) + halves[..., None] * jnp.eye(columns, dtype=input.dtype)
    first_rows = vectors[..., :columns, :]
    found = identity - vectors @ jax.scipy.linalg.solve_triangular(inverse, first_rows.mT)
    # The signs on the diagonal are part of the input, but get no gradient.
    signs = jnp.diagonal(input, axis1=-2, axis2=-1).astype(jnp.int32).astype(input.dtype)
    return found * signs[..., None, :]


@op(differentiable=False)
def orthonormalized(input: Array) -> Array:
    """The orthogonal factor of a QR decomposition, columns with the signs of R's diagonal."""
    factors, tau = _reflections(input)
    diagonal = jnp.diagonal(factors, axis1=-2, axis2=-1)
    return lax.linalg.householder_product(factors, tau) * jnp.sign(diagonal)[..., None, :]


@op(differentiable=False)
def reflections_of(input: Array) -> Array:
    """The argument of ``orthogonal_map(..., None, "householder")`` for ``input``, ``(..., n, k)``.

    Args:
        input: Orthonormal columns, or rows if there are more columns than rows.
    """
    wide = input.shape[-2] < input.shape[-1]
    factors, tau = _reflections(input.mT if wide else input)
    signs = jnp.sign(jnp.diagonal(factors, axis1=-2, axis2=-1))
    # If tau is 0 there is no reflection, but the map always applies one.
    signs = jnp.where(tau == 0, -signs, signs)
    rows, columns = factors.shape[-2:]
    on_diagonal = jnp.eye(rows, columns, dtype=bool)
    found = jnp.where(on_diagonal, signs[..., None, :], factors)
    return found.mT if wide else found


def _reflections(input: Any) -> tuple[Any, Any]:
    """The reflections of a QR decomposition as LAPACK returns them, and their factors."""
    transposed, tau = jnp.linalg.qr(input, mode="raw")
    return transposed.mT, tau
