"""Linear equations: inverses, solutions, least squares."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flambeau import return_types
from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import function, op
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.derivatives import squared_magnitude
from flambeau.ops.common.values import concrete_values
from flambeau.ops.indices.placement import first_outside, nan_unless
from flambeau.ops.matrices.factorization import (
    check_found,
    check_matrix,
    from_triangle,
    needs_finite,
)
from flambeau.ops.matrices.linalg import one_dtype

__all__ = ["cholesky_inverse", "cholesky_solve", "inverse", "pinverse", "triangular_solve"]

_SINGULAR = "the matrix is singular"


@op(name="linalg_inv_ex")
def _inverse(A: Array) -> Array:
    check_matrix("inv", A, square=True)
    return jnp.linalg.inv(A)


@function(method=True)
def inverse(input: Tensor) -> Tensor:
    """The inverses of square matrices, ``(..., n, n)``.

    Raises:
        LinAlgError: A matrix is singular.
        RuntimeError: ``input`` is not a square matrix.
    """
    found = _inverse(input)
    check_found("inv", (input,), found, _SINGULAR)
    return found


@op(differentiable=False)
def _is_bad(input: Array) -> Array:
    return (~jnp.isfinite(input)).any((-2, -1)).astype(jnp.int32)


@function
def inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """`linalg.inv` and, for each matrix, 0, or 1 if it is singular."""
    found = inverse(A) if check_errors else _inverse(A)
    return return_types.linalg_inv_ex(found, _is_bad(found))


def _is_vector(A: Any, B: Any) -> bool:
    """Whether ``B`` holds vectors rather than matrices, by PyTorch's rule."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])


@op(name="linalg_solve_ex")
def _solve(A: Array, B: Array, left: bool) -> Array:
    one_dtype("solve", A, B)
    check_matrix("solve", A, square=True)
    vector = _is_vector(A, B)
    rows = B[..., None] if vector else B
    size = rows.shape[-2] if left or vector else rows.shape[-1]
    if size != A.shape[-1] or (vector and not left):
        raise RuntimeError(
            f"solve(): shapes {list(A.shape)} and {list(B.shape)} are not those of an equation"
        )
    batch = jnp.broadcast_shapes(A.shape[:-2], rows.shape[:-2])
    matrices = jnp.broadcast_to(A, (*batch, *A.shape[-2:]))
    right = jnp.broadcast_to(rows, (*batch, *rows.shape[-2:]))
    if not left:
        matrices, right = jnp.swapaxes(matrices, -1, -2), jnp.swapaxes(right, -1, -2)
    found = jnp.linalg.solve(matrices, right)
    found = found if left else jnp.swapaxes(found, -1, -2)
    return found[..., 0] if vector else found


