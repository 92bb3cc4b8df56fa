"""The three maps of a convolution channel by channel are each other's gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flambeau.ops.cpu_forms.depthwise import Geometry, depthwise

rng = np.random.default_rng(0)
GEOMETRY = Geometry((2, 3, 7, 8), (3, 3, 2), (3, 6), (2, 1), (1, 2))
INPUT, FILTERS = rng.standard_normal(GEOMETRY.left), rng.standard_normal(GEOMETRY.right)


def product(input, filters):
    return depthwise(input, filters, GEOMETRY)


def plain(input, filters):
    flat = filters.reshape(filters.shape[0], -1)
    places = enumerate(GEOMETRY.taps(input))
    return sum(each * flat[:, place, None, None] for place, each in places)


def loss(function):
    return lambda input, filters: jnp.sum(jnp.sin(function(input, filters)))


DERIVATIVES = {
    "value": lambda function: function,
    "gradients": lambda function: jax.grad(loss(function), (0, 1)),
    "forward": lambda function: jax.jacfwd(function, 1),
    "gradients of gradients": lambda function: jax.grad(
        lambda *given: sum(jnp.sum(each**3) for each in jax.grad(loss(function), (0, 1))(*given)),
        (0, 1),
    ),
    "hessian": lambda function: jax.hessian(loss(function), 1),
    "one filter for each sample": lambda function: (
        lambda input, filters: jax.vmap(jax.grad(loss(function), (0, 1)), (None, 0))(
            input, jnp.stack([filters, 2 * filters])
        )
    ),
    "gradients of a batch": lambda function: jax.grad(
        lambda input, filters: jnp.sum(
            jax.vmap(loss(function), (0, None))(jnp.stack([input, -input]), filters) ** 2
        ),
        (0, 1),
    ),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_are_those_of_a_sum_over_the_filter(name):
    derivative = DERIVATIVES[name]
    found = jax.jit(derivative(product))(INPUT, FILTERS)
    expected = jax.jit(derivative(plain))(INPUT, FILTERS)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_it_runs_without_jit():
    np.testing.assert_allclose(product(INPUT, FILTERS), plain(INPUT, FILTERS), atol=1e-12)
