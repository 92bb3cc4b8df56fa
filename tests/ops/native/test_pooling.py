"""Max pooling by a native kernel gives what XLA's operators give, to the last bit."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flambeau
from flambeau.core.devices.native import native_kernels
from flambeau.nn import functional as F
from flambeau.ops.native import pooling as native
from flambeau.ops.neural.spatial.pooling import (
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_pool_with_indices,
)
from flambeau.ops.neural.spatial.windows import Windows

pytestmark = pytest.mark.skipif(
    "flambeau_max_pool" not in native_kernels(),
    reason="the native kernels are not installed; `make kernels` builds them",
)

RNG = np.random.default_rng(0)
IMAGES = RNG.standard_normal((2, 3, 9, 35), dtype=np.float32)
SERIES, VOLUMES = IMAGES.reshape(2, 3, -1), IMAGES.reshape(1, 6, 3, 5, 21)

# The arguments behind the input: size, stride, padding, dilation and ceil_mode.
CASES = {
    "overlapping": (max_pool2d, IMAGES, (3, 2, 1, 1, False)),
    "next to each other": (max_pool2d, IMAGES, (2, None, 0, 1, False)),
    "apart": (max_pool2d, IMAGES, (2, 3, 1, 1, False)),
    "every element": (max_pool2d, IMAGES, (3, 1, 1, 1, False)),
    "uneven": (max_pool2d, IMAGES, ((2, 5), (1, 3), (1, 2), (3, 2), False)),
    "beyond the edge": (max_pool2d, IMAGES, (4, 3, 0, 1, True)),
    "no samples": (max_pool2d, IMAGES[0], (3, 2, 0, 2, True)),
    "many taps": (max_pool2d, IMAGES, (7, 2, 3, 1, False)),
    "one dimension": (max_pool1d, SERIES, (5, 2, 2, 1, True)),
    "three dimensions": (max_pool3d, VOLUMES, ((2, 3, 3), (1, 2, 2), 1, (1, 1, 2), False)),
}


@pytest.fixture(autouse=True)
def also_small_arrays(monkeypatch):
    monkeypatch.setattr(native, "_FEWEST_ELEMENTS", 1)


def _both(monkeypatch, compute, *arrays):
    """What the kernels compute, and what XLA's operators do."""
    program = jax.jit(lambda *each: compute(*each))
    assert "custom_call @flambeau_max_pool" in program.lower(*arrays).as_text()
    found = program(*arrays)
    monkeypatch.setattr(native, "takes", lambda *_: False)
    return found, jax.jit(lambda *each: compute(*each))(*arrays)


def _with_indices(operator, array, settings):
    spatial = {max_pool1d: 1, max_pool2d: 2, max_pool3d: 3}[operator]
    return max_pool_with_indices.op.function(array, spatial, *settings)


def _are_equal(found, expected):
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


@pytest.mark.parametrize("name", CASES)
def test_maxima_their_places_and_gradients(monkeypatch, name):
    operator, array, settings = CASES[name]
    # Whole numbers: several elements of a window are the greatest, and sums are exact.
    array = np.round(2 * array)

    def compute(x):
        found, pull = jax.vjp(lambda x: operator.op.function(x, *settings), x)
        return _with_indices(operator, x, settings), found, pull(jnp.round(jnp.sin(found) * 9))

    _are_equal(*_both(monkeypatch, compute, array))


@pytest.mark.parametrize("name", ["overlapping", "many taps"])
def test_derivatives_of_second_order(monkeypatch, name):
    operator, array, settings = CASES[name]

    def compute(x):
        def loss(x):
            return jnp.sum(operator.op.function(x, *settings) ** 3)

        slope = jax.grad(loss)
        return jax.jvp(slope, (x,), (jnp.cos(x),)), jax.grad(lambda x: jnp.sum(slope(x) ** 2))(x)

    found, expected = _both(monkeypatch, compute, array)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-4)


def test_batches(monkeypatch):
    operator, array, settings = CASES["overlapping"]

    def compute(x):
        def value_and_slope(x):
            found, pull = jax.vjp(lambda x: operator.op.function(x, *settings), x)
            return found, pull(jnp.round(found)), pull(jnp.ones_like(found))

        return jax.vmap(value_and_slope, 1, 2)(x)

    _are_equal(*_both(monkeypatch, compute, np.round(array)))


