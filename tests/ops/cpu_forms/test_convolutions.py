"""The forms of a convolution for a CPU compute what XLA's one operator computes."""

from __future__ import annotations

import itertools
import random

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
    "patches": ((2, 3, 23, 20), (5, 3, 7, 8), (7, 9), [(0, 0), (0, 3)], (1, 1), 1),
    "patches of groups": ((2, 6, 20, 20), (6, 2, 10, 10), (10, 10), [(1, -1)] * 2, (1, 1), 3),
    "patches of volumes": (
        (1, 2, 9, 8, 10), (3, 2, 4, 4, 5), (4, 4, 5), [(0, 0)] * 3, (1, 1, 1), 1,
    ),
    "long strides": ((2, 1, 165), (20, 1, 45), (41,), [(0, 0)], (1,), 1),
    "as long as half of the rows": ((2, 1, 80), (40, 1, 40), (1,), [(2, 0)], (1,), 1),
    "long and dilated": ((2, 1, 120), (40, 1, 40), (2,), [(0, 1)], (2,), 1),
    "many taps, a group for each channel": (
        (2, 3, 11, 13), (3, 1, 4, 7), (2, 1), [(3, 2), (3, 3)], (1, 2), 3,
    ),
    "large filters, a group for each channel": (
        (2, 3, 14, 24), (6, 1, 9, 11), (2, 1), [(4, 4), (5, 3)], (1, 2), 3,
    ),
    "large filters, one channel": ((2, 1, 30, 31), (1, 1, 21, 11), (1, 1), [(5, 5)] * 2, (1, 1), 1),
    "large filters of volumes, a group for each channel": (
        (1, 2, 10, 9, 11), (2, 1, 9, 8, 9), (1, 1, 2), [(1, 1), (0, 2), (3, 3)], (1, 1, 1), 2,
    ),
    "one row of taps for each channel": ((2, 4, 70), (4, 1, 30), (2,), [(9, 8)], (1,), 4),
    "long, a group for each channel": ((2, 12, 90), (24, 1, 70), (2,), [(9, 8)], (1,), 12),
    "long, many groups": ((2, 18, 24, 9), (18, 2, 9, 8), (1, 1), [(4, 4), (4, 3)], (1, 1), 9),
    "a deep window": (
        (1, 3, 70, 2, 3), (2, 3, 66, 2, 2), (1, 1, 1), [(0, 0), (0, 1), (0, 0)], (1, 1, 1), 1,
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
    "patches": ((2, 3, 2, 3), (3, 4, 9, 8), (9, 8), [(0, 0), (1, 0)], (1, 1), 1),
    "long, many groups": ((2, 9, 5, 3), (9, 2, 9, 17), (1, 2), [(1, 0), (0, 1)], (1, 1), 9),
}  # fmt: skip
# Of how many operations a program may be, with the gradients: those that are unrolled are counted.
_MOST_OPERATIONS = 3000


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


def _operations(function, shapes, arguments):
    """How many operations the program for the value and the gradients has."""

    def run(input, weight):
        result, pull = jax.vjp(lambda x, w: function(x, w, *arguments), input, weight)
        return pull(jax.numpy.cos(result))

    arrays = (jax.ShapeDtypeStruct(each, np.float32) for each in shapes)
    return jax.jit(run).lower(*arrays).as_text().count(" = ")


def _geometries(spatial, sizes):
    """Kernels of all ``sizes``, under each way to step over and to see an image."""
    for size in sizes:
        for stride in sorted({1, 2, size // 2 or 1, size, size + 3}):
            for dilation, groups, inputs, outputs in itertools.product(
                (1, 3), (1, 4, 12), (12, 24), (24, 12, 48)
            ):
                # One window, few, and many.
                for more in (0, 3 * stride, 40):
                    kernel, extent = (size,) * spatial, dilation * (size - 1) + 1
                    input = (2, inputs, *(extent + more,) * spatial)
                    weight = (outputs, inputs // groups, *kernel)
                    yield input, weight, (stride,) * spatial, (dilation,) * spatial, groups


@pytest.mark.parametrize(
    ("spatial", "sizes"), [(1, (8, 64, 65, 475)), (2, (8, 9, 32)), (3, (4, 5, 16))]
)
def test_programs_do_not_grow_with_the_kernel(monkeypatch, spatial, sizes):
    monkeypatch.setattr(forms, "cpu_forms", lambda: True)
    cases = list(_geometries(spatial, sizes))
    for input, weight, stride, dilation, groups in random.Random(spatial).sample(cases, 12):
        arguments = stride, [(1, 0)] * spatial, dilation, groups
        count = _operations(forms.convolve, (input, weight), arguments)
        assert count < _MOST_OPERATIONS, (input, weight, arguments)
        weight = (input[1], *weight[1:])
        count = _operations(forms.convolve_transposed, (input, weight), arguments)
        assert count < _MOST_OPERATIONS, (input, weight, arguments)
