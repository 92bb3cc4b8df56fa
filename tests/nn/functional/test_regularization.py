"""Dropout: what is kept, what it becomes, and which elements are dropped together."""

from __future__ import annotations

import pytest

import flambeau
from flambeau.nn import functional as F

X = flambeau.ones(20, 50)


@pytest.fixture(autouse=True)
def _seed():
    flambeau.manual_seed(0)


def test_dropout_keeps_the_mean():
    found = F.dropout(X, 0.2)
    assert set(found.flatten().tolist()) == {0.0, 1.25}
    assert 0.75 < found.count_nonzero().item() / found.numel() < 0.85


def test_gradient_flows_through_what_is_kept():
    x = X.clone().requires_grad_()
    found = F.dropout(x, 0.2)
    found.sum().backward()
    assert flambeau.equal(x.grad, found)


@pytest.mark.parametrize(
    "function", [F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout,
                 F.feature_alpha_dropout]
)  # fmt: skip
def test_without_training_nothing_changes(function):
    x = flambeau.ones(2, 3, *[2] * {F.dropout2d: 2, F.dropout3d: 3}.get(function, 1))
    assert flambeau.equal(function(x, 0.5, training=False), x)
    assert not flambeau.equal(function(x, 1.0, training=True), x)


def test_all_is_dropped_and_none_is():
    assert not F.dropout(X, 1.0).any()
    assert flambeau.equal(F.dropout(X, 0.0), X)


def test_in_place():
    x = X.clone()
    assert F.dropout(x, inplace=True) is x
    assert 0 < x.count_nonzero().item() < x.numel()


@pytest.mark.parametrize(
    ("function", "rank"), [(F.dropout1d, 1), (F.dropout2d, 2), (F.dropout3d, 3)]
)
def test_channels_are_dropped_whole(function, rank):
    found = function(flambeau.ones(8, 16, *[2] * rank), 0.5).flatten(2)
    assert set(found.flatten().tolist()) == {0.0, 2.0}
    assert flambeau.equal(found.amax(2), found.amin(2))
    # And not all channels of a sample alike.
    assert not flambeau.equal(found.amax((1, 2)), found.amin((1, 2)))


def test_alpha_dropout_keeps_mean_and_variance():
    x = flambeau.randn(40_000)
    found = F.alpha_dropout(x, 0.3, training=True)
    assert abs(found.mean().item()) < 0.03
    assert abs(found.std().item() - 1) < 0.03
    values = F.feature_alpha_dropout(flambeau.ones(8, 16, 4), 0.5, training=True)
    assert values.unique().numel() == 2
    assert flambeau.equal(values.amax(2), values.amin(2))


ERRORS = {
    "probability": (ValueError, "from 0 to 1, got 1.5", lambda: F.dropout(X, 1.5)),
    "negative": (ValueError, "from 0 to 1, got -0.1", lambda: F.alpha_dropout(X, -0.1)),
    "shape": (RuntimeError, r"\(N, C, L\) or \(C, L\), got \[50\]", lambda: F.dropout1d(X[0])),
    "channels": (RuntimeError, r"channels, got shape \[50\]",
                 lambda: F.feature_alpha_dropout(X[0], training=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_state_the_facts(name):
    kind, facts, compute = ERRORS[name]
    with pytest.raises(kind, match=facts):
        compute()


def test_doubtful_shapes_warn():
    with pytest.warns(UserWarning, match=r"\(N, C, L\)|3-d"):
        F.dropout2d(flambeau.ones(2, 3, 4))
    with pytest.warns(UserWarning, match=r"dropout3d.*\[2, 3\]"):
        F.dropout3d(flambeau.ones(2, 3))
