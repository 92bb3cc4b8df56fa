"""The LDL factorization of symmetric and Hermitian matrices, by LAPACK on the CPU.

JAX has no such factorization, so the elements are copied to the host and back, also from other
devices and from compiled programs.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flambeau import return_types
from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import function, op
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.values import concrete_values
from flambeau.ops.matrices.factorization import LinAlgError, check_matrix

__all__ = ["ldl_factor", "ldl_factor_ex", "ldl_solve"]


def _lapack(name: str, dtype: Any, hermitian: bool) -> Any:
    """LAPACK's function for symmetric or for Hermitian matrices of a dtype."""
    from scipy.linalg import lapack

    prefix = {"f": "s", "d": "d", "F": "c", "D": "z"}[np.dtype(dtype).char]
    kind = "he" if hermitian and prefix in "cz" else "sy"
    return getattr(lapack, f"{prefix}{kind}{name}")


@op(name="linalg_ldl_factor_ex", differentiable=False)
def _factors(input: Array, hermitian: bool) -> Array:
    check_matrix("ldl_factor", input, square=True)

    def on_host(matrices: Any) -> Any:
        matrices = np.asarray(matrices)
        factorize = _lapack("trf", matrices.dtype, hermitian)
        factors = np.tril(matrices)
        pivots = np.zeros(matrices.shape[:-1], np.int32)
        infos = np.zeros(matrices.shape[:-2], np.int32)
        for place in np.ndindex(infos.shape):
            found, pivot, infos[place] = factorize(matrices[place], lower=1)
            factors[place], pivots[place] = np.tril(found), pivot
        return factors, pivots, infos

    results = (
        jax.ShapeDtypeStruct(input.shape, input.dtype),
        jax.ShapeDtypeStruct(input.shape[:-1], jnp.int32),
        jax.ShapeDtypeStruct(input.shape[:-2], jnp.int32),
    )
    return jax.pure_callback(on_host, results, input, vmap_method="expand_dims")


@function
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """`ldl_factor` and, for each matrix, 0 or the number of the first zero block of D."""
    factors, pivots, infos = _factors(A, hermitian)
    found = concrete_values(infos)
    if check_errors and found is not None and found.any():
        raise LinAlgError(f"ldl_factor_ex(): block {found.max()} of D is zero")
    return return_types.linalg_ldl_factor_ex(factors, pivots, infos)


@function
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> Any:
    """The factorization ``A == P L D L.mT P.mT`` of a symmetric matrix, in LAPACK's compact form.

    Args:
        A: ``(..., n, n)``; the lower triangle is read.
        hermitian: The matrix is Hermitian; else complex matrices are symmetric.

    Returns:
        ``LD`` of ``(..., n, n)`` and the int32 ``pivots`` of ``(..., n)``, for `ldl_solve`. They
        have no gradient.

    Raises:
        LinAlgError: D has a block of zeros.
        RuntimeError: ``A`` is not a square matrix.
    """
    factors, pivots, _ = ldl_factor_ex(A, hermitian=hermitian, check_errors=True)
    return return_types.linalg_ldl_factor(factors, pivots)


@op(name="linalg_ldl_solve", differentiable=False)
def ldl_solve(LD: Array, pivots: Array, B: Array, *, hermitian: bool = False) -> Array:
    """The solution of equations for a matrix given by its `ldl_factor`, without a gradient.

    Args:
        LD: ``(..., n, n)``.
        pivots: ``(..., n)``.
        B: ``(..., n, k)``, the right-hand sides.
        hermitian: As in `ldl_factor`.

    Raises:
        RuntimeError: Shapes do not match.
    """
    check_matrix("ldl_solve", LD, square=True)
    if B.ndim < 2 or B.shape[-2] != LD.shape[-1]:
        raise RuntimeError(
            f"ldl_solve(): right-hand sides of shape {list(B.shape)} for a matrix of shape "
            f"{list(LD.shape)}"
        )
    batch: Any = jnp.broadcast_shapes(LD.shape[:-2], B.shape[:-2])

    def on_host(factors: Any, pivots: Any, right: Any) -> Any:
        factors, pivots, right = map(np.asarray, (factors, pivots, right))
        solve = _lapack("trs", factors.dtype, hermitian)
        found = np.empty((*batch, *right.shape[-2:]), right.dtype)
        factors = np.broadcast_to(factors, (*batch, *factors.shape[-2:]))
        pivots = np.broadcast_to(pivots, (*batch, pivots.shape[-1]))
        right = np.broadcast_to(right, (*batch, *right.shape[-2:]))
        for place in np.ndindex(batch):
            found[place] = solve(factors[place], pivots[place], right[place], lower=1)[0]
        return found

    result = jax.ShapeDtypeStruct((*batch, *B.shape[-2:]), B.dtype)
    return jax.pure_callback(on_host, result, LD, pivots, B, vmap_method="sequential")
