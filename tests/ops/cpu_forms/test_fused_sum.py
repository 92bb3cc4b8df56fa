"""Sums that are computed together with their terms."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flambeau.ops.cpu_forms.fused_sum import fused_row_sums, fused_sum


@pytest.mark.parametrize("size", [0, 5, 32, 70])
def test_the_sum_and_its_gradient(size):
    array = np.random.default_rng(0).standard_normal((2, size, 3)).astype(np.float32)
    result, pull = jax.vjp(lambda x: fused_sum(x, 1), array)
    np.testing.assert_allclose(result, array.sum(1), rtol=1e-5, atol=1e-5)
    (gradient,) = pull(jnp.cos(result))
    np.testing.assert_allclose(gradient, np.broadcast_to(jnp.cos(result)[:, None], array.shape))


@pytest.mark.parametrize("size", [24, 56, 64])
def test_the_terms_are_not_stored(size):
    arrays = [jax.ShapeDtypeStruct((4, 16, size, 64), jnp.float32)] * 2
    compiled = jax.jit(lambda a, b: fused_sum(a * b, 2)).lower(*arrays).compile()
    # A line for each block and not a number for each term.
    assert compiled.memory_analysis().temp_size_in_bytes < 4 * 16 * 4 * 64 * 4


@pytest.mark.parametrize("shape", [(2, 96), (3, 7), (2, 3, 4096)])
def test_sums_of_rows_and_their_gradients(shape):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for _ in range(2)]
    results, pull = jax.vjp(fused_row_sums, *arrays)
    for result, array in zip(results, arrays, strict=True):
        np.testing.assert_allclose(result, array.sum(-1), rtol=1e-4, atol=1e-4)
    for gradient, result in zip(pull(results), results, strict=True):
        np.testing.assert_allclose(gradient, np.broadcast_to(result[..., None], shape))
