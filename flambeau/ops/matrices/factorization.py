"""Matrices as products of simpler ones: Cholesky, QR, LU, eigenvectors, singular values.

A matrix without such factors is an error in eager mode on the CPU; in compiled programs and on
other devices the factors are NaN.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from flambeau import return_types
from flambeau.core.kernels.kinds import Array
from flambeau.core.kernels.single_precision import is_half
from flambeau.core.operators.op import function, op
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common import loops
from flambeau.ops.common.checks import needs_inexact
from flambeau.ops.common.values import concrete_values
from flambeau.ops.matrices.square_svd import square_svd

__all__ = ["cholesky", "qr", "svd"]


class LinAlgError(RuntimeError):
    """A matrix has no inverse, or no factors of the requested kind."""


def check_matrix(name: str, input: Any, square: bool = False, takes_half: bool = False) -> None:
    """Check that ``input`` holds matrices of floating point or complex numbers.

    Args:
        name: The operator's name.
        input: Its matrices.
        square: Whether they must be square.
        takes_half: Whether they may be in half precision, which LAPACK does not have.

    Raises:
        RuntimeError: They are not as they must be; a NotImplementedError for half precision.
    """
    needs_inexact(name, input)
    if is_half(input) and not takes_half:
        kind = {"float16": "Half", "bfloat16": "BFloat16"}[str(input.dtype)]
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{kind}': matrices in half precision are not "
            "factorized; convert them with float()"
        )
    if input.ndim < 2:
        raise RuntimeError(f"{name}() takes matrices, got a tensor of shape {list(input.shape)}")
    if square and input.shape[-1] != input.shape[-2]:
        raise RuntimeError(f"{name}() takes square matrices, got shape {list(input.shape)}")


def check_found(name: str, inputs: tuple[Any, ...], result: Any, reason: str) -> None:
    """Check that a factorization of finite matrices gave finite factors.

    Raises:
        LinAlgError: It did not; ``reason`` explains why.
    """
    found = concrete_values(result)
    if found is None or np.isfinite(found).all():
        return
    given = [concrete_values(each) for each in inputs]
    if all(each is not None and np.isfinite(each).all() for each in given):
        raise LinAlgError(f"{name}(): {reason}")


def needs_finite(face: Any) -> Any:
    """A decorator: the operator's function refuses known NaN and infinity.

    Raises:
        LinAlgError: A matrix has one: no algorithm converges.
    """
    declared = face.op

    @functools.wraps(face)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = args[0] if args else kwargs.get("A", kwargs.get("input"))
        found = concrete_values(given)
        if found is not None and found.dtype.kind in "fc" and not np.isfinite(found).all():
            raise LinAlgError(
                f"{declared.name}(): the matrix of shape {list(found.shape)} contains NaN or "
                "infinity, for which no algorithm converges; see isfinite()"
            )
        return face(*args, **kwargs)

    declared.face = checked
    return checked


@op
def orthonormal_columns(input: Array) -> Array:
    """The orthogonal factor of ``input = Q R`` with a positive diagonal in R.

    That choice makes the factor unique, and uniformly distributed over all orthogonal matrices if
    the elements of ``input`` are independent normals (F. Mezzadri, "How to generate random matrices
    from the classical compact groups", 2007).

    Args:
        input: Of shape ``(..., rows, columns)``, with no fewer rows than columns.
    """
    q, r = jnp.linalg.qr(input)
    return q * jnp.sign(jnp.diagonal(r, axis1=-2, axis2=-1))[..., None, :]


# Cholesky


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def from_triangle(A: Any, lower: bool) -> Any:
    """The Hermitian matrix with one given triangle; both triangles share the gradient."""
    strict = jnp.tril(A, -1) if lower else jnp.triu(A, 1)
    diagonal = jnp.real(jnp.diagonal(A, axis1=-2, axis2=-1)).astype(A.dtype)
    whole = strict + jnp.conj(jnp.swapaxes(strict, -1, -2))
    return whole + diagonal[..., None] * jnp.eye(A.shape[-1], dtype=A.dtype)


@from_triangle.defjvp
def _from_triangle_jvp(lower: bool, primals: Any, tangents: Any) -> Any:
    (A,), (tangent,) = primals, tangents
    return from_triangle(A, lower), (tangent + jnp.conj(jnp.swapaxes(tangent, -1, -2))) / 2


@op(name="cholesky_ex", node="LinalgCholeskyExBackward0")
def _cholesky(input: Array, upper: bool) -> Array:
    check_matrix("cholesky", input, square=True)
    factor = lax.linalg.cholesky(from_triangle(input, not upper), symmetrize_input=False)
    return jnp.conj(jnp.swapaxes(factor, -1, -2)) if upper else factor


@function(method=True)
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The triangular ``L`` with ``L @ L.mH == input``.

    Args:
        input: ``(..., n, n)``, Hermitian and positive definite; one triangle is read.
        upper: Return the upper triangular ``L.mH``.

    Raises:
        LinAlgError: ``input`` is not positive definite.
        RuntimeError: ``input`` is not a square matrix.
    """
    factor = _cholesky(input, upper)
    check_found("cholesky", (), factor, "the matrix is not positive definite")
    return factor


@function
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """`cholesky` and, for each matrix, 0 or the row at which it is not positive definite."""
    factor = cholesky(A, upper) if check_errors else _cholesky(A, upper)
    return return_types.linalg_cholesky_ex(factor, _where_bad(factor))


@op(differentiable=False)
def _where_bad(input: Array) -> Array:
    """For each matrix the number, from 1, of the first row with a NaN; 0 if there is none."""
    bad = jnp.isnan(input).any(-1)
    return jnp.where(bad.any(-1), jnp.argmax(bad, -1) + 1, 0).astype(jnp.int32)


# QR


@op(name="linalg_qr", returns=return_types.linalg_qr)
def linalg_qr(A: Array, mode: str = "reduced") -> Array:
    """``A == Q @ R`` with orthonormal columns in Q and an upper triangular R.

    Args:
        A: ``(..., m, n)``.
        mode: ``"reduced"`` gives ``Q`` of ``(..., m, k)`` for ``k = min(m, n)``; ``"complete"`` of
            ``(..., m, m)``; ``"r"`` an empty one.

    Raises:
        RuntimeError: ``A`` is not a matrix, or the mode is unknown.
    """
    check_matrix("qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr(): mode must be 'reduced', 'complete' or 'r', got {mode!r}")
    if mode == "r":
        return jnp.zeros((0,), A.dtype), jnp.linalg.qr(A, mode="r")
    q, r = jnp.linalg.qr(A, mode=mode)
    return q, r


@function(method=True)
def qr(input: Tensor, some: bool = True) -> Any:
    """`linalg.qr` under its older name; ``some=False`` is its mode ``"complete"``."""
    return return_types.qr(*linalg_qr(input, "reduced" if some else "complete"))


@op
def householder_product(A: Array, tau: Array) -> Array:
    """The first columns of the product of Householder reflections.

    Args:
        A: ``(..., m, n)``, the reflections' vectors below its diagonal.
        tau: ``(..., k)``, their factors.
    """
    check_matrix("householder_product", A)
    check_reflections("householder_product", A, tau)
    return product_of_reflections(A, tau)


def check_reflections(name: str, A: Any, tau: Any) -> None:
    """Check the factors of Householder reflections.

    Raises:
        RuntimeError: There are more columns than rows, or ``tau`` does not fit.
    """
    rows, columns = A.shape[-2:]
    if rows < columns or tau.shape[:-1] != A.shape[:-2] or not tau.ndim or tau.shape[-1] > columns:
        raise RuntimeError(
            f"{name}() takes (..., m, n) with m >= n and tau (..., k) with k <= n, got shapes "
            f"{list(A.shape)} and {list(tau.shape)}"
        )


@jax.custom_jvp
def product_of_reflections(A: Any, tau: Any) -> Any:
    """`householder_product` on arrays with a derivative, which JAX's lacks."""
    return lax.linalg.householder_product(A, tau)


@product_of_reflections.defjvp
def product_of_reflections_jvp(primals: Any, tangents: Any) -> Any:
    return jax.jvp(_reflected_one_by_one, primals, tangents)


def _reflected_one_by_one(A: Any, tau: Any) -> Any:
    """The columns of the identity, reflected by ``I - tau v v^H`` from the last to the first."""
    count = tau.shape[-1]
    identity = jnp.eye(*A.shape[-2:], dtype=A.dtype)
    vectors = jnp.tril(A, -1)[..., :count] + identity[:, :count]

    def reflect(columns: Any, reflection: Any) -> Any:
        vector, factor = reflection
        along = jnp.conj(vector)[..., None, :] @ columns
        return columns - (factor[..., None] * vector)[..., None] * along, None

    reflections = jnp.moveaxis(vectors, -1, 0), jnp.moveaxis(tau, -1, 0)
    return loops.scan(reflect, jnp.broadcast_to(identity, A.shape), reflections, reverse=True)[0]


# LU


@op(name="lu_factor_ex", node="LinalgLuFactorExBackward0", returns=return_types.linalg_lu_factor)
def _lu_factor(A: Array) -> Array:
    check_matrix("lu_factor", A)
    factors, pivots, _ = lax.linalg.lu(A)
    return factors, pivots + 1


@function
def lu_factor(A: Tensor, *, pivot: bool = True) -> Any:
    """The LU factorization of ``A`` with rows exchanged, in compact form.

    Args:
        A: ``(..., m, n)``.
        pivot: Must be true.

    Returns:
        ``LU``, with L below the diagonal and U on and above it, and the int32 ``pivots``: the row,
        counted from 1, with which each row was exchanged.

    Raises:
        RuntimeError: ``pivot`` is false: JAX always exchanges rows.
    """
    _check_pivot("lu_factor", pivot)
    return _lu_factor(A)


def _check_pivot(name: str, pivot: bool) -> None:
    if not pivot:
        raise RuntimeError(f"{name}(): pivot=False is not available; rows are always exchanged")


@function
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """`lu_factor` and, for each matrix, 0 or the first zero on the diagonal of U."""
    factors, pivots = lu_factor(A, pivot=pivot)
    info = _first_zero(factors)
    found = concrete_values(info)
    if check_errors and found is not None and found.any():
        raise LinAlgError(f"lu_factor_ex(): diagonal element {found.max()} of U is zero")
    return return_types.linalg_lu_factor_ex(factors, pivots, info)


@op(differentiable=False)
def _first_zero(input: Array) -> Array:
    zero = jnp.diagonal(input, axis1=-2, axis2=-1) == 0
    return jnp.where(zero.any(-1), jnp.argmax(zero, -1) + 1, 0).astype(jnp.int32)


@op(name="linalg_lu")
def _lu(A: Array) -> Array:
    check_matrix("lu", A)
    factors, _, permutation = lax.linalg.lu(A)
    rows, columns = A.shape[-2:]
    count = min(rows, columns)
    lower = jnp.tril(factors[..., :count], -1) + jnp.eye(rows, count, dtype=A.dtype)
    return lower, jnp.triu(factors[..., :count, :]), permutation


@op(differentiable=False)
def _permutation_matrix(input: Array, permutation: Array) -> Array:
    return jax.nn.one_hot(permutation, permutation.shape[-1], dtype=input.dtype, axis=-2)


@function
def lu(A: Tensor, *, pivot: bool = True) -> Any:
    """``A == P @ L @ U``, a permutation, a lower triangle with ones on the diagonal, an upper one.

    Raises:
        RuntimeError: ``A`` is not a matrix, or ``pivot`` is false: JAX always exchanges rows.
    """
    if not isinstance(pivot, bool):
        raise TypeError(f"lu(): pivot must be True or False, got {pivot!r:.80}")
    _check_pivot("lu", pivot)
    lower, upper, permutation = _lu(A)
    return return_types.linalg_lu(_permutation_matrix(A, permutation), lower, upper)


# Eigenvectors and singular values


def _one_triangle(A: Any, UPLO: str) -> Any:
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"eigh(): UPLO must be 'L' or 'U', got {UPLO!r}")
    return from_triangle(A, UPLO.upper() == "L")


