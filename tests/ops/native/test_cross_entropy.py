"""The cross entropy of rows by native kernels is that of XLA's operators."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flambeau
from flambeau.core.devices.native import native_kernels
from flambeau.nn import functional as F
from flambeau.ops.native import cross_entropy as native
from flambeau.ops.neural.losses.loss import cross_entropy

pytestmark = pytest.mark.skipif(
    "flambeau_cross_entropy_gradient" not in native_kernels(),
    reason="the native kernels are not installed; `make kernels` builds them",
)

RNG = np.random.default_rng(0)
SCORES = 3 * RNG.standard_normal((23, 37), dtype=np.float32)
CLASSES = RNG.integers(0, 37, 23)
CLASSES[::5] = -100
WEIGHT = RNG.random(37, dtype=np.float32)

CASES = {
    "mean": lambda x: cross_entropy.op.function(x, CLASSES),
    "sum": lambda x: cross_entropy.op.function(x, CLASSES, reduction="sum"),
    "of each": lambda x: cross_entropy.op.function(x, CLASSES, reduction="none"),
    "weighted": lambda x: cross_entropy.op.function(x, CLASSES, WEIGHT),
    "another class ignored": lambda x: cross_entropy.op.function(x, CLASSES % 9, None, 3),
    "small targets": lambda x: cross_entropy.op.function(x, (CLASSES % 9).astype(np.uint8)),
    "a row": lambda x: cross_entropy.op.function(x[3], CLASSES[3]),
}


@pytest.fixture(autouse=True)
def also_small_arrays(monkeypatch):
    monkeypatch.setattr(native, "_FEWEST_ELEMENTS", 1)


def _both(monkeypatch, compute, *arrays):
    """What the kernels compute, and what XLA's operators do."""
    program = jax.jit(lambda *each: compute(*each))
    assert "custom_call @flambeau_log_sum" in program.lower(*arrays).as_text()
    found = program(*arrays)
    monkeypatch.setattr(native, "takes", lambda *_: False)
    return found, jax.jit(lambda *each: compute(*each))(*arrays)


def _close(found, expected, tolerance=2e-6):
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def _value_and_slope(function):
    def compute(x):
        found, pull = jax.vjp(function, x)
        return found, pull(jnp.cos(jnp.arange(found.size)).astype(found.dtype).reshape(found.shape))

    return compute


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(monkeypatch, name):
    _close(*_both(monkeypatch, _value_and_slope(CASES[name]), SCORES))


def test_derivatives_of_second_order(monkeypatch):
    def compute(x):
        slope = jax.grad(lambda x: jnp.sum(CASES["of each"](x) ** 2))
        return jax.jvp(slope, (x,), (jnp.cos(x),)), jax.grad(lambda x: jnp.sum(slope(x) ** 2))(x)

    _close(*_both(monkeypatch, compute, SCORES), 3e-5)


def test_gradients_are_those_of_a_formula_in_double_precision():
    wide = SCORES.astype(np.float64)
    powers = np.exp(wide - wide.max(1, keepdims=True))
    weights = powers / powers.sum(1, keepdims=True)
    counts = CLASSES >= 0
    losses = -np.log(weights[np.arange(23), CLASSES * counts]) * counts
    slopes = (weights - np.eye(37)[CLASSES * counts]) * counts[:, None] / counts.sum()
    found, slope = jax.value_and_grad(CASES["mean"])(SCORES)
    np.testing.assert_allclose(found, losses.sum() / counts.sum(), rtol=1e-6)
    np.testing.assert_allclose(slope, slopes, rtol=1e-5, atol=1e-8)


def test_batches(monkeypatch):
    scores = np.stack([SCORES, -SCORES, SCORES**2], 1)
    _close(*_both(monkeypatch, jax.vmap(_value_and_slope(CASES["of each"]), 1, 1), scores))


def test_batches_of_targets(monkeypatch):
    def loss(x, target):
        return cross_entropy.op.function(x, target, reduction="sum")

    def compute(x, targets):
        return jax.vmap(jax.value_and_grad(loss), (None, 0))(x, targets)

    _close(*_both(monkeypatch, compute, SCORES, np.stack([CLASSES, CLASSES[::-1]])))


