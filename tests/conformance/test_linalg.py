"""Products, factorizations and functions of matrices against PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.conformance.operators import Row, compare, table

RANDOM = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def doubles(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape)


def call(name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    return lambda lib, *tensors: getattr(lib, name)(*tensors, *args, **kwargs)


def linalg(name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    def compute(lib: Any, *tensors: Any) -> Any:
        found = getattr(lib.linalg, name)(*tensors, *args, **kwargs)
        return tuple(found) if isinstance(found, tuple) else found

    return compute


def product_rows() -> Iterator[Row]:
    a, b, v = random(3, 5), random(5, 4), random(5)
    left, right = random(2, 3, 5), random(2, 5, 4)
    z = (a + 1j * a[::-1]).astype(np.complex64)
    yield Row("mm", call("mm"), (a, b))
    yield Row("mm of other sizes", call("mm"), (a, a))
    yield Row("mm of batches", call("mm"), (left, right))
    yield Row("mm of other dtypes", call("mm"), (a, b.astype(float)))
    yield Row("mm of complex numbers", call("mm"), (z, z.T.copy()))
    yield Row("mm of integers", call("mm"), (np.ones((2, 3), int), np.ones((3, 2), int)))
    yield Row("bmm", call("bmm"), (left, right))
    yield Row("bmm of other batches", call("bmm"), (left, right[:1]))
    yield Row("mv", call("mv"), (a, v))
    yield Row("mv of matrices", call("mv"), (a, b))
    yield Row("dot", call("dot"), (v, v + 1))
    yield Row("dot of other sizes", call("dot"), (v, v[:3]))
    yield Row("vdot", call("vdot"), (z[0], z[1]))
    yield Row("matmul of matrices", call("matmul"), (a, b))
    yield Row("matmul of vectors", call("matmul"), (v, v), node=False)
    yield Row("matmul broadcast", call("matmul"), (random(2, 1, 3, 5), right), node=False)
    yield Row("matmul of a vector and a batch", call("matmul"), (v, right), node=False)
    yield Row("matmul of a batch and a vector", lambda lib, x, y: x @ y, (left, v), node=False)
    yield Row("matmul of 0-d", call("matmul"), (v, v[0]))
    yield Row("matmul of other sizes", call("matmul"), (a, v[:3]))
    yield Row("matmul with a number", lambda lib, x: x @ 2, (a,))
    yield Row("outer", call("outer"), (v, a[:, 0]))
    yield Row("inner", call("inner"), (a, random(2, 5)), node=False)
    for other in (np.float32(2), np.int64(2), np.float64(2), np.complex128(2j)):
        row = call("inner")
        yield Row(f"inner with a 0-d {other.dtype}", row, (a, np.array(other)), node=False)
    yield Row("inner of other dtypes", call("inner"), (a, np.ones(5)))
    yield Row("kron", call("kron"), (a, random(2, 2)), node=False)
    yield Row("kron of truth values", call("kron"), (a > 0, random(2, 2) > 0))
    yield Row("tensordot", call("tensordot"), (random(3, 5, 4), random(5, 4, 2)), 1e-5, node=False)
    dims = call("tensordot", dims=([1, 0], [0, 1]))
    yield Row("tensordot of named", dims, (random(3, 5, 4), random(5, 3, 2)), 1e-5, node=False)
    yield Row("cross", call("cross"), (random(2, 3, 5), random(2, 3, 5)))
    yield Row("linalg.cross", linalg("cross", dim=1), (random(2, 3, 5), random(2, 3, 5)))
    yield Row("cross of size 4", linalg("cross"), (random(2, 4), random(2, 4)))
    yield Row("trace", call("trace"), (a,))
    yield Row("chain_matmul", call("chain_matmul"), (a, b, random(4, 2)), 1e-5, node=False)
    yield Row("vecdot", linalg("vecdot", dim=0), (a, random(3, 5)), node=False)
    yield Row("vecdot of numbers", linalg("vecdot"), (random(), random()), node=False)


def sum_rows() -> Iterator[Row]:
    a, b, v = random(3, 5), random(5, 4), random(5)
    left, right = random(2, 3, 5), random(2, 5, 4)
    nan = np.full(4, np.nan, np.float32)
    for options in ({}, {"beta": 0.5, "alpha": 2}, {"beta": 0}):
        yield Row(f"addmm {options}", call("addmm", **options), (random(4), a, b))
        yield Row(f"addmv {options}", call("addmv", **options), (random(3), a, v))
        yield Row(f"addr {options}", call("addr", **options), (random(3, 5), a[:, 0], v))
        inputs = (random(1, 3, 4), left, right)
        yield Row(f"baddbmm {options}", call("baddbmm", **options), inputs, 1e-5)
        inputs = (random(3, 4), left, right)
        yield Row(f"addbmm {options}", call("addbmm", **options), inputs, 1e-5)
    yield Row("addmm of nan", call("addmm", beta=0), (nan, a, b), gradient=False)
    yield Row("addmm of other sizes", call("addmm"), (random(5), a, b))


def einsum_rows() -> Iterator[Row]:
    a, b = random(3, 5), random(5, 4)

    def einsum(equation: str) -> Callable[..., Any]:
        return lambda lib, *tensors: lib.einsum(equation, *tensors)

    yield Row("product", einsum("ij,jk->ik"), (a, b), 1e-5, node=False)
    yield Row("implicit", einsum("ij, jk"), (a, b), 1e-5, node=False)
    yield Row("trace", einsum("ii"), (random(3, 3),), node=False)
    yield Row("diagonal", einsum("ii->i"), (random(3, 3),), node=False)
    yield Row("three", einsum("ij,jk,k->i"), (a, b, random(4)), 1e-5, node=False)
    yield Row("ellipsis", einsum("...ij,jk->...ik"), (random(2, 3, 5), b), 1e-5, node=False)
    lists = lambda lib, x, y: lib.einsum(x, [0, 1], y, [1, 2], [0, 2])  # noqa: E731
    yield Row("lists", lists, (a, b), 1e-5, node=False)
    several = lambda lib, x, y: lib.einsum("ij,jk->ik", [x, y])  # noqa: E731
    yield Row("of a list", several, (a, b), 1e-5, node=False)
    yield Row("other sizes", einsum("ij,jk->ik"), (a, a))
    yield Row("too few letters", einsum("i,jk->ik"), (a, b))


SQUARE, TALL, WIDE = doubles(2, 3, 3), doubles(2, 4, 3), doubles(2, 3, 4)
POSITIVE = SQUARE @ SQUARE.transpose(0, 2, 1) + np.eye(3)
SYMMETRIC = SQUARE + SQUARE.transpose(0, 2, 1)
SINGULAR = np.ones((3, 3))


def spread(name: str, **options: Any) -> Callable[..., Any]:
    """What does not depend on the signs of the vectors that a factorization chooses."""

    def compute(lib: Any, x: Any) -> Any:
        first, second, *rest = getattr(lib.linalg, name)(x, **options)
        if name == "svd":
            return first.abs(), second, rest[0].abs()
        return (first, second.abs()) if name == "eigh" else (first.abs(), second.abs())

    return compute


def rebuilt_from_eig(lib: Any, x: Any) -> Any:
    values, vectors = lib.linalg.eig(x)
    return ((vectors * values.square()) @ lib.linalg.inv(vectors)).real


def sizes_of_eigenvectors(lib: Any, x: Any) -> Any:
    values, vectors = lib.linalg.eig(x)
    # Of all eigenvalues together, whose order differs.
    return (vectors.abs() * values.abs()).sum(-1)


def factor_rows() -> Iterator[Row]:
    tolerance = 1e-9
    for upper in (False, True):
        row = linalg("cholesky", upper=upper)
        yield Row(f"cholesky {upper}", row, (POSITIVE,), tolerance, node=False)
        row = linalg("cholesky_ex", upper=upper)
        yield Row(f"cholesky_ex {upper}", row, (POSITIVE,), tolerance, node=False)
        solve = call("cholesky_solve", upper)
        yield Row(
            f"cholesky_solve {upper}",
            lambda lib, b, a, s=solve, u=upper: s(lib, b, lib.linalg.cholesky(a, upper=u)),
            (TALL[:, :3], POSITIVE),
            tolerance,
            node=False,
        )
        yield Row(
            f"cholesky_inverse {upper}",
            lambda lib, a, u=upper: lib.cholesky_inverse(lib.linalg.cholesky(a, upper=u), u),
            (POSITIVE[0],),
            tolerance,
            node=False,
        )
    yield Row("cholesky of no square matrix", linalg("cholesky"), (TALL,))
    yield Row("cholesky of integers", linalg("cholesky"), (np.eye(2, dtype=int),))
    for name, x in (("square", SQUARE), ("tall", TALL)):
        yield Row(f"qr {name}", spread("qr"), (x,), tolerance, node=False)
    yield Row("qr wide", spread("qr"), (WIDE,), tolerance, False, False)
    yield Row("qr complete", spread("qr", mode="complete"), (TALL,), tolerance, False, False)
    yield Row("qr of another mode", linalg("qr", "full"), (TALL,))
    yield Row("qr of a vector", linalg("qr"), (TALL[0, 0],))
    row = spread("svd", full_matrices=False)
    yield Row("svd", row, (TALL,), tolerance, node=False)
    yield Row("svd full", spread("svd"), (SQUARE,), tolerance, False, False)
    yield Row("svdvals", linalg("svdvals"), (WIDE,), tolerance, node=False)
    for triangle in ("L", "U"):
        row = spread("eigh", UPLO=triangle)
        yield Row(f"eigh {triangle}", row, (SQUARE,), tolerance, node=False)
        row = linalg("eigvalsh", UPLO=triangle)
        yield Row(f"eigvalsh {triangle}", row, (SQUARE,), tolerance, node=False)
    eigenvalues = lambda lib, x: lib.linalg.eigvals(x).abs().sort(-1)[0]  # noqa: E731
    yield Row("eigvals", eigenvalues, (SQUARE,), tolerance, node=False)
    yield Row("eig", rebuilt_from_eig, (SQUARE,), 1e-7, node=False)
    yield Row("sizes of eigenvectors", sizes_of_eigenvectors, (SQUARE,), 1e-7, node=False)
    row = linalg("householder_product")
    yield Row("householder_product", row, (TALL, SQUARE[0, :2] / 3), tolerance, node=False)
    yield Row("lu", linalg("lu"), (SQUARE,), tolerance, node=False)
    yield Row("lu of tall", linalg("lu"), (TALL,), tolerance, node=False)
    yield Row("lu_factor", linalg("lu_factor"), (SQUARE,), tolerance, node=False)


def solution_rows() -> Iterator[Row]:
    tolerance, right = 1e-9, TALL[:, :3]
    inverse = linalg("inv")
    yield Row("inv", inverse, (SQUARE,), tolerance, node=False)
    yield Row("inv of no square matrix", inverse, (TALL,))
    yield Row("inverse", call("inverse"), (SQUARE,), tolerance, node=False)
    yield Row("inv_ex", linalg("inv_ex"), (SQUARE,), tolerance, node=False)
    for left in (True, False):
        row = linalg("solve", left=left)
        yield Row(f"solve {left}", row, (SQUARE, right), tolerance, node=False)
        for upper in (True, False):
            row = linalg("solve_triangular", upper=upper, left=left)
            name = f"solve_triangular {upper} {left}"
            yield Row(name, row, (SQUARE + 3 * np.eye(3), right), tolerance, node=False)
        for adjoint in (True, False):

            def lu_solve(lib: Any, a: Any, b: Any, left: bool = left, adj: bool = adjoint) -> Any:
                return lib.linalg.lu_solve(*lib.linalg.lu_factor(a), b, left=left, adjoint=adj)

            name = f"lu_solve {left} {adjoint}"
            yield Row(name, lu_solve, (SQUARE, right), tolerance, node=False)
            yield Row(f"{name} of one", lu_solve, (SQUARE[0], right[0]), tolerance, node=False)
    solve = linalg("solve")
    yield Row("solve for a vector", solve, (SQUARE[0], right[0, 0]), tolerance, node=False)
    yield Row("solve for vectors", solve, (SQUARE, right[:, 0]), tolerance, node=False)
    yield Row("solve of other sizes", solve, (SQUARE, TALL))
    for name, x in (("tall", TALL), ("wide", WIDE), ("singular", SINGULAR)):
        yield Row(f"pinv {name}", linalg("pinv"), (x,), 1e-8, node=False)
    hermitian = linalg("pinv", hermitian=True)
    yield Row("pinv of a symmetric matrix", hermitian, (SYMMETRIC,), 1e-8, node=False)
    yield Row("pinv of a triangle", hermitian, (SQUARE,), 1e-8, False, False)
    yield Row("pinv of no square matrix", hermitian, (TALL,))
    yield Row("pinv cut", linalg("pinv", rtol=0.5), (TALL,), 1e-8, node=False)
    yield Row("lstsq", linalg("lstsq"), (TALL, TALL[..., :2]), 1e-8, node=False)
    driven = linalg("lstsq", driver="gelsd")
    yield Row("lstsq by singular values", driven, (TALL, TALL[..., :2]), 1e-8, False, False)
    yield Row("lstsq of other rows", linalg("lstsq"), (TALL, WIDE))
    yield Row("tensorinv", linalg("tensorinv"), (doubles(2, 3, 6),), tolerance, node=False)
    row = linalg("tensorsolve")
    yield Row("tensorsolve", row, (doubles(2, 3, 6), doubles(2, 3)), tolerance, node=False)


def function_rows() -> Iterator[Row]:
    tolerance = 1e-9
    for name in ("det", "slogdet"):
        yield Row(name, linalg(name), (SQUARE,), tolerance, node=False)
    yield Row("logdet", call("logdet"), (SQUARE,), tolerance, node=False)
    yield Row("det of no square matrix", linalg("det"), (TALL,))
    yield Row("matrix_exp", linalg("matrix_exp"), (SQUARE,), tolerance, node=False)
    for n in (-2, 0, 1, 3):
        yield Row(f"matrix_power {n}", linalg("matrix_power", n), (SQUARE,), 1e-8, node=False)
    for order in ("fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf")):
        row = linalg("matrix_norm", order)
        yield Row(f"matrix_norm {order}", row, (TALL,), tolerance, node=False)
        row = linalg("norm", order, (2, 0), keepdim=True)
        yield Row(f"norm {order} of dimensions", row, (TALL,), tolerance, node=False)
    yield Row("matrix_norm 3", linalg("matrix_norm", 3), (TALL,))
    yield Row("norm", linalg("norm"), (TALL,), tolerance, node=False)
    for order in (0, 1, 2, 3.5, float("inf"), -float("inf")):
        row = linalg("vector_norm", order, -1)
        yield Row(f"vector_norm {order}", row, (TALL,), tolerance, node=False)
        yield Row(
            f"norm {order} of vectors", linalg("norm", order, 1), (TALL,), tolerance, node=False
        )
    for name, x in (("tall", TALL), ("singular", SINGULAR)):
        yield Row(f"matrix_rank {name}", linalg("matrix_rank"), (x,))
    for atol in (None, 1.0):
        row = linalg("matrix_rank", hermitian=True, atol=atol)
        yield Row(f"matrix_rank of a triangle {atol}", row, (doubles(5, 2, 2),))
    yield Row("matrix_rank of no square matrix", linalg("matrix_rank", hermitian=True), (TALL,))
    yield Row("matrix_rank cut", linalg("matrix_rank", rtol=0.5), (TALL,))
    for p in (None, 1, "fro", -2):
        # PyTorch's own gradient fails where it needs the inverse.
        yield Row(f"cond {p}", linalg("cond", p), (SQUARE,), 1e-8, p in (None, -2), False)
    listed = lambda lib, *xs: lib.linalg.multi_dot(xs)  # noqa: E731
    yield Row("multi_dot", listed, (TALL[0], SQUARE[0], WIDE[0]), tolerance, node=False)
    yield Row("vander", linalg("vander"), (SQUARE[0],), tolerance, False, False)
    yield Row("vander decreasing", call("vander", 2), (SQUARE[0, 0],), tolerance, False, False)
    yield Row("diagonal", linalg("diagonal", offset=1), (TALL,), node=False)


@table(product_rows())
def test_products(row: Row) -> None:
    compare(row)


@table(sum_rows())
def test_products_added(row: Row) -> None:
    compare(row)


@table(einsum_rows())
def test_einsum(row: Row) -> None:
    compare(row)


@table(factor_rows())
def test_factorizations(row: Row) -> None:
    compare(row)


@table(solution_rows())
def test_solutions(row: Row) -> None:
    compare(row)


@table(function_rows())
def test_functions(row: Row) -> None:
    compare(row)
