"""Functions of matrices: determinants, powers, norms, rank, products of several."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from flambeau import return_types
from flambeau.core.kernels.kinds import Array, Arrays
from flambeau.core.operators.misfits import require_tensors
from flambeau.core.operators.op import function, op
from flambeau.core.support import dtype as dtypes
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import wrap_dim, wrap_dims
from flambeau.ops.common.derivatives import magnitude
from flambeau.ops.matrices.exponential import matrix_exponential
from flambeau.ops.matrices.factorization import check_matrix, from_triangle, needs_finite, svdvals
from flambeau.ops.matrices.linalg import one_dtype
from flambeau.ops.matrices.norms import vector_norm
from flambeau.ops.matrices.solving import cutoff_of, inverse
from flambeau.ops.reductions.reduction import averaged

__all__ = [
    "chain_matmul", "det", "einsum", "logdet", "matrix_exp", "matrix_power", "slogdet", "vander",
]  # fmt: skip


@op(method=True, node="LinalgDetBackward0")
def det(input: Array) -> Array:
    """The determinants of square matrices, ``(...)`` for ``(..., n, n)``."""
    check_matrix("det", input, square=True, takes_half=True)
    return _determinant(input)


@jax.custom_jvp
def _determinant(input: Any) -> Any:
    return jnp.linalg.det(input)


@_determinant.defjvp
def _determinant_jvp(primals: Any, tangents: Any) -> Any:
    """Jacobi's formula, ``det(A) * trace(A^-1 dA)``.

    A pivot of zero is replaced by a tiny one, which cancels in the product up to rounding; JAX's
    own derivative is zero, or depends on its version, unless the last pivot is zero.
    """
    (input,), (tangent,) = primals, tangents
    lu, pivots, order = lax.linalg.lu(input)
    diagonal = jnp.diagonal(lu, axis1=-2, axis2=-1)
    greatest = jnp.max(jnp.abs(diagonal), -1, keepdims=True, initial=0)
    tiny = jnp.finfo(lu.dtype).eps * jnp.where(greatest == 0, 1, greatest)
    missing = jnp.where(diagonal == 0, tiny, jnp.zeros_like(tiny)).astype(lu.dtype)
    lu = lu + missing[..., None] * jnp.eye(lu.shape[-1], dtype=lu.dtype)
    exchanges = jnp.sum(pivots != jnp.arange(lu.shape[-1]), -1)
    whole = jnp.prod(diagonal + missing, -1) * jnp.where(exchanges % 2, -1, 1).astype(lu.dtype)
    moved = jnp.take_along_axis(tangent, order[..., None], -2)
    solve = lax.linalg.triangular_solve
    moved = solve(lu, moved, left_side=True, lower=True, unit_diagonal=True)
    moved = solve(lu, moved, left_side=True, lower=False)
    return _determinant(input), whole * jnp.trace(moved, axis1=-2, axis2=-1)


@op(method=True, node="LinalgSlogdetBackward0", returns=return_types.linalg_slogdet)
def slogdet(input: Array) -> Array:
    """The sign of the determinant, and the logarithm of its magnitude."""
    check_matrix("slogdet", input, square=True)
    sign, logarithm = jnp.linalg.slogdet(input)
    return sign, logarithm


@op(method=True)
def logdet(input: Array) -> Array:
    """The logarithm of the determinant: minus infinity for 0, NaN for negative ones."""
    check_matrix("logdet", input, square=True)
    sign, logarithm = jnp.linalg.slogdet(input)
    if jnp.iscomplexobj(sign):
        return logarithm + jnp.log(sign)
    return jnp.where(sign < 0, jnp.nan, logarithm).astype(input.dtype)


@op(method=True, node="LinalgMatrixExpBackward0", widen=True)
def matrix_exp(input: Array) -> Array:
    """The exponentials of square matrices, ``(..., n, n)``."""
    check_matrix("matrix_exp", input, square=True, takes_half=True)
    return matrix_exponential(input) if input.size else input


@op(name="matrix_power", node="MmBackward0")
def _matrix_power(input: Array, n: int) -> Array:
    check_matrix("matrix_power", input, square=True, takes_half=True)
    return jnp.linalg.matrix_power(input, n)


@function(method=True)
def matrix_power(input: Tensor, n: int) -> Tensor:
    """The ``n``-th power of square matrices; of their inverses if ``n`` is negative.

    Raises:
        LinAlgError: ``n`` is negative and a matrix is singular.
    """
    return _matrix_power(inverse(input), -n) if n < 0 else _matrix_power(input, n)


# Products


@op(name="einsum", node="ViewBackward0")
def _einsum(operands: Arrays, equation: str) -> Array:
    one_dtype("einsum", *operands)
    return jnp.einsum(equation, *operands)


@function
def einsum(*args: Any) -> Tensor:
    """The sum of products that an equation describes, as ``einsum("ij,jk->ik", a, b)``.

    Each operand has a letter for each dimension; letters missing in the result are summed over.
    Without ``->`` the result has the letters that occur once, in alphabetical order. ``...`` means
    any dimensions, which broadcast. Operands may be passed as one list, and letters as lists of
    integers after each operand: ``einsum(a, [0, 1], b, [1, 2], [0, 2])``. Without sums and products
    (``"ii->i"``, ``"ij->ji"``) the result is a view.

    Raises:
        RuntimeError: The equation does not fit the operands, or their dtypes differ.

    >>> import flambeau
    >>> flambeau.einsum("i,i->", flambeau.ones(3), flambeau.ones(3))
    tensor(3.)
    """
    if not args:
        raise ValueError("einsum() takes an equation and its operands")
    if isinstance(args[0], str):
        equation, operands = args[0], args[1:]
    elif not isinstance(args[0], Tensor):
        raise TypeError(
            f"einsum() takes an equation, or a tensor, first, got {type(args[0]).__name__}"
        )
    elif len(args) == 1 or isinstance(args[1], Tensor):
        raise ValueError(
            "einsum() needs an equation before the operands, or a list of integers after each"
        )
    else:
        equation, operands = _from_lists(args)
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = operands[0]
    unknown = re.sub(r"[a-zA-Z]|->|[., ]", "", equation)
    if unknown:
        raise RuntimeError(
            f"einsum(): {unknown[0]!r} is not a letter, in the equation {equation!r}"
        )
    if not operands:
        raise RuntimeError(f"einsum(): no operands for the equation {equation!r}")
    for operand in operands:
        require_tensors("einsum", operand=operand)
    if len(operands) == 1:
        view = _rearranged(operands[0], equation)
        if view is not None:
            return view
    return _einsum(list(operands), equation)


def _rearranged(operand: Any, equation: str) -> Tensor | None:
    """The view that an equation without sums describes, or ``None`` for any other equation."""
    before, arrow, after = equation.replace(" ", "").partition("->")
    letters = list(before)
    if not arrow:
        after = "".join(sorted(before))
    is_plain = before.isalpha() and len(set(after)) == len(after)
    if not is_plain or set(after) != set(before) or len(before) != operand.ndim:
        return None
    for letter in after:
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            if operand.shape[first] != operand.shape[second]:
                return None
            operand = operand.diagonal(0, first, second)
            del letters[second], letters[first]
            letters.append(letter)
    return operand.permute([letters.index(each) for each in after])


def _from_lists(args: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """The equation of operands that are each followed by numbered dimensions."""

    def letters(numbers: Sequence[Any]) -> str:
        return "".join("..." if each is Ellipsis else _letter(each) for each in numbers)

    pairs = len(args) // 2
    operands = [args[2 * i] for i in range(pairs)]
    equation = ",".join(letters(args[2 * i + 1]) for i in range(pairs))
    return (f"{equation}->{letters(args[-1])}" if len(args) % 2 else equation), operands


def _letter(number: int) -> str:
    if not 0 <= number < 52:
        raise ValueError(f"einsum(): dimensions are numbered from 0 to 51, got {number}")
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[number]


@op(name="linalg_multi_dot")
def _multi_dot(tensors: Arrays) -> Array:
    one_dtype("multi_dot", *tensors)
    return jnp.linalg.multi_dot(tensors)


@function
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices, in the order that takes the fewest operations.

    Args:
        tensors: At least two; the first and the last may be vectors.

    Raises:
        RuntimeError: There are fewer than two, or the sizes do not match.
    """
    if isinstance(tensors, Tensor):
        raise TypeError("multi_dot(): tensors must be a list or tuple of Tensors, got one Tensor")
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot() takes at least 2 tensors, got {len(tensors)}")
    return _multi_dot(list(tensors))


