"""Embeddings with sparse gradients: where they are sparse, and where they are not."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import func, nn

ROWS = [[1, 3, 1], [0, 2, 3]]


def table(**options):
    flambeau.manual_seed(0)
    return nn.Embedding(6, 2, sparse=True, **options)


def rows():
    return flambeau.tensor(ROWS)


def expected():
    """The gradient of the sum of squares, dense."""
    dense = nn.Embedding(6, 2)
    dense.load_state_dict(table().state_dict())
    dense(rows()).square().sum().backward()
    return dense.weight.grad


def test_the_gradient_has_the_rows_that_were_looked_up():
    model = table()
    model(rows()).square().sum().backward()
    assert model.weight.grad._indices().tolist() == [[1, 3, 1, 0, 2, 3]]
    assert flambeau.allclose(model.weight.grad.to_dense(), expected())


def test_a_second_backward_needs_the_graph():
    loss = table()(rows()).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_indices_that_change_after_the_forward_do_not_matter():
    model, indices = table(), rows()
    loss = model(indices).square().sum()
    indices.zero_()
    loss.backward()
    assert flambeau.allclose(model.weight.grad.to_dense(), expected())


def test_whoever_looks_at_a_gradient_on_its_way_gets_a_dense_one():
    model, seen = table(), []
    model.weight.register_hook(lambda grad: seen.append(grad.is_sparse))
    model(rows()).square().sum().backward()
    assert seen == [False]
    assert flambeau.allclose(model.weight.grad, expected())
    model = table()
    (grad,) = flambeau.autograd.grad(model(rows()).square().sum(), model.weight)
    assert flambeau.allclose(grad, expected())
    model(rows()).square().sum().backward(create_graph=True)
    assert flambeau.allclose(model.weight.grad, expected())
    with flambeau.autograd.detect_anomaly(check_nan=True):
        model.zero_grad()
        model(rows()).square().sum().backward()
    assert flambeau.allclose(model.weight.grad, expected())


def test_transformations_get_dense_gradients():
    model = table()
    found = func.grad(lambda w: nn.functional.embedding(rows(), w, sparse=True).square().sum())(
        model.weight.detach()
    )
    assert flambeau.allclose(found, expected())


def test_a_compiled_forward_gives_dense_gradients_outside():
    model = table()
    flambeau.compile(lambda: model(rows()).square().sum())().backward()
    assert flambeau.allclose(model.weight.grad, expected())


def test_a_compiled_step_leaves_sparse_gradients():
    model = table()

    @flambeau.compile
    def step(indices):
        model.zero_grad()
        loss = model(indices).square().sum()
        loss.backward()
        return loss

    for _ in range(2):
        step(rows())
        assert model.weight.grad.is_sparse
        assert flambeau.allclose(model.weight.grad.to_dense(), expected())


def test_a_compiled_function_refuses_sparse_gradients_from_before():
    model = table()
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)
    model(rows()).sum().backward()
    with pytest.raises(RuntimeError, match="sparse gradient from before"):
        flambeau.compile(lambda: optimizer.step(), fullgraph=True)()


def test_gradients_are_reset():
    model = table()
    model(rows()).sum().backward()
    model.zero_grad(set_to_none=False)
    assert not model.weight.grad.to_dense().any()
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)
    optimizer.zero_grad(set_to_none=False)
    optimizer.zero_grad()
    assert model.weight.grad is None


def test_frequencies_need_dense_gradients():
    with pytest.raises(RuntimeError, match="scale_grad_by_freq"):
        table(scale_grad_by_freq=True)(rows())


def test_rows_without_a_gradient_keep_their_values_and_averages():
    model = table()
    optimizer = flambeau.optim.SparseAdam(model.parameters(), lr=0.1)
    before = model.weight.detach().clone()
    for _ in range(2):
        optimizer.zero_grad()
        model(rows()).square().sum().backward()
        optimizer.step()
    changed = (model.weight != before).any(1)
    assert changed.tolist() == [True, True, True, True, False, False]
    assert not optimizer.state[model.weight]["exp_avg"][4:].any()


def test_a_gradient_of_no_rows_changes_nothing():
    for make in (flambeau.optim.SGD, flambeau.optim.SparseAdam):
        model = table()
        before = model.weight.detach().clone()
        optimizer = make(model.parameters(), lr=0.1)
        model(flambeau.zeros(0, dtype=flambeau.int64)).sum().backward()
        optimizer.step()
        assert flambeau.equal(model.weight, before)


def test_a_gradient_with_other_sparse_dimensions_is_made_dense():
    weight = flambeau.ones(2, 2, requires_grad=True)
    weight.grad = flambeau.sparse_coo_tensor([[0], [1]], [2.0], (2, 2))
    flambeau.optim.SGD([weight], lr=0.5).step()
    assert weight.tolist() == [[1.0, 0.0], [1.0, 1.0]]
