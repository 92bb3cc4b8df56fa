"""A linear map with a transpose of its own is to JAX like any other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flambeau.core.devices.compiler import cpu_forms
from flambeau.ops.cpu_forms.linear_maps import LinearMap

rng = np.random.default_rng(0)
SCALE, FIRST, SECOND = (rng.standard_normal(3) for _ in range(3))
transposed = []


def scaled(fixed, linear):
    (scale,), (first, second) = fixed, linear
    moved = jnp.sin(scale) * (first if second is None else first - second)
    return moved, 2 * moved[:1]


def transpose_of_scaled(fixed, cotangents):
    transposed.append(cotangents)
    cotangent, of_first = cotangents
    product = jnp.sin(fixed[0]) * cotangent.at[:1].add(2 * of_first)
    return product, -product


by_hand = LinearMap(scaled, transpose_of_scaled)


def plain(fixed, linear):
    return scaled(fixed, linear)


def total(function, scale, first, second):
    moved, begun = function((scale,), (first, second))
    return jnp.sum(jnp.exp(moved)) + jnp.sin(begun[0])


def gradient(function, *args):
    return jax.grad(lambda *x: total(function, *x), (0, 1, 2))(*args)


DERIVATIVES = {
    "value": lambda function: function((SCALE,), (FIRST, SECOND)),
    "gradient": lambda function: gradient(function, SCALE, FIRST, SECOND),
    "forward": lambda function: jax.jacfwd(lambda *x: total(function, *x), (0, 1, 2))(
        SCALE, FIRST, SECOND
    ),
    "hessian": lambda function: jax.hessian(lambda *x: total(function, *x), (0, 1, 2))(
        SCALE, FIRST, SECOND
    ),
    "reverse twice": lambda function: jax.jacrev(lambda *x: gradient(function, *x), (0, 1, 2))(
        SCALE, FIRST, SECOND
    ),
    "batched": lambda function: jax.vmap(
        lambda scale, first: gradient(function, scale, first, SECOND), (None, 0)
    )(SCALE, np.stack([FIRST, SECOND])),
    "only one": lambda function: jax.grad(
        lambda first: jnp.sum(function((SCALE,), (first, None))[1] ** 2)
    )(FIRST),
}


@pytest.mark.parametrize("derivative", DERIVATIVES)
def test_derivatives_are_those_of_the_map(derivative):
    found, expected = (jax.tree.leaves(DERIVATIVES[derivative](each)) for each in (by_hand, plain))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_gradient_on_a_cpu_takes_the_transpose_that_was_given():
    transposed.clear()
    jax.jit(lambda *x: gradient(by_hand, *x))(SCALE, FIRST, SECOND + 1)
    assert bool(transposed) == cpu_forms()