@function
def chain_matmul(*matrices: Tensor) -> Tensor:
    """`linalg.multi_dot` under its older name."""
    return matrices[0].clone() if len(matrices) == 1 else multi_dot(matrices)


@op(name="linalg_vecdot")
def vecdot(x: Array, y: Array, *, dim: int = -1) -> Array:
    """The dot products of vectors along ``dim``, the first conjugated.

    Tensors without dimensions count as vectors of length 1.
    """
    one_dtype("vecdot", x, y)
    left, right = jnp.broadcast_arrays(x, y)
    axis = wrap_dim(dim, left.ndim, "vecdot")
    return jnp.sum(jnp.conj(left) * right, axis if left.ndim else ())


@op(name="vander")
def _vander(x: Array, N: int | None, increasing: bool) -> Array:
    count = x.shape[-1] if N is None else N
    powers = jnp.arange(count) if increasing else jnp.arange(count - 1, -1, -1)
    small = jnp.issubdtype(x.dtype, jnp.integer) or x.dtype == jnp.bool_
    base = x.astype(jnp.int64) if small else x
    return jnp.power(base[..., None], powers).astype(base.dtype)


@function
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of each element of ``x`` ``(n,)`` as a row, ``(n, N)``, the highest first.

    Raises:
        RuntimeError: ``x`` is not a vector, or ``N`` is negative.
    """
    if x.ndim != 1:
        raise RuntimeError(f"vander(): x must be a vector, got shape {list(x.shape)}")
    if N is not None and N < 0:
        raise RuntimeError(f"vander(): N must not be negative, got {N}")
    return _vander(x, N, increasing)


@function
def linalg_vander(x: Tensor, N: int | None = None) -> Tensor:
    """The powers from 0 to ``N - 1`` of each element of ``x`` ``(..., n)``, ``(..., n, N)``.

    Raises:
        RuntimeError: ``N`` is below 2.
    """
    if N is not None and N < 2:
        raise RuntimeError(f"linalg.vander(): N must be 2 or more, got {N}")
    return _vander(x, N, True)


@function
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonals of matrices."""
    return A.diagonal(offset, dim1, dim2)


