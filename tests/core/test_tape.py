"""Nodes: their edges, what they save, and the end of the tape at a leaf."""

from __future__ import annotations

import gc
import weakref

import jax
import pytest

import flambeau
from flambeau.core.tape import nodes as tape
from flambeau.core.tape.node import Node

pytestmark = pytest.mark.usefixtures("young_heap")


def leaf(*values):
    return flambeau.tensor(values or (1.0, 2.0), requires_grad=True)


def test_a_node_of_a_linear_operator_keeps_no_arrays_of_its_inputs():
    node = (leaf() + leaf()).grad_fn
    assert not any(isinstance(each, jax.Array) for each in node.arrays)


def test_a_node_of_another_operator_keeps_the_arrays_of_its_inputs():
    x = leaf()
    assert (x * x).grad_fn.arrays[0] is x.jax()


def test_backward_frees_what_was_saved():
    y = leaf() * leaf()
    y.sum().backward()
    assert y.grad_fn.arrays is None


def test_retain_graph_keeps_what_was_saved():
    y = leaf() * leaf()
    y.sum().backward(retain_graph=True)
    assert y.grad_fn.arrays is not None


def test_a_write_in_place_does_not_touch_what_was_saved():
    x = leaf()
    y = x * 3
    z = y * y
    with flambeau.no_grad():
        y.zero_()
    z.sum().backward()
    assert x.grad.tolist() == [18.0, 36.0]


def test_a_leaf_and_its_accumulator_do_not_keep_one_another_alive():
    x = leaf()
    y = x * 2
    accumulator = weakref.ref(y.grad_fn.next_functions[0][0])
    del y
    gc.collect()
    assert accumulator() is None


def test_a_graph_keeps_its_leaves_alive():
    x = leaf()
    x.register_hook(lambda grad: seen.append(grad.tolist()))
    seen = []
    y = (x * 2).sum()
    del x
    gc.collect()
    y.backward()
    assert seen == [[2.0, 2.0]]


def test_a_graph_is_freed_with_its_last_tensor():
    x = leaf()
    y = x * 2
    node = weakref.ref(y.grad_fn)
    gc.disable()
    try:
        del y
        assert node() is None
    finally:
        gc.enable()


def test_a_long_chain_runs_and_is_freed():
    x = flambeau.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y + 1
    y.backward()
    assert x.grad.item() == 1.0
    del y


def test_the_edge_of_a_tensor_without_grad_is_none():
    assert tape.edge_of(flambeau.ones(2)) is None


def test_the_edge_of_a_leaf_leads_to_one_accumulator():
    x = leaf()
    (first, number), (second, _) = tape.edge_of(x), tape.edge_of(x)
    assert first is second
    assert (type(first).__name__, number) == ("AccumulateGrad", 0)


def test_an_identity_node_sees_all_cotangents_at_once():
    x, w = leaf(), leaf(3.0, 4.0)
    (a, b), node = tape.identity_node((x, w))
    seen = []
    node.register_hook(lambda into, out: seen.append([each.tolist() for each in into]))
    (a * b).sum().backward()
    assert seen == [[[3.0, 4.0], [1.0, 2.0]]]
    assert x.grad.tolist() == [3.0, 4.0]


def test_a_node_prints_as_pytorchs():
    assert repr((leaf() * 2).grad_fn).startswith("<MulBackward0 object at 0x")


def test_a_node_without_a_gradient_says_so():
    class Bare(Node):
        __slots__ = ()

    with pytest.raises(NotImplementedError, match="Bare"):
        Bare(())(flambeau.ones(1))


def test_the_gradient_of_a_gradient_leads_only_to_what_it_depends_on():
    x, w = leaf(), leaf(3.0, 4.0)
    (by_x,) = flambeau.autograd.grad((x * w).sum(), x, create_graph=True)
    targets = [node for node, _ in by_x.grad_fn.next_functions if node is not None]
    assert [each.variable for each in targets if each.accumulates] == [w]


def test_a_gradient_cannot_stay_in_a_tensor_outside_a_transformation():
    w = leaf()

    def loss(x):
        (flambeau.from_jax(x) * w).sum().backward()
        return x

    with pytest.raises(RuntimeError, match=r"outside.*autograd\.grad"):
        jax.vmap(loss)(jax.numpy.ones((3, 2), "float32"))
    assert w.grad is None


def test_gradients_on_the_meta_device_have_shapes():
    weight = flambeau.ones(2, 3, device="meta", requires_grad=True)
    y = flambeau.ones(4, 3, device="meta") @ weight.T
    (y * y).sum().backward()
    assert weight.grad.is_meta
    assert weight.grad.shape == (2, 3)


def test_gradients_on_the_meta_device_accumulate():
    x = flambeau.ones(2, device="meta", requires_grad=True)
    (x * 2 + x * 3).sum().backward()
    (x * 2).sum().backward()
    assert x.grad.is_meta


def test_a_leaf_that_has_become_a_result_takes_no_gradient_for_its_old_value() -> None:
    leaf = flambeau.ones(2, requires_grad=True)
    used = leaf.exp()
    leaf.detach_()
    leaf.copy_(flambeau.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="moved into the graph interior"):
        used.sum().backward()
    assert leaf._grad is None
