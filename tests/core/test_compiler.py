"""Convolutions are compiled with XLA's options wherever JAX takes them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flambeau
from flambeau.core import compiler
from flambeau.func import functional_call
from flambeau.nn import functional as F

IMAGES = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)


def _jaxpr(function, *args):
    return jax.make_jaxpr(function)(*args).jaxpr


def _convolve(images, filters):
    return jax.lax.conv(images, filters, (1, 1), "SAME")


FILTERS = np.ones((2, 2, 3, 3), np.float32)


def test_a_program_without_a_convolution_has_none():
    assert not compiler.has_convolution(_jaxpr(lambda x: x @ x, FILTERS))


@pytest.mark.parametrize(
    "wrap", [lambda f: f, jax.jit, lambda f: lambda *a: jax.lax.cond(True, f, f, *a)]
)
def test_a_convolution_is_found_in_the_program_and_in_the_parts_it_calls(wrap):
    assert compiler.has_convolution(_jaxpr(wrap(_convolve), IMAGES, FILTERS))


def test_options_are_given_on_a_cpu_only(monkeypatch):
    monkeypatch.setattr(compiler, "only_cpu", lambda: False)
    assert compiler.convolution_options.__wrapped__() is None


def test_options_that_this_xla_does_not_know_are_left_out(monkeypatch):
    monkeypatch.setattr(compiler, "only_cpu", lambda: True)
    monkeypatch.setattr(compiler, "_ON_CPU", {"xla_cpu_no_such_option": "1"})
    assert compiler.convolution_options.__wrapped__() is None


def test_eager_and_within_a_traced_function_it_is_the_same_function():
    compiled = compiler.compiled_convolution(_convolve)
    eager = compiled(IMAGES, FILTERS)
    traced = jax.jit(lambda images: compiled(images, FILTERS) * 2)(IMAGES)
    np.testing.assert_allclose(traced, 2 * eager)


def test_a_layer_works_within_a_function_that_jax_traces():
    layer = flambeau.nn.Conv2d(2, 2, 3)
    expected = layer(flambeau.from_numpy(IMAGES)).detach().numpy()
    weights = dict(layer.state_dict())
    found = jax.jit(lambda weights, x: functional_call(layer, weights, x))(
        weights, flambeau.from_numpy(IMAGES)
    )
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-5)


def test_an_operator_on_known_tensors_works_within_a_function_that_jax_traces():
    images, filters = flambeau.from_numpy(IMAGES), flambeau.from_numpy(FILTERS)
    expected = F.conv2d(images, filters).jax()
    found = jax.jit(lambda scale: F.conv2d(images, filters).jax() * scale)(jnp.float32(1))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_gradients_outside_a_compiled_function_with_a_convolution():
    layer = flambeau.nn.Conv2d(2, 2, 3)
    images = flambeau.from_numpy(IMAGES)
    layer(images).sum().backward()
    expected = layer.weight.grad.numpy()
    layer.zero_grad()
    flambeau.compile(layer)(images).sum().backward()
    np.testing.assert_allclose(layer.weight.grad.numpy(), expected, rtol=1e-5)