# Norms, rank, condition


@op(name="linalg_matrix_norm")
def _matrix_norm(
    A: Array, order: float, dims: tuple[int, int], keepdim: bool, dtype: dtypes.dtype | None
) -> Array:
    """The greatest or least absolute sum of a column (1) or row (infinity)."""
    rows, columns = wrap_dims(dims, A.ndim, "matrix_norm")
    summed, kept = (rows, columns) if math.fabs(order) == 1 else (columns, rows)
    size = magnitude(averaged("matrix_norm", A, dtype))
    totals = jnp.sum(size, summed, keepdims=True)
    extreme = jnp.max if order > 0 else jnp.min
    found = extreme(totals, kept, keepdims=True)
    return found if keepdim else jnp.squeeze(found, (rows, columns))


@op(name="linalg_matrix_norm")
def _spectral_norm(
    A: Array, order: str, dims: tuple[int, int], keepdim: bool, dtype: dtypes.dtype | None
) -> Array:
    """The greatest, the least or the sum of the singular values."""
    places = wrap_dims(dims, A.ndim, "matrix_norm")
    moved = jnp.moveaxis(averaged("matrix_norm", A, dtype), places, (-2, -1))
    values = jnp.linalg.svd(moved, compute_uv=False)
    if order == "2" and not values.shape[-1]:
        values = jnp.zeros((*values.shape[:-1], 1), values.dtype)
    found = {"2": jnp.max, "-2": jnp.min, "nuc": jnp.sum}[order](values, -1)
    return jnp.expand_dims(found, places) if keepdim else found


