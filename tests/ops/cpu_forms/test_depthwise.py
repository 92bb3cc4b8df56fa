"""Convolutions in which each channel has a filter of its own; values are in `test_convolutions`."""

import jax
import jax.numpy as jnp
import pytest

from flambeau.ops.cpu_forms.depthwise import Geometry, depthwise


def operations(function, *arguments):
    return jax.jit(function).lower(*arguments).compile().cost_analysis()["flops"]


@pytest.mark.parametrize(
    "geometry",
    [
        Geometry((2, 8, 12, 12), (8, 5, 5), (8, 8), (1, 1), (1, 1)),
        Geometry((2, 8, 12, 12), (8, 3, 3), (10, 10), (1, 1), (1, 1)),
        Geometry((2, 8, 40), (8, 9), (32,), (1,), (1,)),
    ],
    ids=["five by five", "three by three", "a line"],
)
def test_the_gradient_of_filters_computes_the_forward_once(geometry):
    input, filters = jnp.ones(geometry.left), jnp.ones(geometry.right)

    def forward(filters, input):
        return depthwise(input, filters, geometry)

    def loss(filters, input):
        return jnp.sum(jnp.maximum(forward(filters, input), 0) ** 2)

    once = operations(forward, filters, input)
    assert operations(jax.grad(loss), filters, input) < 4 * once
