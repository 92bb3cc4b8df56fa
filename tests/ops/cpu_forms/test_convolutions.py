"""The forms of a convolution for a CPU compute what XLA's one operator computes."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from flambeau.ops.cpu_forms import convolutions as forms

# Input, filters, stride, borders, dilation, groups.
CONVOLUTIONS = {
    "more outputs than inputs": ((2, 13, 5), (4, 13, 3), (1,), [(3, 4)], (1,), 1),
    "few channels": ((2, 3, 6, 7), (4, 3, 3, 2), (2, 1), [(1, -1), (0, 2)], (1, 2), 1),
    "one channel": ((2, 1, 9, 8), (1, 1, 5, 5), (1, 2), [(2, 3), (0, 2)], (1, 1), 1),
    "one channel and two outputs": ((2, 1, 60), (2, 1, 36), (1,), [(3, 4)], (1,), 1),
    "one place": ((2, 3, 5, 6), (4, 3, 1, 1), (1, 2), [(0, 0), (1, 0)], (1, 1), 1),
    "a group for each channel": ((2, 3, 6, 7), (6, 1, 3, 2), (2, 1), [(1, 1), (0, 2)], (1, 2), 3),
    "one for each, one dimension": ((2, 3, 8), (3, 1, 3), (2,), [(0, 1)], (1,), 3),
    "one for each, three": (
        (2, 3, 4, 6, 5), (3, 1, 2, 3, 1), (1, 3, 2), [(1, 0), (0, 1), (0, 0)], (2, 1, 1), 3,
    ),
    "few groups": ((2, 14, 6, 7), (4, 7, 3, 2), (1, 2), [(1, 0), (0, 1)], (2, 1), 2),
    "many groups": ((2, 18, 6, 7), (9, 2, 3, 2), (2, 1), [(1, 1), (-1, 0)], (1, 2), 9),
    "smaller images": ((2, 40, 2, 1), (3, 40, 3, 2), (1, 1), [(1, 2), (1, 0)], (1, 1), 1),
    "one output place": ((2, 40, 4, 4), (3, 40, 4, 4), (2, 1), [(0, 0), (0, 0)], (1, 1), 1),
    "much smaller": ((2, 6, 3, 2), (4, 6, 5, 4), (2, 1), [(3, 2), (1, 3)], (1, 2), 1),
    "much smaller and cropped": ((2, 6, 3, 4), (4, 6, 4, 5), (1, 3), [(4, -1), (3, 2)], (2, 1), 1),
    "three dimensions, few outputs": (
        (2, 4, 5, 6, 7), (3, 4, 2, 3, 2), (1, 2, 1), [(1, 0), (1, -1), (0, 1)], (2, 1, 2), 1,
    ),
    "three dimensions, more outputs than inputs": (
        (2, 5, 4, 3, 3), (2, 5, 2, 2, 2), (1, 1, 1), [(0, 2), (1, 2), (2, 1)], (1, 1, 1), 1,
    ),
    "three dimensions": (
        (2, 4, 5, 6, 7), (4, 4, 2, 3, 2), (2, 1, 2), [(1, 0), (1, 1), (0, 1)], (2, 1, 1), 1,
    ),
}  # fmt: skip
TRANSPOSED = {
    "stride divides the kernel": ((2, 3, 5), (3, 4, 4), (2,), [(1, 1)], (1,), 1),
    "it does not": ((2, 4, 3, 4), (4, 3, 3, 5), (2, 3), [(1, 0), (0, 2)], (1, 1), 2),
    "enlarged": ((2, 4, 3, 4), (4, 3, 3, 5), (2, 1), [(0, -1), (0, -2)], (1, 1), 1),
    "smaller images": ((2, 9, 1, 2), (9, 4, 4, 5), (1, 2), [(0, 0), (1, 0)], (1, 1), 1),
    "stride beyond the kernel": ((2, 4, 3), (4, 1, 2), (3,), [(0, -1)], (1,), 4),
    "dilated": ((2, 4, 3, 4), (4, 3, 2, 3), (2, 1), [(1, 0), (0, 1)], (2, 3), 2),
    "one step": ((2, 4, 5), (4, 3, 3), (1,), [(1, 1)], (2,), 2),
    "three dimensions": (
        (1, 2, 3, 4, 3), (2, 3, 3, 2, 4), (2, 1, 2), [(1, 0), (0, 0), (1, 1)], (1, 1, 1), 1,
    ),
}  # fmt: skip


def _value_and_gradients(function, shapes, arguments):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]

    @jax.jit
    def run(input, weight):
        result, pull = jax.vjp(lambda x, w: function(x, w, *arguments), input, weight)
        return result, pull(jax.numpy.cos(result))

    return jax.tree.leaves(run(*arrays))


def _compare(monkeypatch, function, case):
    input, weight, *arguments = case
    monkeypatch.setattr(forms, "cpu_forms", lambda: False)
    expected = _value_and_gradients(function, (input, weight), arguments)
    monkeypatch.setattr(forms, "cpu_forms", lambda: True)
    found = _value_and_gradients(function, (input, weight), arguments)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_and_their_gradients(monkeypatch, name):
    _compare(monkeypatch, forms.convolve, CONVOLUTIONS[name])


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions_and_their_gradients(monkeypatch, name):
    _compare(monkeypatch, forms.convolve_transposed, TRANSPOSED[name])


def test_a_group_for_each_channel_is_rounded_once_in_half_precision():
    rng = np.random.default_rng(1)
    input = jax.numpy.asarray(rng.standard_normal((1, 4, 9, 9)), jax.numpy.bfloat16)
    weight = jax.numpy.asarray(rng.standard_normal((4, 1, 5, 5)), jax.numpy.bfloat16)
    arguments = (1, 1), [(2, 2), (2, 2)], (1, 1), 4
    found = jax.jit(lambda x, w: forms.convolve(x, w, *arguments))(input, weight)
    exact = forms.convolve(input.astype("float32"), weight.astype("float32"), *arguments)
    assert found.dtype == jax.numpy.bfloat16
    assert (found == exact.astype("bfloat16")).all()


@pytest.mark.parametrize("channels", [(1, 1, 6), (1, 2, 6), (4, 1, 3), (16, 96, 3)])
def test_windows_are_not_copied_without_measure(channels):
    inputs, outputs, size = channels
    input = jax.ShapeDtypeStruct((1, inputs, 64, 64), "float32")
    weight = jax.ShapeDtypeStruct((outputs, inputs, size, size), "float32")
    arguments = (1, 1), [(0, 0), (0, 0)], (1, 1), 1
    compiled = jax.jit(lambda x, w: forms.convolve(x, w, *arguments)).lower(input, weight).compile()
    memory = compiled.memory_analysis()
    kept = memory.argument_size_in_bytes + memory.output_size_in_bytes
    assert memory.temp_size_in_bytes < 15 * kept
