"""Products of vectors and matrices: NumPy's values, and errors that state the shapes."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau import linalg
from flambeau.nn import functional as F

RANDOM = np.random.default_rng(0)


def numbers(*shape):
    return RANDOM.standard_normal(shape)


V, W = numbers(3), numbers(3)
M, N, P = numbers(2, 3), numbers(3, 4), numbers(2, 4)
BATCH, OTHERS = numbers(2, 2, 3), numbers(2, 3, 4)
Z = M + 1j * numbers(2, 3)


def t(array):
    return flambeau.tensor(array)


PRODUCTS = {
    "mm": (lambda a, b: flambeau.mm(a, b), np.matmul, M, N),
    "bmm": (lambda a, b: flambeau.bmm(a, b), np.matmul, BATCH, OTHERS),
    "mv": (lambda a, b: flambeau.mv(a, b), np.matmul, M, V),
    "dot": (lambda a, b: flambeau.dot(a, b), np.dot, V, W),
    "vdot": (lambda a, b: flambeau.vdot(a, b), np.vdot, Z[0], Z[1]),
    "inner": (lambda a, b: flambeau.inner(a, b), np.inner, M, numbers(4, 3)),
    "outer": (lambda a, b: flambeau.outer(a, b), np.outer, V, P[0]),
    "kron": (lambda a, b: flambeau.kron(a, b), np.kron, M, N),
    "cross": (lambda a, b: linalg.cross(a, b), np.cross, M, numbers(2, 3)),
    "trace": (lambda a: flambeau.trace(a), np.trace, N),
    "tensordot": (
        lambda a, b: flambeau.tensordot(a, b, dims=([1, 0], [0, 2])),
        lambda a, b: np.tensordot(a, b, ([1, 0], [0, 2])),
        BATCH, numbers(2, 5, 2),
    ),
    "addmm": (
        lambda a, b, c: flambeau.addmm(a, b, c, beta=0.5, alpha=2),
        lambda a, b, c: 0.5 * a + 2 * b @ c,
        P[0], M, N,
    ),
    "addmv": (
        lambda a, b, c: flambeau.addmv(a, b, c, alpha=-1), lambda a, b, c: a - b @ c, P[:, 0], M, V,
    ),
    "addr": (
        lambda a, b, c: flambeau.addr(a, b, c, beta=3),
        lambda a, b, c: 3 * a + np.outer(b, c),
        N, V, P[0],
    ),
    "addbmm": (
        lambda a, b, c: flambeau.addbmm(a, b, c),
        lambda a, b, c: a + (b @ c).sum(0),
        P, BATCH, OTHERS,
    ),
    "baddbmm": (
        lambda a, b, c: flambeau.baddbmm(a, b, c, beta=2),
        lambda a, b, c: 2 * a + b @ c,
        P, BATCH, OTHERS,
    ),
    "linear": (F.linear, lambda x, w, b: x @ w.T + b, BATCH, numbers(4, 3), P[0]),
    "linear of one output": (F.linear, lambda x, w: x @ w, BATCH, V),
    "bilinear": (
        F.bilinear,
        lambda x, y, w, b: np.einsum("ni,oij,nj->no", x, w, y) + b,
        M, P, numbers(5, 3, 4), numbers(5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_have_numpys_values(name):
    compute, reference, *arrays = PRODUCTS[name]
    found = compute(*map(t, arrays)).numpy()
    expected = np.asarray(reference(*arrays))
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


SHAPES = [
    ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (2, 3, 4)), ((2, 5, 3), (3,)),
    ((2, 5, 3), (3, 4)), ((5, 3), (2, 3, 4)), ((2, 1, 5, 3), (6, 3, 4)), ((0, 3), (3, 4)),
    ((2, 0), (0, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matmul_broadcasts_batches_as_numpy_does(left, right):
    a, b = numbers(*left), numbers(*right)
    found, expected = (t(a) @ t(b)).numpy(), a @ b
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_beta_of_zero_ignores_what_is_in_the_input():
    nan = flambeau.full((2, 4), float("nan"), dtype=flambeau.float64)
    found = flambeau.addmm(nan, t(M), t(N), beta=0)
    np.testing.assert_allclose(found.numpy(), M @ N)


def test_integers_multiply_exactly():
    a = flambeau.tensor([[2**40, 1], [3, -1]])
    assert (a @ a).tolist() == [[2**80 % 2**64 + 3, 2**40 - 1], [3 * 2**40 - 3, 4]]
    assert (a @ a).dtype is flambeau.int64


# Functions of matrices and solutions

S = numbers(3, 3) + 3 * np.eye(3)
H = S @ S.T


def test_determinants():
    assert linalg.det(t(S)).item() == pytest.approx(np.linalg.det(S))
    sign, logarithm = linalg.slogdet(t(S))
    assert (sign * logarithm.exp()).item() == pytest.approx(np.linalg.det(S))
    assert linalg.det(flambeau.ones(2, 2)).item() == 0
    assert flambeau.logdet(t(S[[1, 0, 2]])).isnan().item() == (np.linalg.det(S) > 0)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_gradient_of_a_determinant_is_the_matrix_of_cofactors(size):
    matrix = numbers(size, size)
    # No inverse, and a first pivot of zero.
    matrix[:, 0] = 0
    cofactors = [
        [
            (-1) ** (i + j) * np.linalg.det(np.delete(np.delete(matrix, i, 0), j, 1))
            for j in range(size)
        ]
        for i in range(size)
    ]
    x = t(matrix).requires_grad_()
    linalg.det(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), cofactors, atol=1e-12)


def test_inverse_and_solutions():
    np.testing.assert_allclose(linalg.inv(t(S)).numpy() @ S, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(S @ linalg.solve(t(S), t(V)).numpy(), V)
    right = linalg.solve(t(S), t(M), left=False).numpy()
    np.testing.assert_allclose(right @ S, M)
    lower = linalg.solve_triangular(t(S), t(N), upper=False).numpy()
    np.testing.assert_allclose(np.tril(S) @ lower, N)
    np.testing.assert_allclose(linalg.pinv(t(N)).numpy(), np.linalg.pinv(N))
    solution = linalg.lstsq(t(N.T), t(P.T)).solution
    np.testing.assert_allclose(solution.numpy(), np.linalg.lstsq(N.T, P.T, rcond=None)[0])


def test_powers_and_exponentials():
    np.testing.assert_allclose(linalg.matrix_power(t(S), 3).numpy(), S @ S @ S)
    np.testing.assert_allclose(linalg.matrix_power(t(S), -1).numpy(), np.linalg.inv(S))
    assert flambeau.equal(linalg.matrix_power(t(S), 0), flambeau.eye(3, dtype=flambeau.float64))
    half = linalg.matrix_exp(t(S / 2)).numpy()
    np.testing.assert_allclose(linalg.matrix_exp(t(S)).numpy(), half @ half)


def test_factors_multiply_to_the_matrix():
    lower = linalg.cholesky(t(H)).numpy()
    np.testing.assert_allclose(lower @ lower.T, H)
    np.testing.assert_array_equal(lower, np.tril(lower))
    q, r = (each.numpy() for each in linalg.qr(t(N.T)))
    np.testing.assert_allclose(q @ r, N.T, atol=1e-12)
    np.testing.assert_allclose(q.T @ q, np.eye(3), atol=1e-12)
    p, low, up = (each.numpy() for each in linalg.lu(t(S)))
    np.testing.assert_allclose(p @ low @ up, S)
    u, s, vh = (each.numpy() for each in linalg.svd(t(M), full_matrices=False))
    np.testing.assert_allclose(u * s @ vh, M, atol=1e-12)
    np.testing.assert_allclose(s, np.linalg.svd(M, compute_uv=False))
    values, vectors = (each.numpy() for each in linalg.eigh(t(H)))
    np.testing.assert_allclose(vectors * values @ vectors.T, H)
    values, vectors = (each.numpy() for each in linalg.eig(t(S)))
    np.testing.assert_allclose(vectors * values, S @ vectors, atol=1e-12)


@pytest.mark.parametrize("shape", [(2, 3, 5), (5, 3)], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_the_square_factors_of_svd_have_the_gradients_of_the_narrow_ones(shape, dtype):
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal(shape) + (1j if dtype == "complex128" else 0)
    gradients = []
    for full in (True, False):
        given = t(matrix.astype(dtype)).requires_grad_()
        u, s, vh = linalg.svd(given, full_matrices=full)
        # It does not depend on the signs and phases of the vectors.
        parts = u[..., :1] @ vh[..., :1, :]
        (s.square().sum() + s.sum() + parts.real.sum()).backward()
        gradients.append(given.grad.numpy())
    np.testing.assert_allclose(*gradients, atol=1e-12)


ORDERS = ["fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf")]


@pytest.mark.parametrize("order", ORDERS)
def test_matrix_norms(order):
    found = linalg.matrix_norm(t(M), order)
    np.testing.assert_allclose(found.numpy(), np.linalg.norm(M, order))


@pytest.mark.parametrize("order", [0, 1, 2, 3, 0.5, float("inf"), -float("inf")])
def test_vector_norms(order):
    found = linalg.vector_norm(t(M), order, dim=1)
    np.testing.assert_allclose(found.numpy(), np.linalg.norm(M, order, axis=1))


def test_rank_and_condition():
    assert linalg.matrix_rank(flambeau.ones(3, 3)).item() == 1
    assert linalg.cond(t(S)).item() == pytest.approx(np.linalg.cond(S))


def test_einsum():
    found = flambeau.einsum("bij,bjk,k->bi", t(BATCH), t(OTHERS), t(P[0]))
    np.testing.assert_allclose(found.numpy(), np.einsum("bij,bjk,k->bi", BATCH, OTHERS, P[0]))
    found = flambeau.einsum("...ij->...ji", t(BATCH))
    np.testing.assert_array_equal(found.numpy(), BATCH.swapaxes(1, 2))
    found = flambeau.einsum(t(M), [0, 1], t(N), [1, 2], [2, 0])
    np.testing.assert_allclose(found.numpy(), (M @ N).T)


# Errors

ERRORS = {
    "matmul": (r"\(2x3 and 2x3\): 3 is not 2", lambda: t(M) @ t(M)),
    "matmul of 0-d": ("at least 1 dimension, got 0 and 2", lambda: t(M[0, 0]) @ t(M)),
    "mm": (r"mat2 must have 2 dimensions, got shape \[3\]", lambda: flambeau.mm(t(M), t(V))),
    "bmm": (
        r"2 and 1 matrices, shapes \[2, 2, 3\] and \[1, 3, 4\]",
        lambda: flambeau.bmm(t(BATCH), t(OTHERS[:1])),
    ),
    "dot": (r"\(3 and 2\): 3 is not 2", lambda: flambeau.dot(t(V), t(V[:2]))),
    "inner": (r"\[2, 3\] and \[3, 4\] differ", lambda: flambeau.inner(t(M), t(N))),
    "dtypes": ("float64 and .*float32|float32 and .*float64", lambda: t(M) @ t(N).float()),
    "addmm": (
        r"shape \[3\].*product's shape \[2, 4\]", lambda: flambeau.addmm(t(V), t(M), t(N)),
    ),
    "linear": (r"\[2, 3\].*\[2, 4\].*: 3 is not 4", lambda: F.linear(t(M), t(P))),
    "bias of linear": (r"\[3\].*\[4, 3\]", lambda: F.linear(t(M), t(N.T), t(V))),
    "bilinear": (r"weight must have 3 dimensions, got shape \[3, 4\]",
                 lambda: F.bilinear(t(M), t(P), t(N))),
    "cross": (r"size 3, got shapes \[2, 4\]", lambda: linalg.cross(t(P), t(P))),
    "tensordot": ("2 dimensions of a and 1 of b",
                  lambda: flambeau.tensordot(t(M), t(N), dims=([0, 1], [0]))),
    "det": (r"square matrices, got shape \[2, 3\]", lambda: linalg.det(t(M))),
    "inv of a vector": (r"matrices, got a tensor of shape \[3\]", lambda: linalg.inv(t(V))),
    "singular": ("inv.*singular", lambda: linalg.inv(flambeau.ones(2, 2))),
    "not positive": ("cholesky.*positive", lambda: linalg.cholesky(-t(H))),
    "solve": (r"\[3, 3\] and \[2, 3\]", lambda: linalg.solve(t(S), t(M))),
    "lstsq": (r"\[3, 4\] and \[2, 4\] differ", lambda: linalg.lstsq(t(N), t(P))),
    "norm": ("'fro', 'nuc', 1, 2 or inf.*3", lambda: linalg.matrix_norm(t(M), 3)),
    "multi_dot": ("at least 2 tensors, got 1", lambda: linalg.multi_dot([t(M)])),
    "UPLO": ("'L' or 'U', got 'X'", lambda: linalg.eigh(t(H), "X")),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_state_the_facts(name):
    facts, compute = ERRORS[name]
    with pytest.raises(RuntimeError, match=facts):
        compute()


def test_a_number_is_no_matrix():
    with pytest.raises(TypeError, match=r"Tensor.*number"):
        t(M) @ 2.0


@pytest.mark.parametrize("order", [float("inf"), float("-inf")])
@pytest.mark.parametrize("interpret", [True, False])
def test_the_gradient_of_a_norm_of_nan_is_zero_in_each_gear(order, interpret):
    x = flambeau.tensor([float("nan"), 1.5, 0.75], requires_grad=True)
    with flambeau.compiler.gears(interpret=interpret):
        flambeau.linalg.vector_norm(x, order).backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


HALF = ["svd", "eigh", "eig", "qr", "lu_factor", "cholesky", "inv", "slogdet", "pinv", "ldl_factor"]


@pytest.mark.parametrize("name", HALF)
def test_factors_of_matrices_in_half_precision_are_refused(name):
    for dtype, kind in ((flambeau.bfloat16, "BFloat16"), (flambeau.float16, "Half")):
        with pytest.raises(NotImplementedError, match=f"not implemented for '{kind}'"):
            getattr(flambeau.linalg, name)(flambeau.eye(2, dtype=dtype))
