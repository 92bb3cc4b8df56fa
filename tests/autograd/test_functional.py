"""`autograd.functional`: its errors and laws; the rest is compared with PyTorch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import flambeau
from flambeau.autograd import functional


def cube(x):
    return x * x * x


def vector(*values):
    return flambeau.tensor(values or (1.0, 2.0, 3.0))


def test_the_jacobian_is_jaxs():
    def function(x):
        return x.reshape(3, 1) * x[:2].exp()

    x = vector()
    expected = jax.jacobian(lambda array: function(flambeau.from_jax(array)).jax())(x.jax())
    for options in ({}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}):
        found = functional.jacobian(function, x, **options)
        assert jnp.allclose(found.jax(), expected)


def test_a_jacobian_of_nothing_is_empty():
    assert functional.jacobian(lambda x: x[:0], vector()).shape == (0, 3)


def test_an_unknown_strategy_is_named():
    with pytest.raises(ValueError, match="sideways"):
        functional.jacobian(cube, vector(), strategy="sideways")


def test_inputs_are_left_alone():
    x = vector().requires_grad_()
    functional.hessian(lambda x: cube(x).sum(), x)
    assert x.grad is None
    assert x.is_leaf


def test_what_is_no_tensor_is_named_with_its_place():
    with pytest.raises(TypeError, match=r"entry 1 of the inputs.*int"):
        functional.jacobian(cube, (vector(), 3))


def test_vectors_of_another_shape_are_named():
    with pytest.raises(RuntimeError, match=r"vector 0 of vjp\(\).*\[2\].*\[3\]"):
        functional.vjp(cube, vector(), vector(1.0, 2.0))


def test_a_product_needs_vectors():
    with pytest.raises(RuntimeError, match=r"jvp\(\) needs vectors"):
        functional.jvp(cube, vector())


def test_hessian_products_need_a_scalar():
    with pytest.raises(RuntimeError, match=r"\[3\]"):
        functional.vhp(cube, vector(), vector())


def test_products_equal_the_matrix():
    x, v = vector(), vector(1.0, -1.0, 0.5)
    matrix = functional.jacobian(cube, x)
    assert (functional.jvp(cube, x, v)[1] - matrix @ v).abs().max() < 1e-6
    assert (functional.vjp(cube, x, v)[1] - v @ matrix).abs().max() < 1e-6


def test_the_hessian_of_a_square_root_is_symmetric():
    def function(x):
        return (x * x).sum().sqrt()

    found = functional.hessian(function, vector())
    assert (found - found.T).abs().max() < 1e-6
    v = vector(1.0, 0.0, 2.0)
    assert (functional.hvp(function, vector(), v)[1] - found @ v).abs().max() < 1e-6