def test_nan_and_infinite_elements_are_as_elsewhere(monkeypatch):
    operator, array, settings = CASES["overlapping"]
    array = array.copy()
    array[0, 0, ::3] = np.nan
    array[0, 1] = -np.inf
    array[0, 2, 2:5, 3:9] = np.inf
    array[1, 0, 0, :4] = np.nan

    def compute(x):
        found, pull = jax.vjp(lambda x: operator.op.function(x, *settings), x)
        return _with_indices(operator, x, settings), pull(jnp.ones_like(found))

    _are_equal(*_both(monkeypatch, compute, array))


@pytest.mark.parametrize("seed", range(6))
def test_random_windows(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    operator, array, _ = [*CASES.values()][rng.choice([0, 8, 9])]
    spatial = array.ndim - 2
    size = rng.integers(1, 4, spatial)
    settings = (
        tuple(map(int, size)), tuple(map(int, rng.integers(1, 5, spatial))),
        tuple(map(int, rng.integers(0, size // 2 + 1))), 1, bool(rng.integers(2)),
    )  # fmt: skip

    def compute(x):
        found, pull = jax.vjp(lambda x: operator.op.function(x, *settings), x)
        return found, pull(jnp.round(found))

    _are_equal(*_both(monkeypatch, compute, np.round(2 * array)))


def test_layers_call_the_kernel_eagerly_and_compiled(monkeypatch):
    x = flambeau.tensor(IMAGES, requires_grad=True)

    def step(x):
        found = F.max_pool2d(x, 3, 2, 1)
        (slope,) = flambeau.autograd.grad((found**2).sum(), x)
        return found, slope

    eager, compiled = step(x), flambeau.compile(step)(x)
    monkeypatch.setattr(native, "takes", lambda *_: False)
    expected = step(flambeau.tensor(IMAGES.copy(), requires_grad=True))
    for each in (eager, compiled):
        for ours, theirs in zip(each, expected, strict=True):
            np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-6)


def _windows(array, *settings):
    return Windows("max_pool2d", array, 2, *settings)


def test_other_dtypes_small_and_empty_arrays_are_left_to_xla(monkeypatch):
    def is_taken(array):
        return native.takes(_windows(array, 3, 2, 1, 1, False), array)

    assert is_taken(jnp.ones((2, 3, 8, 8), jnp.float32))
    assert not is_taken(jnp.ones((2, 3, 8, 8), jnp.bfloat16))
    assert not is_taken(jnp.ones((2, 3, 8, 8), jnp.int32))
    assert not is_taken(jnp.ones((0, 3, 8, 8), jnp.float32))
    monkeypatch.undo()
    assert not is_taken(jnp.ones((1, 1, 8, 8), jnp.float32))


def test_windows_without_an_element_are_left_to_xla():
    x = jnp.ones((2, 3, 1, 8), jnp.float32)
    windows = _windows(x, 2, 1, 1, 2, False)
    assert not windows.inside(0).any()
    assert not native.takes(windows, x)
    assert max_pool2d.op.function(x, 2, 1, 1, 2).shape == (2, 3, 1, 8)


@pytest.mark.parametrize(
    ("outputs", "kernel", "message"),
    [
        ((2, 3, 4, 4), (2,), "needs one size, stride, border and dilation"),
        ((2, 2, 4, 4), (2, 2), r"images \[2, 3, 8, 8\], maxima \[2, 2, 4, 4\] and taps"),
        ((2, 3, 4, 4), (2, 0), "must be positive"),
        ((2, 3, 6, 4), (2, 2), "a window has no element"),
    ],
)
def test_a_call_whose_windows_do_not_fit_is_refused(outputs, kernel, message):
    results = [jax.ShapeDtypeStruct(outputs, each) for each in (jnp.float32, jnp.int32)]
    call = jax.ffi.ffi_call("flambeau_max_pool", results)
    two = np.array([2, 2])
    numbers = {"kernel": np.array(kernel), "stride": two, "before": 0 * two, "dilation": two // 2}
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.block_until_ready(call(jnp.ones((2, 3, 8, 8), jnp.float32), **numbers))
