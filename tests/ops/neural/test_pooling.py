"""Averages over windows of different lengths."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flambeau
from flambeau.nn import functional as F
from flambeau.ops.neural.spatial import pooling


def _averages(row, outputs):
    size = len(row)
    spans = [(i * size // outputs, -(-(i + 1) * size // outputs)) for i in range(outputs)]
    return np.array([row[start:stop].mean() for start, stop in spans])


@pytest.mark.parametrize(("size", "outputs"), [(7, 3), (3, 7), (13, 9), (301, 2)])
def test_each_element_counts_in_its_own_windows_only(size, outputs):
    row = np.arange(size, dtype=np.float32)
    row[size // 2 + 1] = np.inf
    found = F.adaptive_avg_pool1d(flambeau.tensor(row)[None], outputs)[0]
    np.testing.assert_allclose(found.numpy(), _averages(row, outputs), rtol=1e-6)


@pytest.mark.parametrize(("size", "outputs"), [(7, 3), (3, 7)])
def test_gradients_of_any_order_are_those_of_the_averages(size, outputs):
    weights = np.stack([_averages(row, outputs) for row in np.eye(size)], 1)
    x = flambeau.arange(float(size))[None].requires_grad_()
    y = F.adaptive_avg_pool1d(x, outputs)
    (slope,) = flambeau.autograd.grad((y**3).sum(), x, create_graph=True)
    expected = weights.T @ (3 * y[0].detach().numpy() ** 2)
    np.testing.assert_allclose(slope[0].detach().numpy(), expected, rtol=1e-5)
    (second,) = flambeau.autograd.grad(slope.sum(), x)
    expected = weights.T @ (6 * y[0].detach().numpy() * weights.sum(1))
    np.testing.assert_allclose(second[0].numpy(), expected, rtol=1e-5)


def test_without_outputs_there_is_nothing():
    assert F.adaptive_avg_pool2d(flambeau.ones(1, 2, 5, 4), (0, 3)).shape == (1, 2, 0, 3)


def test_averages_make_no_arrays_beyond_their_windows():
    x = jax.ShapeDtypeStruct((64, 1000), jnp.float32)
    compiled = jax.jit(lambda x: pooling._averages(1, 1000, 3)((), (x,))[0]).lower(x).compile()
    assert compiled.memory_analysis().temp_size_in_bytes <= 2 * 64 * 1000 * 4