@op(name="linalg_eigh", returns=return_types.linalg_eigh)
def eigh(A: Array, UPLO: str = "L") -> Array:
    """The eigenvalues, ascending, and eigenvectors of Hermitian matrices.

    Args:
        A: ``(..., n, n)``.
        UPLO: The triangle that is read.

    Raises:
        RuntimeError: ``A`` is not a square matrix, or ``UPLO`` is unknown.
    """
    check_matrix("eigh", A, square=True)
    vectors, values = lax.linalg.eigh(_one_triangle(A, UPLO), symmetrize_input=False)
    return values, vectors


@op(name="linalg_eigvalsh", node="LinalgEighBackward0")
def eigvalsh(A: Array, UPLO: str = "L") -> Array:
    """The eigenvalues, ascending, of Hermitian matrices; see `eigh`."""
    check_matrix("eigvalsh", A, square=True)
    return jnp.linalg.eigh(_one_triangle(A, UPLO), symmetrize_input=False)[0]


@needs_finite
@op(name="linalg_eig", returns=return_types.linalg_eig)
def eig(A: Array) -> Array:
    """The complex eigenvalues and eigenvectors of square matrices; on the CPU and NVIDIA GPUs.

    An eigenvector has norm 1, and its greatest element is real. The gradient assumes distinct
    eigenvalues.

    Raises:
        LinAlgError: There is a NaN or an infinity.
        RuntimeError: ``A`` is not a square matrix.
    """
    check_matrix("eig", A, square=True)
    scaled, scale = _scaled(A)
    values, vectors = _eigenvectors(scaled)
    return values * scale, vectors


