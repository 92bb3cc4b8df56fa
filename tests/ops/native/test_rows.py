"""Softmax and normalization of rows by native kernels compute what XLA's operators compute."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flambeau.core.devices.native import native_kernels
from flambeau.ops.native import rows as native
from flambeau.ops.neural.normalization import group_norm, instance_norm, layer_norm
from flambeau.ops.neural.softmax import log_softmax, softmax
from flambeau.ops.reductions.cumulative import cumsum

pytestmark = pytest.mark.skipif(
    "flambeau_standardize_groups" not in native_kernels(),
    reason="the native kernels are not installed; `make kernels` builds them",
)

RNG = np.random.default_rng(0)
INFINITY = np.float32("inf")
INPUT = RNG.standard_normal((3, 5, 37), dtype=np.float32)
WEIGHT, BIAS = RNG.standard_normal((2, 37), dtype=np.float32)


def _channels(x):
    """Rows as samples ``(N, 4, 37)``."""
    rows = x.reshape(-1, 37)
    return jnp.stack([rows, jnp.sin(rows), 3 * rows + 1, -rows], 1)


FUNCTIONS = {
    "cumsum": lambda x: cumsum.op.function(x, -1, dtype=None),
    "softmax": lambda x: softmax.op.function(x, -1, None),
    "log_softmax": lambda x: log_softmax.op.function(x, -1, None),
    "layer_norm": lambda x: layer_norm.op.function(x, (37,), WEIGHT, BIAS, 1e-5),
    "layer_norm, no bias": lambda x: layer_norm.op.function(x, (37,), WEIGHT, None, 1e-5),
    "layer_norm, plain": lambda x: layer_norm.op.function(x, (37,), None, None, 1e-5),
    "group_norm": lambda x: group_norm.op.function(_channels(x), 2, WEIGHT[:4], BIAS[:4], 1e-5),
    "group_norm, plain": lambda x: group_norm.op.function(_channels(x), 1, None, None, 1e-5),
    "instance_norm": lambda x: instance_norm.op.function(
        _channels(x), None, None, WEIGHT[:4], None, True, 0.1, 1e-5
    ),
}


@pytest.fixture(autouse=True)
def also_small_arrays(monkeypatch):
    monkeypatch.setattr(native, "_FEWEST_ELEMENTS", 1)


def _close(found, expected, tolerance=1e-5):
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        scale = np.abs(theirs, where=np.isfinite(theirs), out=np.ones(theirs.shape)).max(initial=1)
        np.testing.assert_allclose(ours / scale, theirs / scale, atol=tolerance)


def _both(monkeypatch, compute, *arrays):
    """What the kernels compute, and what XLA's operators do."""
    program = jax.jit(lambda *each: compute(*each))
    assert "custom_call @flambeau_" in program.lower(*arrays).as_text()
    found = program(*arrays)
    monkeypatch.setattr(native, "takes", lambda *_: False)
    return found, jax.jit(lambda *each: compute(*each))(*arrays)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_first_and_second_order(monkeypatch, name):
    function = FUNCTIONS[name]

    def compute(x):
        def loss(x):
            return jnp.sum(jnp.sin(function(x)))

        slope = jax.grad(loss)
        moved = jax.jvp(slope, (x,), (jnp.cos(x),))
        return function(x), *moved, jax.grad(lambda x: jnp.sum(slope(x) ** 2))(x)

    _close(*_both(monkeypatch, compute, INPUT), 3e-5)


NORMALIZATIONS = {
    "rows": lambda x, *scale: layer_norm.op.function(x, (37,), *scale, 1e-5),
    "groups": lambda x, *scale: group_norm.op.function(
        _channels(x), 2, *(each[:4] for each in scale), 1e-5
    ),
}


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_gradients_of_weight_and_bias(monkeypatch, name):
    def compute(x, weight, bias):
        def loss(*arrays):
            return jnp.sum(jnp.sin(NORMALIZATIONS[name](*arrays)))

        return jax.grad(loss, (0, 1, 2))(x, weight, bias)

    _close(*_both(monkeypatch, compute, INPUT, WEIGHT, BIAS))


