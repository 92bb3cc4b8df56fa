"""Activations are the formulas of their documentation."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau
from flambeau.nn import functional as F

X = np.array([[-4.0, -1.5, -0.7, -0.2], [0.0, 0.3, 1.2, 7.5]])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


ERF = np.vectorize(math.erf)
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805

FORMULAS = {
    "relu": (F.relu, lambda x: np.maximum(x, 0)),
    "relu6": (F.relu6, lambda x: np.clip(x, 0, 6)),
    "hardtanh": (lambda x: F.hardtanh(x, -0.5, 2.0), lambda x: np.clip(x, -0.5, 2)),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    "elu": (lambda x: F.elu(x, 0.7), lambda x: np.where(x > 0, x, 0.7 * np.expm1(x))),
    "selu": (F.selu, lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(x))),
    "celu": (lambda x: F.celu(x, 0.7), lambda x: np.where(x > 0, x, 0.7 * np.expm1(x / 0.7))),
    "silu": (F.silu, lambda x: x * sigmoid(x)),
    "mish": (F.mish, lambda x: x * np.tanh(softplus(x))),
    "gelu": (F.gelu, lambda x: x * (1 + ERF(x / np.sqrt(2))) / 2),
    "gelu by tanh": (
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    ),
    "hardsigmoid": (F.hardsigmoid, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    "hardswish": (F.hardswish, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "threshold": (lambda x: F.threshold(x, 0.2, 3.0), lambda x: np.where(x > 0.2, x, 3.0)),
    "hardshrink": (F.hardshrink, lambda x: np.where(np.abs(x) > 0.5, x, 0)),
    "softshrink": (F.softshrink, lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0)),
    "softsign": (F.softsign, lambda x: x / (1 + np.abs(x))),
    "tanhshrink": (F.tanhshrink, lambda x: x - np.tanh(x)),
    "logsigmoid": (F.logsigmoid, lambda x: np.log(sigmoid(x))),
    "softplus": (F.softplus, softplus),
    "softplus, sharper": (
        lambda x: F.softplus(x, 3.0), lambda x: np.where(3 * x > 20, x, softplus(3 * x) / 3),
    ),
    "softplus beyond its threshold": (
        lambda x: F.softplus(x, 1.0, 1.0), lambda x: np.where(x > 1, x, softplus(x)),
    ),
    "glu": (lambda x: F.glu(x, 1), lambda x: x[:, :2] * sigmoid(x[:, 2:])),
    "softmax": (
        lambda x: F.softmax(x, 1), lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True),
    ),
    "softmin": (
        lambda x: F.softmin(x, 0), lambda x: np.exp(-x) / np.exp(-x).sum(0, keepdims=True),
    ),
    "log_softmax": (
        lambda x: F.log_softmax(x, 1), lambda x: x - np.log(np.exp(x).sum(1, keepdims=True)),
    ),
    "prelu": (
        lambda x: F.prelu(x, flambeau.tensor([0.1, 0.2, 0.3, 0.4], dtype=flambeau.float64)),
        lambda x: np.where(x > 0, x, [0.1, 0.2, 0.3, 0.4] * x),
    ),
    "rrelu when not training": (
        lambda x: F.rrelu(x, 0.1, 0.3), lambda x: np.where(x >= 0, x, 0.2 * x),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name):
    compute, formula = FORMULAS[name]
    found = compute(flambeau.tensor(X))
    assert found.dtype is flambeau.float64
    np.testing.assert_allclose(found.numpy(), formula(X), rtol=1e-12, atol=1e-12)


IN_PLACE = [
    F.relu, F.relu6, F.hardtanh, F.leaky_relu, F.elu, F.selu, F.celu, F.silu, F.mish,
    F.hardsigmoid, F.hardswish, F.rrelu, lambda x, **kwargs: F.threshold(x, 0.2, 3.0, **kwargs),
]  # fmt: skip


@pytest.mark.parametrize("function", IN_PLACE)
def test_in_place_the_input_is_overwritten(function):
    x = flambeau.tensor(X)
    expected = function(x)
    assert flambeau.equal(x, flambeau.tensor(X))
    assert function(x, inplace=True) is x
    assert flambeau.equal(x, expected)


def test_rrelu_draws_a_slope_between_its_bounds():
    flambeau.manual_seed(0)
    x = -flambeau.ones(50)
    slopes = -F.rrelu(x, 0.1, 0.3, training=True)
    assert ((slopes >= 0.1) & (slopes <= 0.3)).all()
    assert slopes.unique().numel() > 40


def test_gumbel_softmax():
    flambeau.manual_seed(0)
    logits = flambeau.tensor([[0.0, 1.0, 2.0]] * 400, requires_grad=True)
    soft = F.gumbel_softmax(logits, tau=0.5)
    np.testing.assert_allclose(soft.sum(1).detach().numpy(), 1, rtol=1e-5)
    hard = F.gumbel_softmax(logits, hard=True)
    assert set(hard.detach().flatten().tolist()) == {0.0, 1.0}
    # How often each class is drawn is its probability.
    frequencies = hard.detach().mean(0).numpy()
    np.testing.assert_allclose(frequencies, F.softmax(logits[0], 0).detach().numpy(), atol=0.08)
    hard[:, 0].sum().backward()
    assert logits.grad.abs().sum() > 0


def test_softmax_in_another_dtype():
    x = flambeau.tensor(X, dtype=flambeau.float32)
    assert F.softmax(x, 1, dtype=flambeau.float64).dtype is flambeau.float64


def test_large_numbers_do_not_overflow():
    x = flambeau.tensor([-1e4, 0.0, 1e4])
    for function in (F.softplus, F.logsigmoid, F.silu, F.mish, F.gelu, F.selu):
        assert function(x).isfinite().all()
    assert F.softmax(x, 0).tolist() == [0.0, 0.0, 1.0]
    assert F.log_softmax(x, 0).tolist() == [-2e4, -1e4, 0.0]


def test_softmax_without_a_dimension_warns_of_the_one_it_takes():
    with pytest.warns(UserWarning, match="dim"):
        found = F.softmax(flambeau.tensor(X))
    assert flambeau.equal(found, F.softmax(flambeau.tensor(X), 1))


ERRORS = {
    "rrelu": (RuntimeError, "lower 0.5 is greater than upper 0.1",
              lambda x: F.rrelu(x, 0.5, 0.1)),
    "glu": (RuntimeError, "odd|even|2", lambda x: F.glu(x[:, :3], 1)),
    "prelu": (RuntimeError, "3.*4|4.*3", lambda x: F.prelu(x, x[0, :3])),
    "gelu": (RuntimeError, "'none' or 'tanh'.*'erf'", lambda x: F.gelu(x, approximate="erf")),
    "softmax": (IndexError, "out of range .* but got 2", lambda x: F.softmax(x, 2)),
    "integers": (NotImplementedError, "int64", lambda x: F.gelu(x.long())),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_state_the_facts(name):
    kind, facts, compute = ERRORS[name]
    with pytest.raises(kind, match=facts):
        compute(flambeau.tensor(X))
