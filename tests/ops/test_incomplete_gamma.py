"""The incomplete gamma functions where a plain series would be inexact, or would not end."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau

# (order, end, the lower function), the latter computed with 30 digits by mpmath.
GREAT = [
    (1e6, 994000.0, 9.17890026230202342188660084745e-10),
    (1e6, 1e6, 0.500132980760872591244322817503),
    (2e6, 2005000.0, 0.999794429733630692174397105370),
]


@pytest.mark.parametrize(("order", "end", "expected"), GREAT)
def test_great_orders_are_as_accurate_as_small_ones(order, end, expected):
    for dtype, rtol in ((flambeau.float64, 1e-11), (flambeau.float32, 3e-6)):
        given = flambeau.tensor([order, end], dtype=dtype)
        lower, upper = flambeau.igamma(given[0], given[1]), flambeau.igammac(given[0], given[1])
        np.testing.assert_allclose(lower.item(), expected, rtol=rtol)
        np.testing.assert_allclose(upper.item(), 1 - expected, rtol=rtol)


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64])
def test_the_greatest_and_the_least_orders_end(dtype):
    limits = flambeau.finfo(dtype)
    order = flambeau.tensor([limits.max, limits.tiny], dtype=dtype)
    end = flambeau.tensor([limits.max, 0.5], dtype=dtype)
    assert flambeau.igamma(order, end).tolist() == [0.5, 1.0]
    assert flambeau.igammac(order, end).tolist() == [0.5, 0.0]


def test_the_gradient_is_the_density_at_the_ends_too():
    order = flambeau.tensor([0.5, 1.0, 2.0, 2.0, 400.0])
    end = flambeau.tensor([0.0, 0.0, 0.0, math.inf, 400.0], requires_grad=True)
    flambeau.igamma(order, end).sum().backward()
    density = math.exp(399 * math.log(400) - 400 - math.lgamma(400))
    np.testing.assert_allclose(end.grad, [math.inf, 1.0, 0.0, 0.0, density], rtol=1e-5)


def test_the_derivative_by_a_great_order_is_the_difference_quotient():
    order = flambeau.tensor([150000.0], dtype=flambeau.float64, requires_grad=True)
    end = flambeau.tensor([150200.0], dtype=flambeau.float64)
    flambeau.igamma(order, end).sum().backward()
    with flambeau.no_grad():
        beside = flambeau.igamma(order + 1, end) - flambeau.igamma(order - 1, end)
    np.testing.assert_allclose(order.grad, beside / 2, rtol=1e-5)