@pytest.mark.parametrize("shape", [(2, 6, 1000), (1, 4, 64, 70), (40, 32, 16), (1, 2, 9001)])
def test_groups_are_normalized_as_by_their_formula_in_double_precision(shape):
    rng = np.random.default_rng(sum(shape))
    x, move = rng.standard_normal((2, *shape)) + 0.5
    weight, bias = rng.standard_normal((2, shape[1]))

    def formula(x, weight, bias):
        groups = x.reshape(shape[0], 2, -1)
        centered = groups - groups.mean(2, keepdims=True)
        found = centered / jnp.sqrt(jnp.square(centered).mean(2, keepdims=True) + 1e-5)
        vectors = (each.reshape(-1, *[1] * (len(shape) - 2)) for each in (weight, bias))
        return found.reshape(shape) * next(vectors) + next(vectors)

    with jax.enable_x64(True):
        results, pull = jax.vjp(formula, *map(jnp.asarray, (x, weight, bias)))
        expected = jax.tree.map(np.asarray, (results, *pull(jnp.asarray(move))))
    arrays = (jnp.asarray(each, jnp.float32) for each in (x, weight, bias))
    results, pull = jax.vjp(lambda *each: group_norm.op.function(each[0], 2, *each[1:]), *arrays)
    _close((results, *pull(jnp.asarray(move, jnp.float32))), expected, 3e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_batches(monkeypatch, name):
    def compute(x):
        return jax.vmap(jax.value_and_grad(lambda x: jnp.sum(jnp.sin(FUNCTIONS[name](x)))), 1)(x)

    _close(*_both(monkeypatch, compute, INPUT))


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_batches_of_weights(monkeypatch, name):
    def compute(weights):
        return jax.vmap(lambda w: NORMALIZATIONS[name](INPUT, w, BIAS))(weights)

    weights = np.stack([WEIGHT, -WEIGHT])
    found = compute(weights)
    monkeypatch.setattr(native, "takes", lambda *_: False)
    _close(found, compute(weights))


@pytest.mark.parametrize("name", ["cumsum", "softmax", "log_softmax"])
def test_gradients_are_those_of_finite_differences(name):
    with jax.enable_x64(True):
        wide, move = jnp.asarray(INPUT, jnp.float64), jnp.cos(jnp.asarray(INPUT, jnp.float64))

        def loss(step):
            return jnp.sum(jnp.sin(FUNCTIONS[name](wide + step * move)))

        expected = float((loss(1e-5) - loss(-1e-5)) / 2e-5)
    slope = jax.grad(lambda x: jnp.sum(jnp.sin(FUNCTIONS[name](x))))(INPUT)
    assert float(np.vdot(slope, move)) == pytest.approx(expected, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("name", ["cumsum", "softmax", "log_softmax", "layer_norm", "group_norm"])
def test_nan_and_infinite_elements_spread_as_elsewhere(monkeypatch, name):
    x = INPUT.copy()
    x[0, 0, 3] = np.nan
    x[0, 1, 5] = -np.inf
    x[0, 2] = -np.inf
    x[1, 0, 36] = np.inf
    x[1, 1] = 1e30
    found, expected = _both(monkeypatch, FUNCTIONS[name], x)
    _close(found, expected)
    assert np.isnan(found[0, 0, 3:]).all()


def test_half_precisions_are_computed_in_single():
    x = jnp.asarray(INPUT, jnp.bfloat16)
    found = FUNCTIONS["softmax"](x)
    assert found.dtype == jnp.bfloat16
    expected = FUNCTIONS["softmax"](x.astype(jnp.float32)).astype(jnp.bfloat16)
    np.testing.assert_array_equal(found.astype(jnp.float32), expected.astype(jnp.float32))


def test_other_dimensions_and_dtypes_are_left_to_xla():
    assert native.takes(jnp.ones((4, 37), jnp.float32), 1)
    assert not native.takes(jnp.ones((4, 37), jnp.float32), 0)
    assert not native.takes(jnp.ones((4, 37), jnp.int32), 1)
    assert not native.takes(jnp.ones((4, 3), jnp.float32), 1)


def test_empty_arrays_are_left_to_xla(monkeypatch):
    monkeypatch.undo()
    assert FUNCTIONS["softmax"](jnp.ones((0, 37), jnp.float32)).shape == (0, 37)
    assert FUNCTIONS["layer_norm"](jnp.ones((0, 37), jnp.float32)).shape == (0, 37)


def test_a_call_whose_shapes_do_not_fit_is_refused():
    call = jax.ffi.ffi_call("flambeau_softmax", jax.ShapeDtypeStruct((2, 5), jnp.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"\[2, 4\] and \[2, 5\] must have one"):
        jax.block_until_ready(call(jnp.ones((2, 4), jnp.float32)))


@pytest.mark.parametrize(
    ("shape", "channels", "groups", "message"),
    [
        ((2, 6, 5), 6, 4, "4 groups do not divide 6 channels"),
        ((2, 6, 5), 5, 3, r"must have shape \[6\], got \[5\]"),
        ((2, 6), 6, 3, r"\(samples, channels, size\), got \[2, 6\]"),
    ],
)
def test_a_call_whose_groups_do_not_fit_is_refused(shape, channels, groups, message):
    result = jax.ShapeDtypeStruct(shape, jnp.float32)
    call = jax.ffi.ffi_call("flambeau_standardize_groups", result)
    arrays = (jnp.ones(each, jnp.float32) for each in (shape, channels, channels))
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.block_until_ready(call(*arrays, groups=np.int64(groups), epsilon=np.float32(1)))