def test_large_nan_and_infinite_scores_are_as_elsewhere(monkeypatch):
    x = SCORES.copy()
    x[0, 3] = np.nan
    x[1, 5] = -np.inf
    x[2] = -np.inf
    x[3, 36] = np.inf
    x[4] += 1e6
    x[6] = [1e30, *[-1e30] * 36]
    _close(*_both(monkeypatch, _value_and_slope(CASES["of each"]), x))


def test_targets_outside_of_the_classes_give_nan_and_are_no_address(monkeypatch):
    # Compiled functions do not read targets, and cannot refuse them.
    targets = CLASSES.copy()
    targets[:4] = 37, 1000, 2**40, -1

    def function(x):
        return cross_entropy.op.function(x, targets, reduction="none")

    with jax.enable_x64(True):
        found, expected = _both(monkeypatch, _value_and_slope(function), SCORES)
    _close(found, expected)
    assert np.isnan(found[0][:2]).all()


def test_a_sure_prediction_costs_next_to_nothing():
    x = np.full((1, 40), -8, np.float32)
    x[0, 7] = 1000
    assert cross_entropy.op.function(x, np.array([7])) == 0
    x = np.full((1, 40), 1000, np.float32)
    x[0, 7] = 1012
    expected = np.log1p(39 * np.exp(-12.0))
    np.testing.assert_allclose(cross_entropy.op.function(x, np.array([7])), expected, rtol=1e-3)


def test_layers_call_the_kernel_eagerly_and_compiled(monkeypatch):
    target = flambeau.tensor(CLASSES)

    def step(x):
        found = F.cross_entropy(x, target)
        return found, *flambeau.autograd.grad(found, x)

    x = flambeau.tensor(SCORES, requires_grad=True)
    eager, compiled = step(x), flambeau.compile(step)(x)
    monkeypatch.setattr(native, "takes", lambda *_: False)
    expected = step(flambeau.tensor(SCORES.copy(), requires_grad=True))
    for each in (eager, compiled):
        for ours, theirs in zip(each, expected, strict=True):
            _close(ours.detach().numpy(), theirs.detach().numpy())


def test_a_linear_layer_and_its_loss_in_chunks(monkeypatch):
    rows = RNG.standard_normal((37, 8), dtype=np.float32)
    samples = RNG.standard_normal((23, 8), dtype=np.float32)
    arrays = [flambeau.tensor(each, requires_grad=True) for each in (samples, rows)]

    def compute():
        loss = F.linear_cross_entropy(*arrays, flambeau.tensor(CLASSES))
        return loss, *flambeau.autograd.grad(loss, arrays)

    found = [each.detach().numpy() for each in compute()]
    expected = F.cross_entropy(arrays[0] @ arrays[1].T, flambeau.tensor(CLASSES))
    slopes = flambeau.autograd.grad(expected, arrays)
    _close(found, [each.detach().numpy() for each in (expected, *slopes)])


def test_other_dimensions_and_dtypes_small_and_empty_arrays_are_left_to_xla(monkeypatch):
    assert native.takes(jnp.ones((20, 37), jnp.float32), 1)
    assert not native.takes(jnp.ones((20, 37), jnp.bfloat16), 1)
    assert not native.takes(jnp.ones((20, 37, 2), jnp.float32), 1)
    assert not native.takes(jnp.ones((20, 3), jnp.float32), 1)
    monkeypatch.undo()
    assert not native.takes(jnp.ones((4, 37), jnp.float32), 1)
    empty = cross_entropy.op.function(jnp.ones((0, 37), jnp.float32), np.zeros(0, np.int64))
    assert np.isnan(empty)


def test_a_call_whose_shapes_do_not_fit_is_refused():
    result = jax.ShapeDtypeStruct((2, 20), jnp.float32)
    call = jax.ffi.ffi_call("flambeau_cross_entropy_gradient", result)
    row, target = jnp.ones(2, jnp.float32), jnp.zeros(3, jnp.int32)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"need one number each, got \[3\]"):
        jax.block_until_ready(call(jnp.ones((2, 20), jnp.float32), row, row, target, row))
