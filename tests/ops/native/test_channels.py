"""Batch norm by native kernels computes what XLA's operator computes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flambeau.core.devices.native import native_kernels
from flambeau.ops.native import channels as native
from flambeau.ops.neural.normalization import batch_norm

pytestmark = pytest.mark.skipif(
    "flambeau_standardize_channels" not in native_kernels() or jax.device_count() > 1,
    reason="the native kernels are not installed, or several devices share a batch",
)

RNG = np.random.default_rng(0)
INPUT = RNG.standard_normal((3, 4, 37), dtype=np.float32)
WEIGHT, BIAS = RNG.standard_normal((2, 4), dtype=np.float32)
MEAN, VARIANCE = np.float32([1, 2, 3, 4]), np.float32([0.5, 1, 2, 3])


def normalize(x, weight=WEIGHT, bias=BIAS, mean=None, variance=None):
    return batch_norm.op.function(x, mean, variance, weight, bias, True, 0.1, 1e-5)


@pytest.fixture(autouse=True)
def also_small_arrays(monkeypatch):
    monkeypatch.setattr(native, "_FEWEST_ELEMENTS", 1)


def _close(found, expected, tolerance=1e-5):
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def _both(monkeypatch, compute, *arrays):
    """The results by the kernels, and by XLA."""
    program = jax.jit(lambda *each: compute(*each))
    assert "custom_call @flambeau_standardize_channels" in program.lower(*arrays).as_text()
    found = program(*arrays)
    monkeypatch.setattr(native, "takes", lambda *_: False)
    return found, jax.jit(lambda *each: compute(*each))(*arrays)


@pytest.mark.parametrize("weight", [WEIGHT, None])
@pytest.mark.parametrize("bias", [BIAS, None])
def test_derivatives_of_first_and_second_order(monkeypatch, weight, bias):
    def compute(x):
        def loss(x):
            return jnp.sum(jnp.sin(normalize(x, weight, bias)))

        slope = jax.grad(loss)
        moved = jax.jvp(slope, (x,), (jnp.cos(x),))
        return normalize(x, weight, bias), *moved, jax.grad(lambda x: jnp.sum(slope(x) ** 2))(x)

    _close(*_both(monkeypatch, compute, INPUT), 1e-4)


def test_gradients_of_weight_and_bias(monkeypatch):
    def compute(*arrays):
        return jax.grad(lambda *each: jnp.sum(jnp.sin(normalize(*each))), (0, 1, 2))(*arrays)

    _close(*_both(monkeypatch, compute, INPUT, WEIGHT, BIAS))


def test_running_statistics_take_the_moments_and_no_gradient(monkeypatch):
    def compute(x):
        def loss(x):
            output, *running = normalize(x, mean=MEAN, variance=VARIANCE)
            return sum(map(jnp.sum, running)), (output, *running)

        return jax.grad(loss, has_aux=True)(x)

    found, expected = _both(monkeypatch, compute, INPUT)
    _close(found, expected)
    assert not found[0].any()


@pytest.mark.parametrize("shape", [(2, 5, 1000), (1, 4, 64, 70), (40, 32, 16), (3, 2, 4100)])
@pytest.mark.parametrize("far", [0, 30])
def test_results_are_those_of_the_formula_in_double_precision(shape, far):
    rng = np.random.default_rng(sum(shape))
    x, move = rng.standard_normal((2, *shape)) + 0.5
    # The first sample may be far from the others.
    x[0] += far
    weight, bias = rng.standard_normal((2, shape[1]))
    x = x.astype(np.float32).astype(np.float64)
    axes = (0, *range(2, len(shape)))

    def formula(x, weight, bias):
        centered = x - x.mean(axes, keepdims=True)
        found = centered / jnp.sqrt(jnp.square(centered).mean(axes, keepdims=True) + 1e-5)
        vectors = (each.reshape(-1, *[1] * (len(shape) - 2)) for each in (weight, bias))
        return found * next(vectors) + next(vectors)

    with jax.enable_x64(True):
        results, pull = jax.vjp(formula, *map(jnp.asarray, (x, weight, bias)))
        expected = jax.tree.map(np.asarray, (results, *pull(jnp.asarray(move))))
    arrays = (jnp.asarray(each, jnp.float32) for each in (x, weight, bias))
    results, pull = jax.vjp(normalize, *arrays)
    for ours, theirs in zip(
        (results, *pull(jnp.asarray(move, jnp.float32))), expected, strict=True
    ):
        scale = np.abs(theirs).max()
        np.testing.assert_allclose(ours / scale, theirs / scale, atol=3e-5)


def test_batches(monkeypatch):
    def compute(x):
        return jax.vmap(jax.value_and_grad(lambda x: jnp.sum(jnp.sin(normalize(x)))))(x)

    stacked = np.stack([INPUT, np.cos(INPUT)])
    found = compute(stacked)
    monkeypatch.setattr(native, "takes", lambda *_: False)
    _close(found, compute(stacked))


def test_nan_and_infinite_elements_spread_as_elsewhere(monkeypatch):
    x = INPUT.copy()
    x[0, 0, 3] = np.nan
    x[1, 1, 36] = np.inf
    x[0, 2] = 1e30
    found, expected = _both(monkeypatch, normalize, x)
    _close(found, expected)
    assert np.isnan(found[:, :2]).all()


def test_equal_elements_have_variance_0():
    x = np.full((2, 4, 4100), 3.3, np.float32)
    output, _, variance = normalize(x, mean=MEAN, variance=VARIANCE)
    np.testing.assert_allclose(output, np.broadcast_to(BIAS[:, None], x.shape), atol=1e-3)
    np.testing.assert_allclose(variance, 0.9 * VARIANCE, rtol=1e-5)


def test_other_arrays_are_left_to_xla(monkeypatch):
    assert native.takes(jnp.ones((4, 3, 37), jnp.float32))
    assert not native.takes(jnp.ones((4, 3, 15), jnp.float32))
    assert not native.takes(jnp.ones((4, 3, 37), jnp.bfloat16))
    monkeypatch.undo()
    assert not native.takes(jnp.ones((4, 3, 37), jnp.float32))
    assert normalize(jnp.ones((0, 4, 37), jnp.float32)).shape == (0, 4, 37)


@pytest.mark.parametrize(
    ("shape", "channels", "message"),
    [
        ((2, 6, 15), 6, "size of at least 16"),
        ((2, 6), 6, r"\(samples, channels, size\)"),
        ((2, 6, 20), 5, r"6 channels, got \[5\]"),
    ],
)
def test_a_call_whose_shapes_do_not_fit_is_refused(shape, channels, message):
    vector = jax.ShapeDtypeStruct((channels,), jnp.float32)
    array = jax.ShapeDtypeStruct(shape, jnp.float32)
    call = jax.ffi.ffi_call("flambeau_standardize_channels", (array, vector, vector))
    given = (jnp.ones(each.shape, jnp.float32) for each in (array, vector, vector))
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.block_until_ready(call(*given, epsilon=np.float32(1e-5)))
