"""Sparse tensors: what is this library's own, and what compiled functions do with them."""

from __future__ import annotations

import copy
import pickle

import jax
import pytest

import flambeau
from flambeau import nn

PLACES = [[0, 0, 1], [2, 1, 0]]


def matrix(**options):
    return flambeau.sparse_coo_tensor(PLACES, [1.0, 2.0, 3.0], (2, 3), **options)


def dense():
    return flambeau.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]])


def test_positions_outside_are_refused_where_they_are_seen():
    with pytest.raises(RuntimeError, match="size is 2 but found index 5"):
        flambeau.sparse_coo_tensor([[0, 5], [0, 0]], [1.0, 2.0], (2, 2))
    with pytest.raises(RuntimeError, match="negative index -1"):
        flambeau.sparse_coo_tensor([[0, -1], [0, 0]], [1.0, 2.0], (2, 2))


def test_what_is_not_available_says_what_to_do():
    with pytest.raises(
        NotImplementedError, match=r"exp\(\) does not take a sparse tensor .*to_dense"
    ):
        matrix().exp()
    with pytest.raises(NotImplementedError, match="to_dense"):
        nn.functional.linear(flambeau.ones(2, 3), matrix())
    with pytest.raises(NotImplementedError, match="to_dense"):
        matrix().mul_(2)


def test_gradients_of_a_product_are_those_of_differences():
    places = flambeau.tensor([[0, 0, 1, 1], [2, 1, 0, 0]])

    def multiply(values, other):
        return flambeau.sparse_coo_tensor(places, values, (2, 3)) @ other

    values = flambeau.rand(4, dtype=flambeau.float64, requires_grad=True)
    other = flambeau.rand(3, 2, dtype=flambeau.float64, requires_grad=True)
    assert flambeau.autograd.gradcheck(multiply, (values, other))
    assert flambeau.autograd.gradgradcheck(multiply, (values, other))


def test_gradients_of_parts_are_those_of_differences():
    places = flambeau.tensor([[0, 0, 1, 1], [2, 1, 0, 0]])
    values = flambeau.rand(4, dtype=flambeau.float64, requires_grad=True)
    for part in (
        lambda x: x[0], lambda x: x[:, 0], lambda x: x.index_select(0, flambeau.tensor([1, 1, 0])),
        lambda x: flambeau.cat([x, x], 1), lambda x: x.coalesce().tanh(),
    ):  # fmt: skip
        assert flambeau.autograd.gradcheck(
            lambda v, part=part: part(flambeau.sparse_coo_tensor(places, v, (2, 3))).to_dense(),
            (values,),
        )


def test_the_gradient_of_a_leaf_is_sparse():
    leaf = matrix(requires_grad=True)
    assert leaf.is_leaf
    (leaf @ flambeau.tensor([[1.0], [2.0], [3.0]])).sum().backward()
    assert leaf.grad.to_dense().tolist() == [[0.0, 2.0, 3.0], [1.0, 0.0, 0.0]]
    leaf.grad = None
    assert leaf.grad is None


def test_copies_are_sparse_tensors():
    for made in (
        copy.deepcopy(matrix()), pickle.loads(pickle.dumps(matrix())), matrix().detach(),
        matrix().to("cpu"), matrix().data,
    ):  # fmt: skip
        assert made.is_sparse
        assert flambeau.equal(made.to_dense(), dense())


