"""Long short-term memory by native kernels computes what XLA's operators compute."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.core.devices.native import native_kernels
from flambeau.ops.native import recurrence as native
from flambeau.ops.neural.sequences.recurrent import recurrent_layers

pytestmark = pytest.mark.skipif(
    "flambeau_lstm" not in native_kernels(),
    reason="the native kernels are not installed; `make kernels` builds them",
)

RNG = np.random.default_rng(0)
STEPS, SAMPLES, FEATURES, SIZE = 5, 6, 3, 9


@pytest.fixture(autouse=True)
def also_few_steps(monkeypatch):
    monkeypatch.setattr(native, "_FEWEST_STEPS", 1)
    monkeypatch.setattr(native, "_FEWEST_ROWS", 1)


def _normal(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def _arrays(steps=STEPS, samples=SAMPLES, features=FEATURES, size=SIZE, directions=1):
    """An input, first states, and the weights and biases of each direction."""
    states = (_normal(directions, samples, size) for _ in range(2))
    weights = (
        0.5 * _normal(*each)
        for _ in range(directions)
        for each in [(4 * size, features), (4 * size, size), (4 * size,), (4 * size,)]
    )
    return _normal(steps, samples, features), *states, *weights


ARRAYS = _arrays()


def _lstm(input, hidden, memory, *weights, batch_first=False):
    """Outputs, last hidden states and last memories."""
    given = input.swapaxes(0, 1) if batch_first else input
    has_biases, both = len(weights) % 4 == 0, len(hidden) == 2
    outputs, *last = recurrent_layers.op.function(
        given, (hidden, memory), weights, (), None, "lstm", has_biases, 1, both, batch_first, 0.0
    )
    return outputs.swapaxes(0, 1) if batch_first else outputs, *last


def _value_and_gradients(*arrays, **options):
    results, pull = jax.vjp(lambda *each: _lstm(*each, **options), *arrays)
    return results, pull(jax.tree.map(jnp.cos, results))


def _by_xla(monkeypatch):
    monkeypatch.setattr(native, "takes", lambda *_: False)


def _close(found, expected, tolerance=3e-6):
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        scale = np.abs(theirs).max(initial=1.0)
        np.testing.assert_allclose(ours / scale, theirs / scale, atol=tolerance)


def _both(monkeypatch, compute, *arrays):
    """What the kernels compute, and what XLA's operators do."""
    program = jax.jit(lambda *each: compute(*each))
    assert "custom_call @flambeau_lstm" in program.lower(*arrays).as_text()
    found = program(*arrays)
    _by_xla(monkeypatch)
    return found, jax.jit(lambda *each: compute(*each))(*arrays)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("directions", [1, 2])
def test_values_and_gradients(monkeypatch, directions, batch_first):
    def compute(*arrays):
        return _value_and_gradients(*arrays, batch_first=batch_first)

    _close(*_both(monkeypatch, compute, *_arrays(directions=directions)))


@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 1, 1),
        (1, 2, 3, 20),
        (2, 5, 70, 16),
        (3, 37, 16, 33),
        (2, 13, 130, 65),
        (70, 4, 2, 20),
        (3, 8, 1, 5),
    ],
)
def test_sizes_that_fill_no_vector(monkeypatch, shape):
    _close(*_both(monkeypatch, _value_and_gradients, *_arrays(*shape)))


def test_layers_without_biases(monkeypatch):
    _close(*_both(monkeypatch, _value_and_gradients, *ARRAYS[:5]))


def test_gradients_of_some_arrays_only(monkeypatch):
    def compute(*arrays):
        def of_weight(weight):
            return jnp.sum(jnp.sin(_lstm(*arrays[:4], weight, *arrays[5:])[0]))

        def of_input(input):
            return jnp.sum(jnp.sin(_lstm(input, *arrays[1:])[2]))

        return jax.grad(of_weight)(arrays[4]), jax.grad(of_input)(arrays[0])

    _close(*_both(monkeypatch, compute, *ARRAYS))


