"""Nodes, edges and hooks on groups; the rest is compared with PyTorch."""

from __future__ import annotations

import pytest

import flambeau
from flambeau.autograd.graph import (
    GradientEdge,
    get_gradient_edge,
    increment_version,
    register_multi_grad_hook,
)


def leaf(*values):
    return flambeau.tensor(values or (1.0, 2.0), requires_grad=True)


def test_an_edge_keeps_the_graph_but_not_the_elements():
    x = leaf()
    edge = get_gradient_edge(x * 2)
    assert isinstance(edge, GradientEdge)
    (found,) = flambeau.autograd.grad(edge, x, flambeau.ones(2))
    assert found.tolist() == [2.0, 2.0]


def test_an_unused_edge_is_described_by_its_node():
    x = leaf()
    with pytest.raises(RuntimeError, match="output 0 of MulBackward0"):
        flambeau.autograd.grad(x.sum(), get_gradient_edge(leaf() * 2))


def test_the_shape_of_what_has_no_edge_is_named():
    with pytest.raises(RuntimeError, match=r"\[2\]"):
        get_gradient_edge(flambeau.ones(2))


def test_versions_are_counted_without_a_write():
    x, y = flambeau.ones(2), flambeau.ones(2)
    increment_version([x, y])
    increment_version(x)
    assert (x._version, y._version) == (2, 1)
    assert x.tolist() == [1.0, 1.0]


def test_versions_of_inference_tensors_are_not_counted():
    x = flambeau.ones(2)
    with flambeau.inference_mode():
        inference = flambeau.ones(2)
    with pytest.raises(RuntimeError, match="inference"):
        increment_version([x, inference])
    assert x._version == 0


def test_a_group_without_gradients_is_never_called():
    x, seen = leaf(), []
    handle = register_multi_grad_hook((flambeau.ones(2),), seen.append)
    x.sum().backward()
    assert seen == []
    assert handle.handles == ()


def test_a_group_is_called_by_grad_too():
    x, w, seen = leaf(), leaf(), []
    with register_multi_grad_hook((x, w), lambda grads: seen.append(len(grads))):
        flambeau.autograd.grad((x * w).sum(), [x, w])
    flambeau.autograd.grad((x * w).sum(), [x, w])
    assert seen == [2]


def test_two_backwards_at_once_do_not_mix_their_gradients():
    x, w, seen = leaf(), leaf(3.0, 4.0), []
    y = (x * w).sum()

    def inner(grad):
        if not inner.ran:
            inner.ran = True
            with flambeau.enable_grad():
                (x * w * 10).sum().backward()

    inner.ran = False
    x.register_hook(inner)
    register_multi_grad_hook((x, w), lambda grads: seen.append([g.tolist() for g in grads]))
    y.backward()
    assert seen == [[[30.0, 40.0], [10.0, 20.0]], [[3.0, 4.0], [1.0, 2.0]]]
