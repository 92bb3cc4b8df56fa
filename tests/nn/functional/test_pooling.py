"""Pooling equals the reduction of each window."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.nn import functional as F

X = np.random.default_rng(0).permutation(2 * 5 * 6).reshape(1, 2, 5, 6) * 0.5 - 10


def t(array):
    return flambeau.tensor(array)


def windows(x, kernel, stride, padding=0, fill=-np.inf, ceil=False):
    """The elements of each window, ``(1, 2, H', W', kernel * kernel)``."""
    x = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)], constant_values=fill)
    if ceil:
        x = np.pad(x, [(0, 0), (0, 0), (0, stride - 1), (0, stride - 1)], constant_values=fill)
    seen = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (2, 3))
    return seen[:, :, ::stride, ::stride].reshape(*seen[:, :, ::stride, ::stride].shape[:4], -1)


def parts(size, count):
    """The windows of adaptive pooling."""
    return [slice(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def adaptive(reduce, rows, columns):
    return np.stack(
        [
            np.stack([reduce(X[:, :, i, j], (2, 3)) for j in parts(6, columns)], -1)
            for i in parts(5, rows)
        ],
        -2,
    )


FORMULAS = {
    "max": (lambda x: F.max_pool2d(x, 2), windows(X, 2, 2).max(-1)),
    "max, overlapping": (lambda x: F.max_pool2d(x, 3, 1, 1), windows(X, 3, 1, 1).max(-1)),
    "max, ceiling": (
        lambda x: F.max_pool2d(x, 2, ceil_mode=True), windows(X, 2, 2, ceil=True).max(-1)[..., :3],
    ),
    "max, dilated": (
        lambda x: F.max_pool2d(x, 2, 1, dilation=2),
        windows(X, 3, 1)[..., [0, 2, 6, 8]].max(-1),
    ),
    "average": (lambda x: F.avg_pool2d(x, 3, 2), windows(X, 3, 2).mean(-1)),
    "average with padding": (
        lambda x: F.avg_pool2d(x, 3, 2, 1), windows(X, 3, 2, 1, 0.0).mean(-1),
    ),
    "average without padding": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        np.nanmean(windows(X, 3, 2, 1, np.nan), -1),
    ),
    "average by a divisor": (
        lambda x: F.avg_pool2d(x, 2, divisor_override=3), windows(X, 2, 2).sum(-1) / 3,
    ),
    "power average": (
        lambda x: F.lp_pool2d(x.abs(), 3.0, 2), (np.abs(windows(X, 2, 2)) ** 3).sum(-1) ** (1 / 3),
    ),
    "adaptive average": (lambda x: F.adaptive_avg_pool2d(x, (3, 4)), adaptive(np.mean, 3, 4)),
    "adaptive maximum": (lambda x: F.adaptive_max_pool2d(x, (2, 4)), adaptive(np.max, 2, 4)),
    "adaptive, a size kept": (lambda x: F.adaptive_avg_pool2d(x, (None, 1)),
                              adaptive(np.mean, 5, 1)),
    "one dimension": (
        lambda x: F.max_pool1d(x[0], 2), X[0].reshape(2, 5, 3, 2).max(-1),
    ),
    "three dimensions": (
        lambda x: F.avg_pool3d(x[:, None], (2, 5, 6))[0, 0], X.mean((1, 2, 3), keepdims=True)[0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name):
    compute, expected = FORMULAS[name]
    found = compute(t(X)).numpy()
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_indices_say_where_the_greatest_stood():
    found, indices = F.max_pool2d(t(X), 3, 2, 1, return_indices=True)
    flat = t(X).flatten(2)
    assert flambeau.equal(flat.gather(2, indices.flatten(2)), found.flatten(2))
    _, indices = F.adaptive_max_pool2d(t(X), 1, return_indices=True)
    assert indices.flatten().tolist() == X.reshape(2, -1).argmax(1).tolist()


def test_unpooling_puts_them_back():
    pooled, indices = F.max_pool2d(t(X), 2, return_indices=True)
    found = F.max_unpool2d(pooled, indices, 2, output_size=(5, 6))
    assert found.shape == (1, 2, 5, 6)
    assert found.count_nonzero().item() == pooled.numel()
    again, places = F.max_pool2d(found.where(found != 0, -99.0), 2, return_indices=True)
    assert flambeau.equal(again, pooled)
    assert flambeau.equal(places, indices)


def test_fractional_pooling_takes_windows_that_cover():
    samples = flambeau.full((1, 2, 2), 0.4, dtype=flambeau.float64)
    found, indices = F.fractional_max_pool2d(
        t(X), 2, (3, 4), return_indices=True, _random_samples=samples
    )
    assert found.shape == (1, 2, 3, 4)
    assert flambeau.equal(t(X).flatten(2).gather(2, indices.flatten(2)), found.flatten(2))


def test_not_a_number_is_the_greatest():
    x = t(X).clone()
    x[0, 0, 1, 1] = float("nan")
    assert F.max_pool2d(x, 2)[0, 0, 0, 0].isnan()


ERRORS = {
    "padding": (RuntimeError, "half|2.*1", lambda: F.max_pool2d(t(X), 2, padding=2)),
    "input": (RuntimeError, r"\[6\]", lambda: F.max_pool2d(t(X[0, 0, 0]), 2)),
    "kernel": (RuntimeError, "9", lambda: F.avg_pool2d(t(X), 9)),
    "stride": (RuntimeError, "stride", lambda: F.avg_pool2d(t(X), 2, 0)),
    "divisor": (RuntimeError, "divisor", lambda: F.avg_pool2d(t(X), 2, divisor_override=0)),
    "output_size": (ValueError, "range", lambda: F.max_unpool2d(
        *F.max_pool2d(t(X), 2, return_indices=True), 2, output_size=(9, 9))),
    "either": (ValueError, "output_size or output_ratio", lambda: F.fractional_max_pool2d(t(X), 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_state_the_facts(name):
    kind, facts, compute = ERRORS[name]
    with pytest.raises(kind, match=facts):
        compute()