def test_results_alone_are_computed_without_gates():
    text = jax.jit(_lstm).lower(*ARRAYS).as_text()
    assert f"tensor<{STEPS}x{SAMPLES}x{4 * SIZE}xf32>" not in text
    _close(jax.jit(_lstm)(*ARRAYS), _value_and_gradients(*ARRAYS)[0], 0)


def test_derivatives_of_second_order(monkeypatch):
    def compute(*arrays):
        def loss(*arrays):
            return sum(jnp.sum(jnp.sin(each)) for each in _lstm(*arrays))

        slope = jax.grad(loss, tuple(range(len(arrays))))
        moves = tuple(map(jnp.cos, arrays))
        forward = jax.jvp(slope, arrays, moves)
        backward = jax.grad(lambda *each: sum(jnp.sum(a**2) for a in slope(*each)), (0, 4))
        return *forward, backward(*arrays), jax.jvp(loss, arrays, moves)

    _close(*_both(monkeypatch, compute, *ARRAYS), 1e-5)


def test_gradients_are_those_of_finite_differences():
    with jax.enable_x64(True):
        wide = [jnp.asarray(each, jnp.float64) for each in ARRAYS]
        moves = [jnp.asarray(_normal(*each.shape), jnp.float64) for each in ARRAYS]

        def loss(step):
            moved = (each + step * move for each, move in zip(wide, moves, strict=True))
            return sum(jnp.sum(jnp.sin(each)) for each in _lstm(*moved))

        expected = float((loss(1e-5) - loss(-1e-5)) / 2e-5)
    slopes = jax.grad(
        lambda *each: sum(jnp.sum(jnp.sin(a)) for a in _lstm(*each)), tuple(range(len(ARRAYS)))
    )(*ARRAYS)
    found = sum(float(np.vdot(a, b)) for a, b in zip(slopes, moves, strict=True))
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(
    "axes",
    [(0, None, None), (0, 0, 1), (None, 0, None), (0, 0, 0, 0), (None, None, None, None, 0, 1)],
)
def test_batches(monkeypatch, axes, batch_first):
    axes = (*axes, *[None] * (len(ARRAYS) - len(axes)))
    arrays = [
        each if axis is None else np.stack([each, -each, 0.5 * each], axis)
        for each, axis in zip(ARRAYS, axes, strict=True)
    ]

    def compute(*arrays):
        return jax.vmap(lambda *each: _value_and_gradients(*each, batch_first=batch_first), axes)(
            *arrays
        )

    _close(*_both(monkeypatch, compute, *arrays))


def test_a_batch_of_inputs_is_one_call():
    inputs = np.stack([ARRAYS[0]] * 3)
    text = jax.jit(jax.vmap(lambda x: _lstm(x, *ARRAYS[1:]))).lower(inputs).as_text()
    assert text.count("custom_call @flambeau_lstm") == 1
    assert "while" not in text
    assert f"tensor<{STEPS}x{3 * SAMPLES}x{FEATURES}xf32>" in text


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e30])
def test_nan_and_infinite_elements_spread_as_elsewhere(monkeypatch, number):
    input, hidden, memory, *weights = (each.copy() for each in ARRAYS)
    input[2, 1, 0], memory[0, 3, 4], hidden[0, 4, 2] = number, number, number
    found, expected = _both(monkeypatch, _lstm, input, hidden, memory, *weights)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    if np.isnan(number):
        assert np.isnan(found[0][2:, 1]).all()
        assert np.isfinite(found[0][:2, 1]).all()


def test_activations_are_as_accurate_as_in_double_precision():
    points = np.concatenate([-np.geomspace(1e-30, 200, 4000), np.geomspace(1e-30, 200, 4000)])
    points = points.astype(np.float32).reshape(1, 8, 1000)
    # Each gate sees the points by a bias of their own place, and nothing else.
    size = points.shape[-1]
    nothing = np.zeros((1, 8, size), np.float32)
    weights = np.zeros((4 * size, 1), np.float32), np.zeros((4 * size, size), np.float32)
    for row in range(8):
        bias = np.tile(points[0, row], 4)
        arrays = np.zeros((1, 8, 1), np.float32), nothing, nothing, *weights, bias, 0 * bias
        _, pull = jax.vjp(_lstm, *arrays)
        gates = [each for each in jax.tree.leaves(pull) if each.shape == (1, 8, 4 * size)]
        wide = bias[:size].astype(np.float64)
        with np.errstate(over="ignore"):
            logistic = 1 / (1 + np.exp(-wide))
        expected = np.concatenate([logistic, logistic, np.tanh(wide), logistic])
        np.testing.assert_allclose(gates[0][0, 0], expected, rtol=5e-7, atol=1e-37)


