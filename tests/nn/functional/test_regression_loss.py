"""Losses of regression are the formulas of their documentation."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.nn import functional as F

X, Y = np.array([[0.1, -2.0, 3.0], [1.0, 0.0, -0.5]]), np.array([[0.5, 1.0, 2.9], [1.0, -3.0, 0.0]])
D = np.abs(X - Y)
FORMULAS = {
    "mse_loss": (F.mse_loss, D**2),
    "l1_loss": (F.l1_loss, D),
    "smooth_l1_loss": (F.smooth_l1_loss, np.where(D < 1, D**2 / 2, D - 0.5)),
    "smooth_l1_loss, beta": (
        lambda x, y, **kwargs: F.smooth_l1_loss(x, y, beta=0.3, **kwargs),
        np.where(D < 0.3, D**2 / 0.6, D - 0.15),
    ),
    "smooth_l1_loss, beta 0": (lambda x, y, **kwargs: F.smooth_l1_loss(x, y, beta=0, **kwargs), D),
    "huber_loss": (
        lambda x, y, **kwargs: F.huber_loss(x, y, delta=0.5, **kwargs),
        np.where(D < 0.5, D**2 / 2, 0.5 * (D - 0.25)),
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formula_and_reductions(name):
    compute, expected = FORMULAS[name]
    x, y = flambeau.tensor(X), flambeau.tensor(Y)
    np.testing.assert_allclose(compute(x, y, reduction="none").numpy(), expected, rtol=1e-12)
    assert compute(x, y).item() == pytest.approx(expected.mean())
    assert compute(x, y, reduction="sum").item() == pytest.approx(expected.sum())


def test_weighted_means_divide_by_the_weights():
    weight = np.array([[1.0, 2.0, 0.0], [0.5, 0.5, 3.0]])
    for function, each in ((F.mse_loss, D**2), (F.l1_loss, D)):
        found = function(flambeau.tensor(X), flambeau.tensor(Y), weight=flambeau.tensor(weight))
        assert found.item() == pytest.approx((each * weight).sum() / weight.sum())


def test_older_arguments_say_which_reduction():
    x, y = flambeau.tensor(X), flambeau.tensor(Y)
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert F.mse_loss(x, y, size_average=False).item() == pytest.approx((D**2).sum())


def test_other_shapes_broadcast_with_a_warning():
    with pytest.warns(UserWarning, match=r"\[3\].*\[2, 3\]|\[2, 3\].*\[3\]"):
        F.mse_loss(flambeau.tensor(X), flambeau.tensor(Y[0]))


ERRORS = {
    "reduction": (ValueError, "'total'", lambda x, y: F.mse_loss(x, y, reduction="total")),
    "beta": (RuntimeError, "-1", lambda x, y: F.smooth_l1_loss(x, y, beta=-1.0)),
    "delta": (RuntimeError, "0", lambda x, y: F.huber_loss(x, y, delta=0.0)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_state_the_facts(name):
    kind, facts, compute = ERRORS[name]
    with pytest.raises(kind, match=facts):
        compute(flambeau.tensor(X), flambeau.tensor(Y))
