"""Normalizations are the formulas of their documentation, and move their running statistics."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.nn import functional as F

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((3, 4, 2, 5)) * 2 + 1
WEIGHT, BIAS = RANDOM.standard_normal((2, 4))


def t(array):
    return flambeau.tensor(array)


def per_channel(array):
    return array[:, None, None]


def normalized(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def grouped(x, groups):
    return normalized(x.reshape(3, groups, -1), 2).reshape(x.shape)


FORMULAS = {
    "batch_norm": (
        lambda: F.batch_norm(t(X), None, None, t(WEIGHT), t(BIAS), training=True),
        normalized(X, (0, 2, 3)) * per_channel(WEIGHT) + per_channel(BIAS),
    ),
    "batch_norm in evaluation": (
        lambda: F.batch_norm(t(X), t(BIAS), t(WEIGHT**2), eps=0.1),
        (X - per_channel(BIAS)) / np.sqrt(per_channel(WEIGHT**2) + 0.1),
    ),
    "instance_norm": (
        lambda: F.instance_norm(t(X), weight=t(WEIGHT), bias=t(BIAS)),
        normalized(X, (2, 3)) * per_channel(WEIGHT) + per_channel(BIAS),
    ),
    "instance_norm by given statistics": (
        lambda: F.instance_norm(t(X), t(BIAS), t(WEIGHT**2), use_input_stats=False),
        (X - per_channel(BIAS)) / np.sqrt(per_channel(WEIGHT**2) + 1e-5),
    ),
    "layer_norm": (lambda: F.layer_norm(t(X), (2, 5)), normalized(X, (2, 3))),
    "layer_norm with parameters": (
        lambda: F.layer_norm(t(X), (5,), t(X[0, 0, 0]), t(X[0, 0, 1]), 0.1),
        normalized(X, 3, 0.1) * X[0, 0, 0] + X[0, 0, 1],
    ),
    "group_norm": (
        lambda: F.group_norm(t(X), 2, t(WEIGHT), t(BIAS)),
        grouped(X, 2) * per_channel(WEIGHT) + per_channel(BIAS),
    ),
    "rms_norm": (
        lambda: F.rms_norm(t(X), (5,), t(X[0, 0, 0]), 0.1),
        X / np.sqrt((X**2).mean(3, keepdims=True) + 0.1) * X[0, 0, 0],
    ),
    "normalize": (
        lambda: F.normalize(t(X)), X / np.sqrt((X**2).sum(1, keepdims=True)),
    ),
    "normalize by another norm": (
        lambda: F.normalize(t(X), p=1, dim=3), X / np.abs(X).sum(3, keepdims=True),
    ),
    "local_response_norm": (
        lambda: F.local_response_norm(t(X), 3, alpha=0.3, beta=0.5, k=2.0),
        X / np.sqrt(2 + 0.1 * sum(np.pad(X**2, [(0, 0), (1, 1), (0, 0), (0, 0)])[:, i : i + 4]
                                  for i in range(3))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name):
    compute, expected = FORMULAS[name]
    np.testing.assert_allclose(compute().numpy(), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("momentum", [0.1, 0.7])
def test_running_statistics_move_towards_the_batchs(momentum):
    mean, var = flambeau.zeros(4, dtype=flambeau.float64), flambeau.ones(4, dtype=flambeau.float64)
    F.batch_norm(t(X), mean, var, training=True, momentum=momentum)
    np.testing.assert_allclose(mean.numpy(), momentum * X.mean((0, 2, 3)))
    # The variance that is kept is the unbiased one.
    expected = 1 - momentum + momentum * X.var((0, 2, 3), ddof=1)
    np.testing.assert_allclose(var.numpy(), expected)
    before = mean.tolist()
    F.batch_norm(t(X), mean, var)
    assert mean.tolist() == before


def test_running_statistics_of_instances_are_their_mean():
    mean, var = flambeau.zeros(4, dtype=flambeau.float64), flambeau.ones(4, dtype=flambeau.float64)
    F.instance_norm(t(X), mean, var, momentum=1.0)
    np.testing.assert_allclose(mean.numpy(), X.mean((0, 2, 3)))
    np.testing.assert_allclose(var.numpy(), X.var((2, 3), ddof=1).mean(0))


def test_zeros_normalize_to_zeros():
    x = flambeau.zeros(2, 3, requires_grad=True)
    for function in (F.normalize, lambda x: F.layer_norm(x, (3,)), lambda x: F.rms_norm(x, (3,))):
        found = function(x)
        assert not found.any()
        (gradient,) = flambeau.autograd.grad(found.sum(), x)
        assert gradient.isfinite().all()


ERRORS = {
    "one value": (ValueError, r"\[1, 4, 1, 1\]",
                  lambda: F.batch_norm(t(X[:1, :, :1, :1]), None, None, training=True)),
    "one element": (ValueError, r"\[1, 4, 1\]", lambda: F.instance_norm(t(X[:1, :, 0, :1]))),
    "statistics": (RuntimeError, "3.*4|4.*3", lambda: F.batch_norm(t(X), t(BIAS[:3]), t(BIAS[:3]))),
    "weight": (RuntimeError, "3.*4|4.*3",
               lambda: F.batch_norm(t(X), t(BIAS), t(WEIGHT**2), t(WEIGHT[:3]))),
    "normalized_shape": (RuntimeError, r"\[4\].*\[3, 4, 2, 5\]|\[3, 4, 2, 5\].*\[4\]",
                         lambda: F.layer_norm(t(X), (4,))),
    "groups": (RuntimeError, "3.*4|4.*3", lambda: F.group_norm(t(X), 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_state_the_facts(name):
    kind, facts, compute = ERRORS[name]
    with pytest.raises(kind, match=facts):
        compute()