def _scaled(A: Any) -> tuple[Any, Any]:
    """``A`` divided by a power of two so that its elements are near 1, and the power ``(..., 1)``.

    LAPACK's own scaling of great and small matrices is not undone for all eigenvalues.
    """
    sizes = jnp.max(jnp.abs(A), (-2, -1), keepdims=True, initial=0)
    scale = lax.stop_gradient(jnp.exp2(jnp.frexp(sizes)[1].astype(sizes.dtype) - 1))
    return A / scale.astype(A.dtype), scale[..., 0]


@jax.custom_jvp
def _eigenvectors(A: Any) -> tuple[Any, Any]:
    values, vectors = jnp.linalg.eig(A)
    return values, vectors


@_eigenvectors.defjvp
def _eigenvectors_jvp(primals: Any, tangents: Any) -> Any:
    """C. Boeddeker et al., https://arxiv.org/abs/1701.00392, section 4.7."""
    values, vectors = _eigenvectors(*primals)
    (tangent,) = tangents
    if not values.size:
        return (values, vectors), (values, vectors)
    rotated = _rotated(vectors, tangent)
    own = jnp.eye(values.shape[-1], dtype=values.dtype)
    differences = values[..., None, :] - values[..., None] + own
    moved = vectors @ (rotated * (1 - own) / differences)
    # Each vector may have any scale: this one keeps its norm and its greatest element's phase.
    growth = jnp.sum(jnp.conj(vectors) * moved, -2, keepdims=True).real
    greatest = jnp.argmax(jnp.abs(vectors), -2, keepdims=True)
    turned = _taken(moved, greatest) / _taken(vectors, greatest)
    moved = moved - vectors * lax.complex(growth, turned.imag)
    return (values, vectors), (jnp.diagonal(rotated, axis1=-2, axis2=-1), moved)


