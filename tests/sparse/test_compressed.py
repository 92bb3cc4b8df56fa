"""Compressed sparse matrices: in compiled functions, copied, and what is refused."""

import copy
import pickle

import pytest

import flambeau


def matrix(**options):
    return flambeau.sparse_csr_tensor([0, 1, 3], [1, 0, 2], [1.0, 2.0, 3.0], (2, 3), **options)


def test_a_compiled_function_takes_and_gives_one():
    @flambeau.compile
    def step(a, x):
        return a @ x, a * 2

    x = flambeau.ones(3, 2)
    product, doubled = step(matrix(), x)
    assert product.tolist() == [[1, 1], [5, 5]]
    assert doubled.layout is flambeau.sparse_csr
    assert doubled.values().tolist() == [2, 4, 6]
    assert doubled.crow_indices().tolist() == [0, 1, 3]


def test_copies_are_equal():
    found = matrix()
    for each in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert each.layout is flambeau.sparse_csr
        assert flambeau.equal(each.to_dense(), found.to_dense())


def test_a_leaf_takes_a_gradient_at_its_positions():
    a = matrix(requires_grad=True)
    (a @ flambeau.tensor([[1.0], [2.0], [3.0]])).sum().backward()
    assert a.grad.values().tolist() == [2, 1, 3]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: flambeau.sparse_csr_tensor([0, 2], [0], [1.0]), RuntimeError, "0 to the number"),
        (lambda: flambeau.sparse_csr_tensor([0, 1], [3], [1.0], (1, 2)), RuntimeError, "to 1"),
        (lambda: flambeau.sparse_csr_tensor([0, 1], [0], [1.0], (2, 2)), RuntimeError, "needs 3"),
        (lambda: flambeau.sparse_csr_tensor([0, 1], [0, 1], [1.0]), RuntimeError, "as many"),
        (lambda: flambeau.sparse_csr_tensor([[0, 1]], [0], [1.0]), NotImplementedError, "vectors"),
        (lambda: flambeau.ones(2).to_sparse_csr(), RuntimeError, "matrices"),
        (lambda: flambeau.eye(2).to_sparse_csr(1), NotImplementedError, "dense_dim"),
        (
            lambda: flambeau.sparse_compressed_tensor([0, 1], [0], [1.0], layout=flambeau.strided),
            NotImplementedError,
            "layout must be",
        ),
        (
            lambda: flambeau.eye(2).to_sparse(layout=flambeau.sparse_bsr),
            NotImplementedError,
            "sparse layouts are",
        ),
        (lambda: flambeau.sparse.mm(matrix(), flambeau.ones(3, 1), "prod"), ValueError, "reduce"),
    ],
)
def test_what_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()