@function
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The ``X`` with ``A @ X == B``, or with ``X @ A == B`` if not ``left``.

    Args:
        A: ``(..., n, n)``.
        B: ``(..., n, k)``; or vectors, ``(n,)`` or ``(..., n)`` with the batch of ``A``.
        left: Whether ``A`` is the left factor.

    Raises:
        LinAlgError: ``A`` is singular.
        RuntimeError: Shapes or dtypes do not match.
    """
    found = _solve(A, B, left)
    check_found("solve", (A, B), found, _SINGULAR)
    return found


@function
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """`linalg.solve` and, for each matrix, 0, or 1 if it is singular."""
    found = solve(A, B, left=left) if check_errors else _solve(A, B, left)
    return return_types.linalg_solve_ex(found, _is_bad(_inverse(A.detach())))


@op(name="linalg_solve_triangular")
def _solve_triangular(A: Array, B: Array, upper: bool, left: bool, unitriangular: bool) -> Array:
    check_matrix("solve_triangular", A, square=True)
    check_matrix("solve_triangular", B)
    one_dtype("solve_triangular", A, B)
    if B.shape[-2 if left else -1] != A.shape[-1]:
        raise RuntimeError(
            f"solve_triangular(): shapes {list(A.shape)} and {list(B.shape)} are not those of an "
            "equation"
        )
    batch = jnp.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    return jax.lax.linalg.triangular_solve(
        jnp.broadcast_to(A, (*batch, *A.shape[-2:])),
        jnp.broadcast_to(B, (*batch, *B.shape[-2:])),
        left_side=left,
        lower=not upper,
        unit_diagonal=unitriangular,
    )


@function
def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """The ``X`` with ``A @ X == B``, or ``X @ A == B`` if not ``left``, for triangular ``A``.

    Args:
        A: ``(..., n, n)``; the other triangle is not read.
        B: ``(..., n, k)``.
        upper: Whether the upper triangle of ``A`` is used.
        left: Whether ``A`` is the left factor.
        unitriangular: Assume ones on the diagonal of ``A``.

    Raises:
        RuntimeError: Shapes or dtypes do not match.
    """
    return _solve_triangular(A, B, upper, left, unitriangular)


@function(method=True)
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False,
    unitriangular: bool = False,
) -> Any:  # fmt: skip
    """`linalg.solve_triangular` under its older name, with its arguments exchanged."""
    matrix, upper = (A.mT, not upper) if transpose else (A, upper)
    found = solve_triangular(matrix, input, upper=upper, unitriangular=unitriangular)
    return return_types.triangular_solve(found, A.clone())


@function
def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Any:
    """The solution of equations for a matrix given by its `linalg.lu_factor`.

    Args:
        LU: ``(..., n, n)``.
        pivots: ``(..., n)``.
        B: ``(..., n, k)``.
        left: Whether the matrix is the left factor.
        adjoint: Solve with the conjugate transpose of the matrix.

    Raises:
        RuntimeError: Shapes do not match, or a pivot is out of range. In compiled functions, such a
            pivot makes the solution NaN.
    """
    check_pivots("lu_solve", LU, pivots)
    return _lu_solve(LU, pivots, B, left, adjoint)


def check_pivots(name: str, LU: Tensor, pivots: Tensor) -> None:
    """Raise RuntimeError if known pivots are no rows of ``LU``, counted from 1."""
    rows = LU.shape[-2] if LU.ndim > 1 else 0
    outside = first_outside(pivots, 1, rows + 1)
    if outside is not None and rows:
        raise RuntimeError(
            f"{name}(): pivots must be from 1 to {rows}, as lu_factor() gives them, got {outside}"
        )


def are_pivots(pivots: Any, rows: int) -> Any:
    """``(..., 1, 1)``: whether the pivots of each matrix are in range."""
    return jnp.all((pivots >= 1) & (pivots <= rows), -1)[..., None, None]


@op(name="linalg_lu_solve")
def _lu_solve(LU: Array, pivots: Array, B: Array, left: bool, adjoint: bool) -> Array:
    check_matrix("lu_solve", LU, square=True)
    one_dtype("lu_solve", LU, B)
    if not LU.size:
        batch = jnp.broadcast_shapes(LU.shape[:-2], B.shape[:-2])
        return jnp.zeros((*batch, *B.shape[-2:]), B.dtype)
    LU = nan_unless(are_pivots(pivots, LU.shape[-1]), LU)
    permutation = jax.lax.linalg.lu_pivots_to_permutation(pivots - 1, LU.shape[-1])
    right = B if left else jnp.swapaxes(B, -1, -2)
    # From the right, the system is solved for the transpose, and vice versa.
    conjugated = adjoint and not left
    kind = (2 if adjoint else 0) if left else (0 if adjoint else 1)
    right = jnp.conj(right) if conjugated else right
    found = jax.scipy.linalg.lu_solve((LU, pivots - 1), right, kind) if LU.ndim == 2 else (
        _lu_solve_batch(LU, permutation, right, kind)
    )  # fmt: skip
    found = jnp.conj(found) if conjugated else found
    return found if left else jnp.swapaxes(found, -1, -2)


def _lu_solve_batch(LU: Any, permutation: Any, right: Any, kind: int) -> Any:
    batch = jnp.broadcast_shapes(LU.shape[:-2], right.shape[:-2])
    count = math.prod(batch)
    factors = jnp.broadcast_to(LU, (*batch, *LU.shape[-2:])).reshape(count, *LU.shape[-2:])
    orders = jnp.broadcast_to(permutation, (*batch, LU.shape[-1])).reshape(count, -1)
    sides = jnp.broadcast_to(right, (*batch, *right.shape[-2:])).reshape(count, *right.shape[-2:])

    def one(lu: Any, order: Any, b: Any) -> Any:
        solve = jax.lax.linalg.triangular_solve
        if kind == 0:
            y = solve(lu, b[order], left_side=True, lower=True, unit_diagonal=True)
            return solve(lu, y, left_side=True, lower=False)
        options = {"left_side": True, "transpose_a": True, "conjugate_a": kind == 2}
        y = solve(lu, b, lower=False, **options)
        x = solve(lu, y, lower=True, unit_diagonal=True, **options)
        return jnp.zeros_like(x).at[order].set(x)

    return jax.vmap(one)(factors, orders, sides).reshape(*batch, *right.shape[-2:])


@op(method=True)
def cholesky_solve(input: Array, L: Array, upper: bool = False) -> Array:
    """The solution of equations for a matrix given by its `linalg.cholesky`.

    Args:
        input: ``(..., n, k)``, the right-hand sides.
        L: ``(..., n, n)``.
        upper: Whether ``L`` is the upper factor.
    """
    check_matrix("cholesky_solve", L, square=True)
    check_matrix("cholesky_solve", input)
    return _cholesky_solve(L, input, upper)


def _cholesky_solve(L: Any, right: Any, upper: bool) -> Any:
    solve = jax.lax.linalg.triangular_solve
    batch = jnp.broadcast_shapes(L.shape[:-2], right.shape[:-2])
    L = jnp.broadcast_to(L, (*batch, *L.shape[-2:]))
    right = jnp.broadcast_to(right, (*batch, *right.shape[-2:]))
    adjoint = {"transpose_a": True, "conjugate_a": True}
    first, second = (adjoint, {}) if upper else ({}, adjoint)
    y = solve(L, right, left_side=True, lower=not upper, **first)
    return solve(L, y, left_side=True, lower=not upper, **second)


@op(method=True)
def cholesky_inverse(input: Array, upper: bool = False) -> Array:
    """The inverses of matrices given by their `linalg.cholesky`, ``(..., n, n)``."""
    check_matrix("cholesky_inverse", input, square=True)
    return _cholesky_solve(input, jnp.eye(input.shape[-1], dtype=input.dtype), upper)


# Pseudo-inverses and least squares


def cutoff_of(values: Any, shape: tuple[int, ...], atol: Any, rtol: Any) -> Any:
    """The threshold for singular values: the greater of ``atol`` and ``rtol`` times the first.

    ``rtol`` is by default ``max(m, n)`` times the machine epsilon, or 0 if ``atol`` is given.
    """
    if rtol is None:
        rtol = max(shape[-2:]) * jnp.finfo(values.dtype).eps if atol is None else 0.0
    greatest = jnp.max(values, -1, keepdims=True, initial=0)
    least = jnp.zeros((), values.dtype) if atol is None else jnp.asarray(atol)
    relative = jnp.asarray(rtol)
    least = least[..., None] if least.ndim else least
    relative = relative[..., None] if relative.ndim else relative
    return jnp.maximum(least, relative * greatest).astype(values.dtype)


@needs_finite
@op(name="linalg_pinv")
def pinv(
    A: Array,
    rcond: Array | None = None,
    hermitian: bool = False,
    *,
    atol: Array | None = None,
    rtol: Array | None = None,
) -> Array:
    """The pseudo-inverse, through the singular values.

    Args:
        A: ``(..., m, n)``.
        rcond: ``rtol`` under its older name.
        hermitian: ``A`` is Hermitian, and only its lower triangle is read.
        atol: Singular values up to this are treated as 0.
        rtol: Also up to this times the greatest; by default ``max(m, n)`` times the epsilon.

    Returns:
        ``(..., n, m)``.
    """
    check_matrix("pinv", A, square=hermitian)
    if hermitian:
        # As in PyTorch, all elements get a gradient.
        A = A + jax.lax.stop_gradient(from_triangle(A, True) - A)
    return _pseudo_inverse(A, atol, rcond if rtol is None else rtol)[0]


@jax.custom_jvp
def _pseudo_inverse(A: Any, atol: Any, rtol: Any) -> tuple[Any, Any, Any]:
    """The pseudo-inverse, the rank, and the singular values, which have no gradients."""
    u, values, vh = jnp.linalg.svd(A, full_matrices=False)
    kept = values > cutoff_of(values, A.shape, atol, rtol)
    inverse = jnp.where(kept, 1 / jnp.where(kept, values, 1), 0).astype(A.dtype)
    found = jnp.matmul(_adjoint(vh) * inverse[..., None, :], _adjoint(u))
    return found, jnp.sum(kept, -1), values


@_pseudo_inverse.defjvp
def _pseudo_inverse_jvp(primals: Any, tangents: Any) -> Any:
    """For a constant rank, without differences of singular values.

    G. H. Golub, V. Pereyra: The differentiation of pseudo-inverses and nonlinear least squares
    problems whose variables separate, 1973.
    """
    A, tangent = primals[0], tangents[0]
    found, rank, values = _pseudo_inverse(*primals)
    turned, other = _adjoint(tangent), _adjoint(found)
    change = -found @ tangent @ found
    change += found @ other @ (turned - turned @ (A @ found))
    change += (turned - found @ A @ turned) @ other @ found
    no_rank = np.zeros(rank.shape, jax.dtypes.float0)
    return (found, rank, values), (change, no_rank, jnp.zeros_like(values))


def _adjoint(matrices: Any) -> Any:
    return jnp.conj(jnp.swapaxes(matrices, -1, -2))


@function(method=True)
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """`linalg.pinv` under its older name."""
    return pinv(input, rcond)


@op(name="linalg_lstsq")
def _least_squares(A: Array, B: Array, rcond: Array | None) -> Array:
    check_matrix("lstsq", A)
    one_dtype("lstsq", A, B)
    vector = _is_vector(A, B)
    right = B[..., None] if vector else B
    if right.shape[-2] != A.shape[-2]:
        raise RuntimeError(
            f"lstsq(): shapes {list(A.shape)} and {list(B.shape)} differ in their rows"
        )
    inverse, rank, values = _pseudo_inverse(A, None, rcond)
    found = jnp.matmul(inverse, right)
    errors = jnp.sum(squared_magnitude(jnp.matmul(A, found) - right), -2)
    return (found[..., 0] if vector else found), errors, rank, values


@function
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """The ``X`` that minimizes the norm of ``A @ X - B``, with the least norm among all such.

    Args:
        A: ``(..., m, n)``.
        B: ``(..., m, k)``, or vectors.
        rcond: Singular values up to this times the greatest are treated as 0.
        driver: ``"gelsy"`` (the default), ``"gelsd"`` and ``"gelss"`` give the rank; the last two
            the singular values.

    Returns:
        ``solution, residuals, rank, singular_values``. The residuals are empty for ``"gelsy"``, and
        unless ``m > n`` and ``A`` has full rank.

    Raises:
        RuntimeError: Shapes or dtypes do not match, or the driver is unknown.
    """
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"lstsq(): driver {driver!r} is not one of gels, gelsy, gelsd, gelss")
    solution, errors, rank, values = _least_squares(A, B, rcond)
    known = concrete_values(rank)
    kept = driver in ("gels", "gelsd", "gelss")
    full = kept and A.size(-2) > A.size(-1) and (known is None or bool(np.all(known == A.size(-1))))
    return return_types.linalg_lstsq(
        solution,
        errors if full else A.new_empty(0),
        rank if driver != "gels" else rank.new_empty(0),
        values.detach() if driver in ("gelsd", "gelss") else A.detach().real.new_empty(0),
    )


@function
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The tensor ``X`` with ``tensordot(X, tensordot(A, B, ind), ind) == B`` for all ``B``.

    Raises:
        RuntimeError: ``ind`` is not positive, or the dimensions before and after ``ind`` differ in
            their number of elements.
    """
    if ind <= 0:
        raise RuntimeError(f"tensorinv(): ind must be positive, got {ind}")
    shape = tuple(A.shape)
    first, second = shape[:ind], shape[ind:]
    if math.prod(first) != math.prod(second):
        raise RuntimeError(
            f"tensorinv(): {list(first)} and {list(second)} must hold as many elements"
        )
    if not shape:
        raise RuntimeError("tensorinv(): a 0-d tensor has no dimensions to divide")
    return inverse(A.reshape(math.prod(first), -1)).reshape((*second, *first))


@function
def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """The tensor ``X`` with ``tensordot(A, X, X.ndim) == B``.

    Args:
        A: Its leading dimensions have as many elements as ``B``.
        B: The right-hand side.
        dims: Dimensions of ``A`` to move to the end first.

    Raises:
        RuntimeError: The numbers of elements do not match.
    """
    if dims is not None:
        dims = tuple(dims)
        A = A.movedim(dims, tuple(range(A.dim() - len(dims), A.dim())))
    rest = tuple(A.shape[B.dim() :])
    if math.prod(rest) != B.numel():
        raise RuntimeError(
            f"tensorsolve(): shapes {list(A.shape)} and {list(B.shape)} are not those of an "
            "equation"
        )
    return solve(A.reshape(-1, B.numel()), B.reshape(-1)).reshape(rest)