def test_a_module_keeps_one_as_a_buffer():
    class Convolution(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("adjacency", matrix())
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            return flambeau.sparse.mm(self.adjacency, self.linear(x))

    model = Convolution().double()
    x = flambeau.ones(3, 2, dtype=flambeau.float64)
    expected = dense().double() @ model.linear(x)
    assert flambeau.allclose(model(x), expected)
    assert flambeau.allclose(flambeau.compile(model)(x), expected)
    assert model.state_dict()["adjacency"].is_sparse


def test_a_compiled_function_takes_and_gives_them():
    double = flambeau.compile(lambda x: x * 2)
    for factor in (1.0, 3.0):
        made = double(matrix() * factor)
        assert made.is_sparse
        assert flambeau.equal(made.to_dense(), dense() * 2 * factor)
    captured = matrix()
    assert flambeau.compile(lambda: captured)() is captured
    built = flambeau.compile(lambda i, v: flambeau.sparse_coo_tensor(i, v, (2, 3)))
    found = built(flambeau.tensor(PLACES), flambeau.tensor([1.0, 2.0, 3.0]))
    assert flambeau.equal(found.to_dense(), dense())


def test_other_values_and_other_positions_run_by_the_same_program():
    @flambeau.compile
    def multiply(sparse, x):
        return sparse @ x

    x = flambeau.rand(3, 2)
    for places in (PLACES, [[1, 0, 1], [2, 2, 0]]):
        sparse = flambeau.sparse_coo_tensor(places, [1.0, 2.0, 3.0], (2, 3))
        assert flambeau.allclose(multiply(sparse, x), sparse.to_dense() @ x)
    assert [len(each.programs) for each in multiply.kinds.values()] == [1]


def test_a_compiled_step_trains_values():
    values = [nn.Parameter(flambeau.tensor([1.0, 2.0, 3.0])) for _ in range(2)]
    x = flambeau.rand(3, 2)

    def step(parameter, optimizer):
        optimizer.zero_grad()
        weights = flambeau.sparse_coo_tensor(flambeau.tensor(PLACES), parameter, (2, 3))
        loss = (weights @ x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    optimizers = [flambeau.optim.SGD([each], lr=0.1) for each in values]
    compiled = flambeau.compile(step)
    for _ in range(3):
        assert flambeau.allclose(step(values[0], optimizers[0]), compiled(values[1], optimizers[1]))
    assert flambeau.allclose(*values)


def test_a_compiled_function_computes_softmax_of_coalesced_ones():
    sparse = matrix().coalesce()
    compiled = flambeau.compile(lambda x: flambeau.sparse.softmax(x, 1))
    assert flambeau.allclose(compiled(sparse).values(), flambeau.sparse.softmax(sparse, 1).values())


def test_a_compiled_function_cannot_know_how_many_positions_there_are():
    for compute in (lambda x: x.coalesce(), lambda x: x.to_dense().to_sparse()):
        with pytest.raises(RuntimeError, match="depends on values"):
            flambeau.compile(compute, fullgraph=True)(matrix())


def test_transformations_take_them():
    x = flambeau.rand(3, 2)
    mapped = flambeau.func.vmap(lambda column: matrix() @ column, in_dims=1, out_dims=1)
    assert flambeau.allclose(mapped(x), dense() @ x)
    found = jax.jit(lambda sparse: sparse * 2)(matrix())
    assert flambeau.equal(found.to_dense(), dense() * 2)


def test_a_softmax_of_rows_far_apart_needs_no_memory_for_all_rows():
    size = (1 << 20, 1 << 20, 4)
    sparse = flambeau.sparse_coo_tensor(
        [[5, 5, 1_000_000], [7, 7, 1_000_000], [0, 1, 2]], [1.0, 1.0, 3.0], size
    )
    assert flambeau.sparse.softmax(sparse, 2).values().tolist() == [0.5, 0.5, 1.0]


def test_only_sparse_tensors_have_sparse_sums():
    with pytest.raises(TypeError, match="to_sparse"):
        flambeau.sparse.sum(flambeau.ones(2))


def test_a_dense_tensor_takes_them_in_sums():
    ones = flambeau.ones(2, 3)
    for found in (ones + matrix(), flambeau.add(ones, matrix())):
        assert found.tolist() == (1 + dense()).tolist()
    assert (ones - matrix()).tolist() == (1 - dense()).tolist()


def test_a_dense_tensor_adds_them_in_place():
    total = same = flambeau.ones(2, 3)
    total.add_(matrix(), alpha=2)
    total.sub_(matrix())
    total += matrix()
    assert total is same
    assert total.tolist() == (1 + 2 * dense()).tolist()
    with pytest.raises(NotImplementedError, match=r"add_\(\) does not take a sparse tensor"):
        matrix().add_(matrix())
