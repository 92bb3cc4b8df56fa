import numpy as np
import pytest

import flambeau

RANDOM = np.random.default_rng(0).standard_normal((2, 12, 12))
MATRICES = flambeau.tensor(RANDOM @ RANDOM.transpose(0, 2, 1))


@pytest.mark.parametrize("largest", [True, False])
def test_pairs_of_a_dense_matrix(largest):
    values, vectors = flambeau.lobpcg(MATRICES, k=3, largest=largest)
    expected = np.linalg.eigvalsh(MATRICES.numpy())
    expected = expected[:, :-4:-1] if largest else expected[:, :3]
    np.testing.assert_allclose(values.numpy(), expected)
    flambeau.testing.assert_close(MATRICES @ vectors, vectors * values.unsqueeze(1))


def test_pairs_of_a_generalized_problem():
    other = MATRICES[1] + 5 * flambeau.eye(12, dtype=flambeau.float64)
    values, vectors = flambeau.lobpcg(MATRICES[0], k=2, B=other)
    flambeau.testing.assert_close(MATRICES[0] @ vectors, other @ vectors * values)


@pytest.mark.parametrize("largest", [True, False])
def test_pairs_of_a_sparse_matrix(largest):
    dense = flambeau.diag(flambeau.arange(40.0, dtype=flambeau.float64))
    dense[0, 39] = dense[39, 0] = 5
    values, vectors = flambeau.lobpcg(dense.to_sparse(), k=2, largest=largest)
    expected = np.linalg.eigvalsh(dense.numpy())
    np.testing.assert_allclose(values.numpy(), expected[:-3:-1] if largest else expected[:2])
    flambeau.testing.assert_close(dense @ vectors, vectors * values)


def test_gradients_pass_and_are_symmetric():
    matrix = MATRICES[0].clone().requires_grad_()
    values, vectors = flambeau.lobpcg(matrix, k=2)
    values.sum().backward()
    flambeau.testing.assert_close(matrix.grad, (vectors @ vectors.mT).detach())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"A": flambeau.eye(4), "k": 2}, "3 x the number of requested eigenpairs"),
        ({"A": flambeau.ones(4, 3)}, "square matrices"),
        ({"A": flambeau.eye(9), "method": "other"}, "method must be one of"),
    ],
)
def test_it_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        flambeau.lobpcg(**arguments)


def test_there_is_no_tracker():
    with pytest.raises(NotImplementedError, match="tracker"):
        flambeau.lobpcg(flambeau.eye(9), tracker=print)