@function
def matrix_norm(
    A: Tensor,
    ord: float | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
) -> Tensor:
    """The norm of matrices.

    Args:
        A: At least 2-d.
        ord: ``"fro"`` the root of the sum of squares, ``"nuc"`` the sum of the singular values, 2
            and -2 the greatest and least of them, 1 and -1 the greatest and least absolute sum of a
            column, infinity and minus infinity of a row.
        dim: The two dimensions of the matrices.
        keepdim: Keep them, with size 1.
        dtype: Convert to this dtype first.

    Raises:
        RuntimeError: ``A`` holds no matrices, or ``ord`` is unknown.
    """
    if A.dim() < 2 or len(dim) != 2:
        raise RuntimeError(
            f"matrix_norm() takes a tensor of at least 2 dimensions and two of them, got shape "
            f"{list(A.shape)} and dim={dim}"
        )
    dims = (dim[0], dim[1])
    if ord == "fro":
        return vector_norm(A, 2.0, dims, keepdim, dtype)
    if ord in ("nuc", 2, -2):
        name = "nuc" if ord == "nuc" else str(int(ord))
        return _spectral_norm(A, name, dims, keepdim, dtype)
    if isinstance(ord, str) or abs(ord) not in (1, math.inf):
        raise RuntimeError(
            f"matrix_norm(): ord must be 'fro', 'nuc', 1, 2 or inf, or a negative one, got {ord!r}"
        )
    return _matrix_norm(A, float(ord), dims, keepdim, dtype)


@function
def linalg_vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
) -> Tensor:
    """The ``ord``-norm of a tensor seen as one vector, or of each vector along some dimensions."""
    return vector_norm(x, float(ord), dim, keepdim, dtype)


@function
def linalg_norm(
    A: Tensor,
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
) -> Tensor:
    """A vector or a matrix norm, by the number of dimensions in ``dim`` or of ``A``.

    Args:
        A: Floating point or complex.
        ord: See `linalg.vector_norm` and `linalg.matrix_norm`; by default the 2-norm of all.
        dim: One dimension for vectors, two for matrices.
        keepdim: Keep the reduced dimensions, with size 1.
        dtype: Convert to this dtype first.

    Raises:
        RuntimeError: ``A`` holds neither.
    """
    if ord is None:
        return vector_norm(A, 2.0, dim, keepdim, dtype)
    dims = tuple(range(A.dim())) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) == 2 and A.dim() >= 2:
        return matrix_norm(A, ord, dims, keepdim, dtype=dtype)
    if len(dims) != 1 or isinstance(ord, str):
        raise RuntimeError(
            f"norm(): ord={ord!r} is for matrices, or for vectors if a number; got shape "
            f"{list(A.shape)} and dim={dim}"
        )
    return vector_norm(A, float(ord), dims, keepdim, dtype)


@needs_finite
@op(name="linalg_matrix_rank", differentiable=False)
def matrix_rank(
    A: Array,
    tol: Array | None = None,
    hermitian: bool = False,
    *,
    atol: Array | None = None,
    rtol: Array | None = None,
) -> Array:
    """The number of singular values above ``atol`` and ``rtol`` times the greatest of them.

    Args:
        A: ``(..., m, n)``.
        tol: ``atol`` under its older name.
        hermitian: ``A`` is Hermitian, and only its lower triangle is read.
        atol: See above.
        rtol: By default ``max(m, n)`` times the machine epsilon, or 0 where ``atol`` is given.
    """
    check_matrix("matrix_rank", A, square=hermitian)
    values = jnp.linalg.svd(from_triangle(A, True) if hermitian else A, compute_uv=False)
    limit = cutoff_of(values, A.shape, tol if atol is None else atol, rtol)
    return jnp.sum(values > limit, -1)


@function
def cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition numbers of matrices in a norm: ``norm(A, p) * norm(inv(A), p)``.

    Args:
        A: ``(..., m, n)``; square unless ``p`` is 2 or -2.
        p: See `linalg.matrix_norm`; by default 2.
    """
    if not isinstance(p, int | float | str | None):
        raise TypeError(f"cond(): p must be a number or a str, got {type(p).__name__}")
    if p is None or (isinstance(p, int | float) and p in (2, -2)):
        values = svdvals(A)
        first, last = values[..., 0], values[..., -1]
        return last / first if p == -2 else first / last
    return matrix_norm(A, p) * matrix_norm(inverse(A), p)
