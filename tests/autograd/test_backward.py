"""`backward` and `grad`: what is this library's own; the rest is compared with PyTorch."""

from __future__ import annotations

import copy

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flambeau
from flambeau.autograd import backward, grad


def leaf(*values, **options):
    return flambeau.tensor(values or (1.0, 2.0), requires_grad=True, **options)


def test_the_gradient_that_is_missing_is_asked_for_with_the_shape():
    with pytest.raises(RuntimeError, match=r"\[2\].*pass its gradient"):
        (leaf() * 2).backward()


def test_the_number_of_gradients_must_fit():
    x = leaf()
    with pytest.raises(RuntimeError, match="2 tensors and 1 gradients"):
        backward([x.sum(), x.sum()], [flambeau.ones(())])


def test_what_is_differentiated_must_be_a_tensor():
    with pytest.raises(TypeError, match="str"):
        backward(["loss"])


def test_a_freed_graph_names_the_node_and_the_way_out():
    y = (leaf() * leaf()).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"MulBackward0.*retain_graph=True"):
        y.backward()


def test_a_leaf_written_after_the_forward_is_differentiated_as_it_was():
    x = leaf()
    y = (x * x).sum()
    with flambeau.no_grad():
        x.mul_(100)
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_batched_cotangents_can_be_recorded():
    x = leaf()
    (rows,) = grad(x**3, x, flambeau.eye(2), is_grads_batched=True, create_graph=True)
    rows.sum().backward()
    assert rows.tolist() == [[3.0, 0.0], [0.0, 12.0]]
    assert x.grad.tolist() == [6.0, 12.0]


def test_batched_cotangents_run_each_node_once():
    x = leaf()
    calls = []
    x.register_hook(lambda rows: calls.append(rows.shape))
    grad(x * x, x, flambeau.eye(2), is_grads_batched=True)
    assert len(calls) == 1


def test_batched_cotangents_need_some():
    x = leaf()
    with pytest.raises(RuntimeError, match="batch dimension"):
        grad(x.sum(), x, is_grads_batched=True)


def test_zeros_for_unused_inputs_on_the_meta_device():
    x = flambeau.ones(2, requires_grad=True)
    unused = flambeau.ones(3, device="meta", requires_grad=True)
    _, zeros = grad(x.sum(), [x, unused], materialize_grads=True)
    assert zeros.is_meta
    assert zeros.shape == (3,)


def test_an_edge_has_no_implicit_gradient():
    edge = flambeau.autograd.graph.get_gradient_edge(leaf().sum())
    with pytest.raises(RuntimeError, match="pass it"):
        backward(edge)


def test_backward_runs_inside_jit():
    def gradient(array):
        x = flambeau.from_jax(array).requires_grad_()
        (x**3).sum().backward()
        return x.grad.jax()

    assert jax.jit(gradient)(jax.numpy.asarray([1.0, 2.0])).tolist() == [3.0, 12.0]


FUNCTIONS = {
    "exp": lambda x: x.exp(),
    "tanh": lambda x: x.tanh(),
    "product": lambda x: x[0] * x[1] * x,
    "quotient": lambda x: x / (1 + x * x),
    "sum": lambda x: x.sum() * x,
    "matrix": lambda x: x.reshape(3, 1) @ x.reshape(1, 3),
    "slice": lambda x: x[1:] * x[:2],
    "softmax": lambda x: x.softmax(0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@given(st.lists(st.floats(-2, 2), min_size=3, max_size=3))
def test_gradients_equal_finite_differences(name, values):
    x = leaf(*values, dtype=flambeau.float64)
    assert flambeau.autograd.gradcheck(FUNCTIONS[name], x, fast_mode=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_equal_those_of_jax(name):
    function = FUNCTIONS[name]
    array = jax.numpy.asarray([0.3, -0.7, 1.1])
    x = flambeau.from_jax(array).requires_grad_()
    function(x).sum().backward()
    expected = jax.grad(lambda array: function(flambeau.from_jax(array)).sum().jax())(array)
    assert jax.numpy.allclose(x.grad.jax(), expected)


def test_a_compiled_function_follows_grad_dtype():
    x = leaf()

    @flambeau.compile
    def gradient():
        x.grad = None
        (x * x).sum().backward()
        return x.grad

    found = [gradient().dtype]
    for dtype in (flambeau.float64, flambeau.float32):
        x.grad = None
        x.grad_dtype = dtype
        found.append(gradient().dtype)
    assert found == [flambeau.float32, flambeau.float64, flambeau.float32]


def test_grad_dtype_cannot_be_set_in_a_compiled_function():
    x = leaf()

    @flambeau.compile(fullgraph=True)
    def change():
        x.grad_dtype = flambeau.float64

    with pytest.raises(RuntimeError, match="set it before"):
        change()


def test_a_copy_keeps_grad_dtype():
    x = leaf()
    x.grad_dtype = flambeau.float64
    (x * 2).sum().backward()
    made = copy.deepcopy(x)
    assert (made.grad_dtype, made.grad.dtype) == (flambeau.float64, flambeau.float64)


def test_grad_dtype_on_meta():
    x = leaf(device="meta")
    x.grad_dtype = flambeau.float64
    (x * 2).sum().backward()
    assert (x.grad.dtype, x.grad.is_meta) == (flambeau.float64, True)


def test_a_gradient_of_another_shape_than_the_leafs_is_refused():
    x = flambeau.ones(2, 3, requires_grad=True)
    x.sum().backward()
    with flambeau.no_grad():
        x.t_()
    with pytest.raises(RuntimeError, match=r"shape \[3, 2\].*must match"):
        x.sum().backward()
    assert x.grad.shape == (2, 3)
