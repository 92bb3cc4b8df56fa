"""Factorizations of matrices under their names outside `linalg`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from flambeau import return_types
from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import function, op
from flambeau.core.values.tensor import Tensor
from flambeau.ops.draws.sampling import randn
from flambeau.ops.indices.placement import or_missing
from flambeau.ops.matrices.factorization import (
    check_matrix,
    check_reflections,
    householder_product,
    linalg_qr,
    linalg_svd,
    lu_factor,
    lu_factor_ex,
    product_of_reflections,
)
from flambeau.ops.matrices.solving import are_pivots, check_pivots
from flambeau.ops.matrices.solving import lu_solve as linalg_lu_solve

__all__ = [
    "geqrf", "lu", "lu_solve", "lu_unpack", "orgqr", "ormqr", "pca_lowrank", "svd_lowrank",
]  # fmt: skip


# LU


@function(method=True)
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """`linalg.lu_factor`, or with ``get_infos`` `linalg.lu_factor_ex`, under their older name."""
    return lu_factor_ex(A, pivot=pivot) if get_infos else lu_factor(A, pivot=pivot)


@function(method=True)
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Any:
    """`linalg.lu_solve` under its older name, with the right-hand sides first."""
    return linalg_lu_solve(LU_data, LU_pivots, input)


@op(name="lu_unpack", node="LuUnpackBackward0")
def _triangles(input: Array) -> Array:
    rows, columns = input.shape[-2:]
    count = min(rows, columns)
    lower = jnp.tril(input[..., :count], -1) + jnp.eye(rows, count, dtype=input.dtype)
    return lower, jnp.triu(input[..., :count, :])


@op(differentiable=False)
def _permutation(input: Array, pivots: Array) -> Array:
    """The permutation matrices of exchanges of rows, in the dtype of ``input``."""
    rows = input.shape[-2]
    order = lax.linalg.lu_pivots_to_permutation(pivots - 1, rows)
    found = (order[..., None, :] == jnp.arange(rows)[:, None]).astype(input.dtype)
    return or_missing(are_pivots(pivots, rows), found)


@function
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    """The three factors of ``A == P @ L @ U`` from the compact form of `linalg.lu_factor`.

    Args:
        LU_data: ``(..., m, n)``.
        LU_pivots: ``(..., min(m, n))``, int32.
        unpack_data: Return L and U; empty tensors if false.
        unpack_pivots: Return P; an empty tensor if false.

    Returns:
        ``P, L, U`` of ``(..., m, m)``, ``(..., m, k)`` and ``(..., k, n)`` for ``k = min(m, n)``.

    Raises:
        RuntimeError: The pivots are not int32, or out of range. In compiled functions, P is NaN
            for pivots out of range.
    """
    if unpack_pivots and str(LU_pivots.dtype).rpartition(".")[2] != "int32":
        raise RuntimeError(f"lu_unpack(): pivots must be int32, got {LU_pivots.dtype}")
    if unpack_pivots:
        check_pivots("lu_unpack", LU_data, LU_pivots)
    empty = LU_data.new_empty(0)
    lower, upper = _triangles(LU_data) if unpack_data else (empty, empty)
    permutation = _permutation(LU_data, LU_pivots) if unpack_pivots else empty
    return return_types.lu_unpack(permutation, lower, upper)


# Householder reflections


@op(method=True, differentiable=False, returns=return_types.geqrf)
def geqrf(input: Array) -> Array:
    """The QR factorization as Householder reflections.

    Returns:
        ``a`` with R on and above its diagonal and the reflections' vectors below, and their factors
        ``tau``, for `orgqr` and `ormqr`.

    Raises:
        RuntimeError: ``input`` is not a matrix.
    """
    check_matrix("geqrf", input)
    packed, tau = jnp.linalg.qr(input, mode="raw")
    return jnp.swapaxes(packed, -1, -2), tau


@function(method=True)
def orgqr(input: Tensor, tau: Tensor) -> Any:
    """`linalg.householder_product` under its older name."""
    return householder_product(input, tau)


@op(method=True)
def ormqr(
    input: Array, tau: Array, other: Array, left: bool = True, transpose: bool = False
) -> Array:
    """``Q @ other``, where the square matrix Q is the product of all Householder reflections.

    Args:
        input: ``(..., m, k)``, the reflections' vectors below its diagonal.
        tau: ``(..., k)``, their factors.
        other: ``(..., m, n)``, or ``(..., n, m)`` if not ``left``.
        left: Multiply from the left; otherwise return ``other @ Q``.
        transpose: Multiply by the conjugate transpose of Q.
    """
    check_matrix("ormqr", input)
    check_reflections("ormqr", input, tau)
    rows, count = input.shape[-2:]
    square = jnp.pad(input, [(0, 0)] * (input.ndim - 1) + [(0, rows - count)])
    q = product_of_reflections(square, tau)
    q = jnp.conj(jnp.swapaxes(q, -1, -2)) if transpose else q
    return jnp.matmul(q, other) if left else jnp.matmul(other, q)


# Low rank


@function
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Any = None) -> Any:
    """The greatest singular values of a matrix and their vectors, by a randomized algorithm.

    N. Halko, P. G. Martinsson and J. A. Tropp, "Finding structure with randomness", 2009, algorithm
    5.1 on the subspace of 4.4. It is accurate if the singular values decrease quickly.

    Args:
        A: ``(..., m, n)``.
        q: The number of singular values, somewhat more than the desired rank.
        niter: The number of subspace iterations.
        M: Subtracted from ``A``, of a shape that broadcasts.

    Returns:
        ``U, S, V`` of ``(..., m, q)``, ``(..., q)`` and ``(..., n, q)``.
    """
    A = A if M is None else A - M
    wide = A.size(-2) < A.size(-1)
    A = A.mH if wide else A
    basis = _range_of(A, 6 if q is None else q, 2 if niter is None else niter)
    u, s, vh = linalg_svd(basis.mH @ A, False)
    u, v = basis @ u, vh.mH
    return (v, s, u) if wide else (u, s, v)


def _range_of(A: Tensor, q: int, niter: int) -> Any:
    """Orthonormal columns that approximately span the range of ``A``."""
    start = randn(A.size(-1), q, dtype=A.dtype, device=A.device)
    basis = linalg_qr(A @ start)[0]
    for _ in range(niter):
        basis = linalg_qr(A @ linalg_qr(A.mH @ basis)[0])[0]
    return basis


@function
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """The principal components of the rows of a matrix, by `svd_lowrank`.

    Args:
        A: ``(..., m, n)``, m samples.
        q: The number of components; by default ``min(6, m, n)``.
        center: Subtract the mean of each column first.
        niter: See `svd_lowrank`.

    Returns:
        ``U, S, V``; the columns of V are the principal directions.

    Raises:
        ValueError: ``q`` is not from 0 to ``min(m, n)``, or ``niter`` is negative.
    """
    most = min(A.shape[-2:])
    q = min(6, most) if q is None else q
    if not 0 <= q <= most:
        raise ValueError(f"pca_lowrank(): q={q} must be from 0 to {most}")
    if niter < 0:
        raise ValueError(f"pca_lowrank(): niter must not be negative, got {niter}")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)
