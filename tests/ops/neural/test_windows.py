"""Windows of any size: their elements, and programs that do not grow with them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flambeau.ops.neural.spatial import folding, padding, pooling, resampling, taps
from flambeau.ops.neural.spatial.windows import Windows

# Kernel, outputs, stride, dilation.
WINDOWS = {
    "one tap": ((1,), (5,), (3,), (1,)),
    "patches": ((5,), (4,), (5,), (1,)),
    "patches with gaps": ((41,), (20,), (43,), (1,)),
    "longer than the stride": ((45,), (20,), (41,), (1,)),
    "much longer": ((90,), (30,), (4,), (1,)),
    "one by one": ((40,), (50,), (1,), (1,)),
    "few of them": ((90,), (3,), (2,), (1,)),
    "dilated": ((40,), (19,), (1,), (3,)),
    "dilated and strided": ((38,), (40,), (2,), (3,)),
    "few of them, dilated": ((40,), (2,), (3,), (2,)),
    "two dimensions": ((7, 8), (3, 5), (2, 8), (1, 1)),
    "two, dilated": ((17, 3), (18, 2), (1, 2), (2, 1)),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_have_the_elements_that_slices_have(name):
    kernel, outputs, stride, dilation = WINDOWS[name]
    sizes = [
        (n - 1) * s + (k - 1) * d + 2
        for k, n, s, d in zip(kernel, outputs, stride, dilation, strict=True)
    ]
    array = np.arange(2 * np.prod(sizes), dtype=np.float32).reshape(2, *sizes)
    shape = (2, np.prod(kernel), *outputs)
    cotangent = np.random.default_rng(0).standard_normal(shape, np.float32)

    @jax.jit
    def run(x):
        found, pull = jax.vjp(lambda x: taps.windows(x, kernel, outputs, stride, dilation), x)
        return found, *pull(cotangent)

    found, pulled = run(array)
    gradient = np.zeros_like(array)
    for number, place in enumerate(np.ndindex(*kernel)):
        window = tuple(
            slice(at * d, at * d + (n - 1) * s + 1, s)
            for at, d, n, s in zip(place, dilation, outputs, stride, strict=True)
        )
        np.testing.assert_array_equal(found[:, number], array[:, *window])
        gradient[:, *window] += cotangent[:, number]
    np.testing.assert_allclose(pulled, gradient, atol=1e-4)


def test_elements_are_picked_from_windows_of_any_size():
    image = np.random.default_rng(0).standard_normal((2, 3, 20, 12), np.float32)
    windows = Windows("max_pool2d", image, 2, (9, 8), (2, 1), (4, 0), 1, False)
    found, place = jax.jit(lambda x: pooling._gathered_maximum(windows, x))(image)
    picked = jax.jit(windows.pick)(image, place)
    np.testing.assert_array_equal(picked, found)


# For a size, an operator and the shape that it is given.
OPERATORS = {
    "max": lambda n: (lambda x: pooling.max_pool2d.__wrapped__(x, n, 2), (1, 2, 3 * n, 2 * n)),
    "max, dilated": lambda n: (
        lambda x: pooling.max_pool2d.__wrapped__(x, n, 1, 0, 2), (1, 2, 3 * n, 2 * n),
    ),
    "max with indices": lambda n: (
        lambda x: pooling.max_pool_with_indices.__wrapped__(x, 2, n, 1)[0], (1, 2, n + 3, 2 * n),
    ),
    "maxima of one dimension": lambda n: (
        lambda x: pooling.max_pool1d.__wrapped__(x, n, 1, n // 2), (1, 2, 3 * n),
    ),
    "average": lambda n: (
        lambda x: pooling.avg_pool2d.__wrapped__(x, n, 1, n // 2), (1, 2, 2 * n, n),
    ),
    "adaptive average": lambda n: (
        lambda x: pooling.adaptive_avg_pool1d.__wrapped__(x, 3), (1, 2, 3 * n + 1),
    ),
    "adaptive maximum": lambda n: (
        lambda x: pooling.adaptive_max_pool.__wrapped__(x, 1, 3)[0], (1, 2, 3 * n + 1),
    ),
    "unfold": lambda n: (lambda x: folding.unfold.__wrapped__(x, n), (1, 2, 2 * n, n + 2)),
    "fold": lambda n: (
        lambda x: folding.fold.__wrapped__(x, (n + 1, n), n), (1, 2 * n * n, 2),
    ),
    "linear": lambda n: (
        lambda x: resampling.interpolate_smoothly.__wrapped__(x, (3 * n,), (None,), "linear"),
        (1, 2, 2 * n),
    ),
    "antialiased": lambda n: (
        lambda x: resampling.interpolate_smoothly.__wrapped__(
            x, (3, 3), (None, None), "cubic", antialias=True
        ),
        (1, 2, n, 2 * n),
    ),
    "nearest": lambda n: (
        lambda x: resampling.interpolate_nearest.__wrapped__(x, (3 * n,), (None,)), (1, 2, 2 * n),
    ),
    "reflected": lambda n: (
        lambda x: padding.pad_by_rule.__wrapped__(x, (n, n), "reflect"), (1, 2, 2 * n),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_programs_do_not_grow_with_the_window(name):
    for size in (5, 11, 150):
        function, shape = OPERATORS[name](size)

        def gradient(x, function=function):
            result, pull = jax.vjp(function, x)
            return pull(jnp.ones_like(result))

        text = jax.jit(gradient).lower(jax.ShapeDtypeStruct(shape, np.float32)).as_text()
        assert text.count(" = ") < 2000, size


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_large_interpolations_are_those_of_the_matrix(monkeypatch, mode, antialias):
    def run(x):
        function = resampling.interpolate_smoothly.__wrapped__
        return function(x, (4, 9), (None, None), mode, antialias=antialias)

    def value_and_gradient(x):
        result, pull = jax.vjp(run, x)
        return result, *pull(jnp.cos(result))

    image = np.random.default_rng(0).standard_normal((2, 2, 11, 7), np.float32)
    found = []
    for largest in (1 << 22, 0):
        monkeypatch.setattr(resampling, "_LARGEST_MATRIX", largest)
        found.append(jax.jit(lambda x: value_and_gradient(x))(image))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_a_signal_of_a_second_needs_no_matrix():
    signal = jnp.ones((1, 1, 441000), jnp.float32)
    function = resampling.interpolate_smoothly.__wrapped__
    found = function(signal, (160000,), (None,), "linear")
    assert found.shape == (1, 1, 160000)
    assert (found == 1).all()