def test_other_recurrences_are_left_to_xla():
    input = jnp.ones((4, SAMPLES, 3), jnp.float32)
    assert native.takes("lstm", input, None, None)
    assert not native.takes("gru", input, None, None)
    assert not native.takes("lstm", input.astype(jnp.bfloat16), None, None)
    assert not native.takes("lstm", input, jnp.ones((4, SAMPLES, 1), bool), None)
    assert not native.takes("lstm", input, None, jnp.ones((2, 4)))


def test_few_steps_are_left_to_xla(monkeypatch):
    monkeypatch.undo()
    input = jnp.ones((40, 40, 3), jnp.float32)
    assert native.takes("lstm", input[:, :1], None, None)
    assert not native.takes("lstm", input[:, :0], None, None)
    assert not native.takes("lstm", input[:1], None, None)
    assert not native.takes("lstm", input[:5, :3], None, None)


INPUT = _normal(SAMPLES, STEPS, FEATURES)


def _train(compiled):
    flambeau.manual_seed(1)
    layer = nn.LSTM(FEATURES, SIZE, 2, batch_first=True, bidirectional=True)
    optimizer = flambeau.optim.SGD(layer.parameters(), lr=0.1)
    input = flambeau.from_numpy(INPUT)

    def step(input):
        outputs, (hidden, memory) = layer(input)
        loss = outputs.square().sum() + hidden.sum() + (hidden * memory).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    run = flambeau.compile(step) if compiled else step
    losses = [run(input).item() for _ in range(3)]
    return losses, [each.detach().numpy() for each in layer.parameters()]


def test_layers_train_eagerly_and_compiled():
    _close(_train(True), _train(False), 1e-5)


def test_a_batch_of_layers_is_a_call_for_each():
    models = [_arrays()[3:] for _ in range(3)]
    stacked = tuple(map(np.stack, zip(*models, strict=True)))
    found = jax.vmap(lambda *weights: _lstm(*ARRAYS[:3], *weights))(*stacked)
    expected = [_lstm(*ARRAYS[:3], *weights) for weights in models]
    for ours, theirs in zip(found, zip(*expected, strict=True), strict=True):
        np.testing.assert_array_equal(ours, np.stack(theirs))


@pytest.mark.parametrize(
    ("place", "shape", "message"),
    [
        (1, (SAMPLES, 4), r"the first hidden state must have shape \[6, 9\], got \[6, 4\]"),
        (3, (36, 5), r"the input's weights must have shape \[36, 3\], got \[36, 5\]"),
        (4, (30, 9), r"the hidden state's weights must have shape \[36, 9\], got \[30, 9\]"),
        (5, (9,), r"the bias must have shape \[36\], got \[9\]"),
    ],
)
def test_a_call_whose_shapes_do_not_fit_is_refused(place, shape, message):
    shapes = [(STEPS, SAMPLES, 3), (SAMPLES, 9), (SAMPLES, 9), (36, 3), (36, 9), (36,)]
    shapes[place] = shape
    results = [(STEPS, SAMPLES, 9), (SAMPLES, 9), (STEPS, SAMPLES, 0), (STEPS, SAMPLES, 0)]
    structs = tuple(jax.ShapeDtypeStruct(each, jnp.float32) for each in results)
    call = jax.ffi.ffi_call("flambeau_lstm", structs)
    arrays = (jnp.ones(each, jnp.float32) for each in shapes)
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.block_until_ready(call(*arrays, samples_first=False, is_reverse=False))
