"""Functions of matrices keep their accuracy for elements, and matrices, of every size."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau
from flambeau import linalg
from flambeau.autograd import gradcheck, gradgradcheck

#: Its eigenvalues are 1, 2 and 3.
TRIANGLE = np.array([[1.0, 4.0, 0.5], [0.0, 2.0, -3.0], [0.0, 0.0, 3.0]])


@pytest.mark.parametrize("size", [0.25, 1.5, 3.9, 7.0, -7.0, 40.0])
def test_exponentials_are_as_accurate_as_the_dtype(size):
    for dtype, rtol in ((flambeau.float32, 1e-5), (flambeau.float64, 1e-13)):
        matrix = flambeau.tensor([[size, 1.0], [0.0, size]], dtype=dtype)
        expected = math.exp(size) * np.array([[1.0, 1.0], [0.0, 1.0]])
        np.testing.assert_allclose(linalg.matrix_exp(matrix), expected, rtol=rtol)


def test_exponentials_of_a_batch_are_scaled_one_by_one():
    batch = flambeau.tensor([[[30.0]], [[1e-3]], [[-30.0]]], requires_grad=True)
    linalg.matrix_exp(batch).sum().backward()
    expected = np.exp([30.0, 1e-3, -30.0])[:, None, None]
    np.testing.assert_allclose(batch.grad, expected, rtol=1e-5)


def test_exponentials_have_gradients_twice_where_they_are_squared():
    matrix = (flambeau.tensor(TRIANGLE[:2, :2]) * 1.3).requires_grad_()
    assert gradcheck(linalg.matrix_exp, (matrix,))
    assert gradgradcheck(linalg.matrix_exp, (matrix,))


def test_an_exponential_of_no_rows_has_none():
    assert linalg.matrix_exp(flambeau.zeros(2, 0, 0)).shape == (2, 0, 0)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e12, 1e18, 1e30])
def test_eigenvalues_grow_with_the_matrix(scale):
    matrix = flambeau.tensor((TRIANGLE * scale).astype(np.float32), requires_grad=True)
    values = linalg.eigvals(matrix)
    np.testing.assert_allclose(np.sort(values.detach().real), scale * np.arange(1, 4), rtol=1e-5)
    (gradient,) = flambeau.autograd.grad(values.sum().real, matrix)
    np.testing.assert_allclose(gradient, np.eye(3), atol=1e-5)
    found = linalg.eig(matrix)
    np.testing.assert_allclose(np.sort(found.eigenvalues.detach().real), scale * np.arange(1, 4),
                               rtol=1e-5)  # fmt: skip


def test_no_rows_have_no_eigenvalues_and_the_norm_0():
    none = flambeau.zeros(0, 0, requires_grad=True)
    assert [each.shape for each in linalg.eig(none)] == [(0,), (0, 0)]
    assert linalg.matrix_norm(none, 2).item() == 0
