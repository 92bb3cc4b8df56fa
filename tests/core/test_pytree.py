"""Tensors as nodes of JAX's trees."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import flambeau
from flambeau import nn


def test_a_tensor_has_its_array_as_leaf():
    x = flambeau.ones(2)
    assert jax.tree.leaves({"a": x})[0] is x.jax()


def test_jit_takes_and_gives_tensors():
    found = jax.jit(lambda x: x * 2 + 1)(flambeau.tensor([1.0, 2.0]))
    assert isinstance(found, flambeau.Tensor)
    assert found.tolist() == [3.0, 5.0]


def test_vmap_takes_and_gives_tensors():
    found = jax.vmap(lambda x: x.sum())(flambeau.ones(3, 2))
    assert found.tolist() == [2.0, 2.0, 2.0]


def test_grad_by_a_tensor_gives_a_tensor():
    found = jax.grad(lambda x: (x * x).sum().jax())(flambeau.tensor([1.0, 2.0]))
    assert found.tolist() == [2.0, 4.0]


def test_a_view_is_read():
    x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert np.asarray(jax.tree.leaves(x[1])[0]).tolist() == [3.0, 4.0]


def test_parameters_stay_parameters_and_their_flag_too():
    layer = nn.Linear(2, 1)
    layer.bias.requires_grad_(False)
    doubled = jax.tree.map(lambda array: array * 2, dict(layer.named_parameters()))
    assert {type(each) for each in doubled.values()} == {nn.Parameter}
    assert {name: each.requires_grad for name, each in doubled.items()} == {
        "weight": True,
        "bias": False,
    }
    assert doubled["weight"].tolist() == (layer.weight * 2).tolist()


def test_results_of_recorded_operators_become_leaves():
    x = flambeau.ones(2, requires_grad=True)
    again = jax.tree.map(lambda array: array, x * 2)
    assert again.is_leaf
    assert not again.requires_grad


def test_subclasses_are_nodes_too():
    class Sub(flambeau.Tensor):
        pass

    found = jax.tree.map(lambda array: array + 1, flambeau.ones(1).as_subclass(Sub))
    assert type(found) is Sub
    assert found.item() == 2.0


def test_scan_carries_tensors():
    def step(carry, x):
        carry = carry + x
        return carry, carry * 2

    total, doubled = jax.lax.scan(step, flambeau.zeros(()), flambeau.tensor([1.0, 2.0, 3.0]))
    assert total.item() == 6.0
    assert doubled.tolist() == [2.0, 6.0, 12.0]


def test_shapes_can_be_evaluated():
    found = jax.eval_shape(lambda x: x @ x.T, flambeau.ones(2, 3))
    assert found.shape == (2, 2)
    assert found.is_meta
    assert isinstance(jax.tree.leaves(found)[0], jax.ShapeDtypeStruct)


def test_a_tensor_on_the_meta_device_is_its_own_shape():
    (leaf,) = jax.tree.leaves(flambeau.ones(2, device="meta"))
    assert leaf.dtype == jnp.float32


def test_plain_values_take_the_place_of_tensors():
    state = dict(nn.Linear(2, 1).state_dict())
    shapes = {"weight": (1, 2), "bias": (1,)}
    assert jax.tree.map(lambda array: array.shape, state) == shapes
    assert jax.tree.map(lambda array: array.ndim, state) == {"weight": 2, "bias": 1}
    assert type(jax.device_get(state)["weight"]) is np.ndarray
    run = flambeau.compile(lambda x: (jax.tree.map(lambda array: array.shape, state), x * 2))
    assert run(flambeau.ones(2))[0] == shapes
