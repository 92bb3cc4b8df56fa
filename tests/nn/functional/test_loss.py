"""Losses of probabilities are the formulas of their documentation."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau
from flambeau.nn import functional as F

RANDOM = np.random.default_rng(0)
SCORES, TARGETS = RANDOM.standard_normal((4, 3)), np.array([2, 0, 1, 0])
WEIGHT = np.array([0.5, 1.0, 2.0])
PROBABILITIES, WANTED = RANDOM.uniform(0.1, 0.9, (2, 4, 3))


def t(array):
    return flambeau.tensor(array)


def log_softmax(x):
    return x - np.log(np.exp(x).sum(1, keepdims=True))


PICKED = -log_softmax(SCORES)[range(4), TARGETS]
CASES = {
    "cross_entropy": (lambda: F.cross_entropy(t(SCORES), t(TARGETS)), PICKED.mean()),
    "cross_entropy, weighted": (
        lambda: F.cross_entropy(t(SCORES), t(TARGETS), t(WEIGHT)),
        (PICKED * WEIGHT[TARGETS]).sum() / WEIGHT[TARGETS].sum(),
    ),
    "cross_entropy, ignoring": (
        lambda: F.cross_entropy(t(SCORES), t(TARGETS), ignore_index=0), PICKED[[0, 2]].mean(),
    ),
    "cross_entropy, smoothed": (
        lambda: F.cross_entropy(t(SCORES), t(TARGETS), label_smoothing=0.3),
        (0.7 * PICKED - 0.3 * log_softmax(SCORES).mean(1)).mean(),
    ),
    "cross_entropy of probabilities": (
        lambda: F.cross_entropy(t(SCORES), t(WANTED)),
        -(WANTED * log_softmax(SCORES)).sum(1).mean(),
    ),
    "nll_loss": (lambda: F.nll_loss(t(SCORES), t(TARGETS)), -SCORES[range(4), TARGETS].mean()),
    "binary_cross_entropy": (
        lambda: F.binary_cross_entropy(t(PROBABILITIES), t(WANTED)),
        -(WANTED * np.log(PROBABILITIES) + (1 - WANTED) * np.log(1 - PROBABILITIES)).mean(),
    ),
    "binary_cross_entropy_with_logits": (
        lambda: F.binary_cross_entropy_with_logits(t(SCORES), t(WANTED), pos_weight=t(WEIGHT)),
        (
            WANTED * WEIGHT * np.log1p(np.exp(-SCORES)) + (1 - WANTED) * np.log1p(np.exp(SCORES))
        ).mean(),
    ),
    "kl_div": (
        lambda: F.kl_div(t(SCORES), t(WANTED), reduction="batchmean"),
        (WANTED * (np.log(WANTED) - SCORES)).sum() / 4,
    ),
    "kl_div of logarithms": (
        lambda: F.kl_div(t(SCORES), t(WANTED), reduction="sum", log_target=True),
        (np.exp(WANTED) * (WANTED - SCORES)).sum(),
    ),
    "poisson_nll_loss": (
        lambda: F.poisson_nll_loss(t(SCORES), t(WANTED)),
        (np.exp(SCORES) - WANTED * SCORES).mean(),
    ),
    "poisson_nll_loss of rates": (
        lambda: F.poisson_nll_loss(t(PROBABILITIES), t(WANTED), log_input=False, eps=0.1),
        (PROBABILITIES - WANTED * np.log(PROBABILITIES + 0.1)).mean(),
    ),
    "gaussian_nll_loss": (
        lambda: F.gaussian_nll_loss(t(SCORES), t(WANTED), t(PROBABILITIES), full=True),
        (
            np.log(PROBABILITIES) + (SCORES - WANTED) ** 2 / PROBABILITIES + math.log(2 * math.pi)
        ).mean() / 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_formula(name):
    compute, expected = CASES[name]
    assert compute().item() == pytest.approx(expected, rel=1e-12)


def test_reductions():
    each = F.cross_entropy(t(SCORES), t(TARGETS), reduction="none")
    np.testing.assert_allclose(each.numpy(), PICKED)
    total = F.cross_entropy(t(SCORES), t(TARGETS), reduction="sum")
    assert total.item() == pytest.approx(PICKED.sum())


def test_classes_of_pixels():
    scores, classes = t(SCORES.T[None].reshape(1, 3, 2, 2)), t(TARGETS.reshape(1, 2, 2))
    assert F.cross_entropy(scores, classes).item() == pytest.approx(PICKED.mean())
    assert F.cross_entropy(t(SCORES[0]), t(TARGETS[0])).item() == pytest.approx(PICKED[0])


def test_all_ignored_is_nan_and_their_sum_zero():
    ignored = flambeau.full((4,), -100)
    assert F.cross_entropy(t(SCORES), ignored).isnan()
    assert F.cross_entropy(t(SCORES), ignored, reduction="sum").item() == 0


def test_certainty_costs_at_most_a_hundred():
    found = F.binary_cross_entropy(t([0.0, 1.0]), t([1.0, 1.0]), reduction="none")
    assert found.tolist() == [100.0, 0.0]


def test_large_scores_do_not_overflow():
    x = flambeau.tensor([[1e4, -1e4]])
    assert F.cross_entropy(x, flambeau.tensor([1])).item() == 2e4
    assert F.binary_cross_entropy_with_logits(x, flambeau.zeros(1, 2)).item() == 5e3


ERRORS = {
    "class": (IndexError, "3", lambda: F.cross_entropy(t(SCORES), t(TARGETS + 1))),
    "batch": (ValueError, "4.*3", lambda: F.cross_entropy(t(SCORES), t(TARGETS[:3]))),
    "reduction": (ValueError, "'mean'.*'total'",
                  lambda: F.cross_entropy(t(SCORES), t(TARGETS), reduction="total")),
    "smoothing": (RuntimeError, "1.5",
                  lambda: F.cross_entropy(t(SCORES), t(TARGETS), label_smoothing=1.5)),
    "probabilities": (RuntimeError, "from 0 to 1, got -.* to .*with_logits",
                      lambda: F.binary_cross_entropy(t(SCORES * 9), t(WANTED))),
    "shapes": (ValueError, r"\[4, 3\].*\[3\]|\[3\].*\[4, 3\]",
               lambda: F.binary_cross_entropy_with_logits(t(SCORES), t(WEIGHT))),
    "variance": (ValueError, "-1", lambda: F.gaussian_nll_loss(t(SCORES), t(WANTED), -1.0)),
    "shape of the variance": (ValueError, r"\[2\].*\[4, 3\]",
                              lambda: F.gaussian_nll_loss(t(SCORES), t(WANTED), t(WEIGHT[:2]))),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_state_the_facts(name):
    kind, facts, compute = ERRORS[name]
    with pytest.raises(kind, match=facts):
        compute()


def test_kl_div_by_the_mean_of_elements_warns():
    with pytest.warns(UserWarning, match="batchmean"):
        F.kl_div(t(SCORES), t(WANTED))
