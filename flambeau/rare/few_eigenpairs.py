"""The extreme eigenvalues of a symmetric matrix: `lobpcg`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.sparse.linalg import lobpcg_standard

from flambeau.core.support.dtype import FLOATING
from flambeau.core.values.tensor import Tensor
from flambeau.linalg import cholesky, eigh, solve_triangular
from flambeau.ops.draws.sampling import randn

__all__ = ["lobpcg"]

_METHODS = ("basic", "ortho")


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """The largest or smallest eigenvalues of a symmetric matrix, with eigenvectors.

    A dense matrix is decomposed completely, to full precision, and the result is differentiable.
    The largest eigenvalues of a sparse matrix are found by LOBPCG with products only, by
    `jax.experimental.sparse.linalg.lobpcg_standard`; for other problems the matrix becomes dense.

    Args:
        A: ``(*, m, m)``, symmetric, dense or sparse.
        k: The number of eigenvalues; by default the number of columns of ``X``, else 1.
        B: ``(*, m, m)``, symmetric and positive definite: the problem is then A x = λ B x.
        X: ``(*, m, n)``, initial vectors for LOBPCG.
        n: The number of initial vectors; ``k`` by default.
        iK: A preconditioner, which has no effect.
        niter: The maximum number of LOBPCG steps; 1000 by default, and -1 for no limit.
        tol: The tolerance of LOBPCG for the relative residual; by default the precision of the
            dtype.
        largest: The largest eigenvalues, in decreasing order; else the smallest ones, in increasing
            order.
        method: ``"ortho"`` or ``"basic"``, without effect.
        tracker: Not supported.
        ortho_iparams: Settings of PyTorch's method, without effect, like the next two.
        ortho_fparams: See ``ortho_iparams``.
        ortho_bparams: See ``ortho_iparams``.

    Returns:
        Eigenvalues ``(*, k)`` and eigenvectors ``(*, m, k)``, whose signs are not determined.

    Raises:
        ValueError: ``A`` is not a square matrix of floating-point numbers, has fewer rows than
            three times the number of pairs, or ``method`` is unknown.
        NotImplementedError: There is a ``tracker``.

    >>> import flambeau
    >>> flambeau.lobpcg(flambeau.diag(flambeau.arange(1.0, 7.0)), k=2)[0]
    tensor([6., 5.])
    """
    if tracker is not None:
        raise NotImplementedError("lobpcg() calls no tracker: its steps are one program")
    if method not in (None, *_METHODS):
        raise ValueError(f"lobpcg(): method must be one of {_METHODS}, got {method!r}")
    if A.ndim < 2 or A.shape[-1] != A.shape[-2] or A.dtype.category != FLOATING:
        raise ValueError(
            "lobpcg() takes square matrices of floating-point numbers, got shape "
            f"{list(A.shape)} of {A.dtype}"
        )
    size, start = A.shape[-1], None if X is None else X.shape[-1]
    k = (start or 1) if k is None else k
    columns = start or (k if n is None else n)
    if not 0 < k <= columns or size < 3 * columns:
        raise ValueError(
            "LOBPCG algorithm is not applicable when the number of A rows "
            f"(={size}) is smaller than 3 x the number of requested eigenpairs (={columns})"
        )
    largest = largest is not False
    if A.is_sparse or A.is_sparse_csr:
        if largest and B is None and 5 * columns < size:
            return _by_products(A, k, columns, X, niter, tol)
        A = A.to_dense()
    if B is not None and (B.is_sparse or B.is_sparse_csr):
        B = B.to_dense()
    values, vectors = _whole(A, B)
    if largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    return values[..., :k], vectors[..., :k]


def _whole(matrix: Tensor, other: Tensor | None) -> Any:
    matrix = (matrix + matrix.mT) / 2
    if other is None:
        return eigh(matrix)
    # With B = L Lᵀ the eigenvalues are those of L⁻¹ A L⁻ᵀ.
    factor = cholesky((other + other.mT) / 2)
    half = solve_triangular(factor, matrix, upper=False)
    reduced = solve_triangular(factor, half.mT, upper=False)
    values, vectors = eigh((reduced + reduced.mT) / 2)
    return values, solve_triangular(factor.mT, vectors, upper=True)


def _by_products(
    matrix: Tensor, k: int, columns: int, start: Tensor | None, niter: int | None, tol: Any
) -> tuple[Tensor, Tensor]:
    size = matrix.shape[-1]
    begun = randn(size, columns, dtype=matrix.dtype) if start is None else start

    def product(array: Any) -> Any:
        return (matrix.detach() @ Tensor._wrap(array))._read()

    most = 1000 if niter is None else niter
    steps = jnp.iinfo(jnp.int32).max if most == -1 else most
    values, vectors, _ = lobpcg_standard(product, begun._read(), m=steps, tol=tol)
    return Tensor._wrap(jax.lax.slice_in_dim(values, 0, k)), Tensor._wrap(vectors[:, :k])
