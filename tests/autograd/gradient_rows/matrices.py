"""Operators on vectors and matrices.

Factors that are unique up to signs or phases only enter through products in which those cancel.
"""

from __future__ import annotations

import flambeau
from flambeau import linalg
from flambeau.nn import functional as F
from flambeau.ops.matrices import factorization, orthogonal_maps
from flambeau.ops.neural import reparametrization
from tests.autograd.gradient_rows.row import (
    BATCH,
    EYE,
    OTHER_BATCH,
    OTHER_SQUARE,
    POSITIVE,
    SQUARE,
    A,
    B,
    C,
    V,
    W,
    Z,
    rows,
)

PIVOTS = flambeau.tensor([1, 2, 3], dtype=flambeau.int32)


def positive_definite(x):
    return x @ x.T + EYE


def symmetric(x):
    return x + x.T


def rebuilt_from_svd(x):
    u, s, vh = linalg.svd(x, full_matrices=False)
    return s, (u * s.square()) @ vh


def rebuilt_from_eigh(x):
    values, vectors = linalg.eigh(symmetric(x))
    return values, (vectors * values.square()) @ vectors.T


def rebuilt_from_eig(x):
    values, vectors = linalg.eig(x)
    return (vectors * values.square()) @ linalg.inv(vectors), vectors


def solved_by_lu(x, b):
    lu, pivots = linalg.lu_factor(x)
    return linalg.lu_solve(lu, pivots, b)


ROWS = [
    *rows(
        "linalg",
        ("matmul", lambda x, y: x @ y, A, SQUARE),
        ("matmul, batched", lambda x, y: x @ y, BATCH, V),
        ("matmul, complex", lambda z, x: z @ x.to(z.dtype), Z, SQUARE),
        ("mm", flambeau.mm, A, SQUARE),
        ("bmm", flambeau.bmm, BATCH, OTHER_BATCH),
        ("mv", flambeau.mv, A, V),
        ("dot", flambeau.dot, V, W),
        ("vdot", lambda z, u: flambeau.vdot(z[0], u[1]), Z, Z),
        ("inner", flambeau.inner, A, B),
        ("outer", flambeau.outer, V, W),
        ("linear", F.linear, A, SQUARE, V),
        ("bilinear", F.bilinear, A, B, BATCH, V[:2]),
        ("addmm", lambda x, y, z: flambeau.addmm(x, y, z, beta=0.5, alpha=2), B, A, SQUARE),
        ("addmv", lambda x, y, z: flambeau.addmv(x, y, z, beta=0.5), V, SQUARE, W),
        ("addr", lambda x, y, z: flambeau.addr(x, y, z, beta=0.5), SQUARE, V, W),
        ("addbmm", lambda x, y, z: flambeau.addbmm(x, y, z), SQUARE, BATCH, OTHER_BATCH),
        ("baddbmm", lambda x, y, z: flambeau.baddbmm(x, y, z), SQUARE, BATCH, OTHER_BATCH),
        ("cross", lambda x, y: linalg.cross(x, y), A, B),
        ("kron", flambeau.kron, A, V),
        ("tensordot", lambda x, y: flambeau.tensordot(x, y, 2), A, BATCH.view(2, 3, 3)),
        ("trace", flambeau.trace, SQUARE),
        twice="matmul linear",
    ),
    *rows(
        "matrix_functions",
        ("det", linalg.det, SQUARE),
        ("det, of a singular matrix", linalg.det, SQUARE * (EYE[0] == 0)),
        ("slogdet", lambda x: linalg.slogdet(x).logabsdet, SQUARE),
        ("logdet", flambeau.logdet, SQUARE),
        ("matrix_exp", linalg.matrix_exp, SQUARE),
        ("matrix_power", lambda x: linalg.matrix_power(x, 3), SQUARE),
        ("matrix_norm", lambda x: linalg.matrix_norm(x, 1), SQUARE),
        ("spectral_norm", lambda x: linalg.matrix_norm(x, 2), SQUARE),
        ("einsum", lambda x, y: flambeau.einsum("bi,bj->ij", x, y), A, B),
        ("multi_dot", lambda x, y, z: linalg.multi_dot([x, y, z]), A, SQUARE, OTHER_SQUARE),
        ("vecdot", linalg.vecdot, A, B),
        ("vander", lambda x: flambeau.vander(x), V),
        twice="det einsum",
    ),
    *rows(
        "factorization",
        ("cholesky", lambda x: linalg.cholesky(positive_definite(x)), SQUARE),
        ("cholesky, upper", lambda x: linalg.cholesky(symmetric(x), upper=True), SQUARE),
        ("linalg_qr", linalg.qr, SQUARE),
        ("lu_factor", lambda x: linalg.lu_factor(x).LU, SQUARE),
        ("lu", lambda x: linalg.lu(x)[1:], SQUARE),
        ("eigh", rebuilt_from_eigh, SQUARE),
        ("eigvalsh", lambda x: linalg.eigvalsh(symmetric(x)), SQUARE),
        ("eig", rebuilt_from_eig, SQUARE),
        ("eigvals", lambda x: linalg.eigvals(x), SQUARE),
        ("linalg_svd", rebuilt_from_svd, A),
        ("svdvals", linalg.svdvals, A),
        ("householder_product", linalg.householder_product, A.T, V[:2]),
        ("orthonormal_columns", factorization.orthonormal_columns, A.T),
        twice="cholesky",
    ),
    *rows(
        "older_factorizations",
        ("triangles", lambda x: flambeau.lu_unpack(x, PIVOTS)[1:], SQUARE),
        ("ormqr", flambeau.ormqr, A.T, V[:2], SQUARE),
    ),
    *rows(
        "solving",
        ("inverse", linalg.inv, SQUARE),
        ("solve", linalg.solve, SQUARE, A.T),
        ("solve, from the right", lambda x, y: linalg.solve(x, y, left=False), SQUARE, A),
        ("solve_triangular", lambda x, y: linalg.solve_triangular(x, y, upper=True), SQUARE, A.T),
        ("lu_solve", solved_by_lu, SQUARE, A.T),
        ("cholesky_solve", flambeau.cholesky_solve, A.T, SQUARE.tril()),
        ("cholesky_inverse", flambeau.cholesky_inverse, SQUARE.tril()),
        ("pinv", linalg.pinv, A),
        ("least_squares", lambda x, y: linalg.lstsq(x, y).solution, A.T, SQUARE),
        twice="solve",
    ),
    *rows(
        "reparametrization",
        ("norm_except_dim", lambda x: reparametrization.norm_except_dim(x, 2, 0), A),
        ("weight_norm", lambda v, g: reparametrization.weight_norm(v, g, 0), A, C[:, :1]),
        (
            "divided_by_sigma",
            lambda x: reparametrization.divided_by_sigma(x, POSITIVE[:, 0], W, 0),
            A,
        ),
    ),
    *rows(
        "orthogonal_maps",
        ("orthogonal_map", lambda x: orthogonal_maps.orthogonal_map(x, None, "matrix_exp"), SQUARE),
        (
            "orthogonal_map, cayley",
            lambda x: orthogonal_maps.orthogonal_map(x, None, "cayley"),
            SQUARE,
        ),
        (
            "orthogonal_map, householder",
            lambda x: orthogonal_maps.orthogonal_map(x, None, "householder"),
            A.T,
        ),
    ),
]