def _rotated(vectors: Any, tangent: Any) -> Any:
    return jnp.linalg.solve(vectors, tangent.astype(vectors.dtype) @ vectors)


def _taken(array: Any, places: Any) -> Any:
    return jnp.take_along_axis(array, places, -2)


@needs_finite
@op(name="linalg_eigvals", node="LinalgEigBackward0")
def eigvals(A: Array) -> Array:
    """The complex eigenvalues of square matrices; on the CPU and NVIDIA GPUs."""
    check_matrix("eigvals", A, square=True)
    return _eigenvalues(A)


# JAX has no gradient of the gradient.
@jax.custom_jvp
def _eigenvalues(A: Any) -> Any:
    scaled, scale = _scaled(A)
    return jnp.linalg.eigvals(scaled) * scale


@_eigenvalues.defjvp
def _eigenvalues_jvp(primals: Any, tangents: Any) -> Any:
    scaled, scale = _scaled(*primals)
    values, vectors = _eigenvectors(scaled)
    return values * scale, jnp.diagonal(_rotated(vectors, *tangents), axis1=-2, axis2=-1)


@needs_finite
@op(name="linalg_svd", returns=return_types.linalg_svd)
def linalg_svd(A: Array, full_matrices: bool = True, *, driver: str | None = None) -> Array:
    """``A == U @ diag(S) @ Vh`` with orthonormal columns in U and rows in Vh, and S descending.

    Args:
        A: ``(..., m, n)``.
        full_matrices: Return square U and Vh; otherwise ``min(m, n)`` columns and rows. Only
            these have a gradient: the other ones are some basis of what is left.
        driver: Accepted; JAX chooses the algorithm.

    Raises:
        LinAlgError: There is a NaN or an infinity.
        RuntimeError: ``A`` is not a matrix.
    """
    check_matrix("svd", A)
    u, s, vh = square_svd(A) if full_matrices else jnp.linalg.svd(A, full_matrices=False)
    return u, s, vh


@needs_finite
@op(name="linalg_svdvals", node="LinalgSvdBackward0")
def svdvals(A: Array, *, driver: str | None = None) -> Array:
    """The singular values, descending; see `linalg.svd`."""
    check_matrix("svdvals", A)
    return jnp.linalg.svd(A, compute_uv=False)


@function(method=True)
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """`linalg.svd` under its older name, which returns V instead of its conjugate transpose.

    Args:
        input: ``(..., m, n)``.
        some: Return ``min(m, n)`` columns of U and V.
        compute_uv: Return zeros for U and V if false.
    """
    u, s, vh = linalg_svd(input, not some)
    if not compute_uv:
        rows, columns = input.shape[-2:]
        lead = tuple(input.shape[:-2])
        return return_types.svd(
            input.new_zeros((*lead, rows, rows)), s, input.new_zeros((*lead, columns, columns))
        )
    return return_types.svd(u, s, vh.mH)
