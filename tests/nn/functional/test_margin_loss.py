"""Losses with a margin are the formulas of their documentation."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.nn import functional as F

RANDOM = np.random.default_rng(0)
A, B, C = RANDOM.standard_normal((3, 4, 5))
SIGNS, CLASSES = np.array([1.0, -1.0, 1.0, -1.0]), np.array([2, 0, 4, 1])
SEVERAL = np.array([[3, 0, -1, 1, 2], [1, -1, 0, 0, 0]])


def t(array):
    return flambeau.tensor(array)


def distance(x, y):
    return np.sqrt(((x - y + 1e-6) ** 2).sum(1))


def positive(x):
    return np.maximum(x, 0)


def multi_margin(power):
    own = A[range(4), CLASSES][:, None]
    each = positive(1 - own + A) ** power
    each[range(4), CLASSES] = 0
    return each.mean(1)


def multilabel_margin():
    """The first row's classes are 3 and 0, the second's is 1."""
    found = []
    for row, classes in zip(A, ([3, 0], [1]), strict=False):
        others = [i for i in range(5) if i not in classes]
        found.append(sum(positive(1 - (row[j] - row[i])) for j in classes for i in others) / 5)
    return np.array(found)


COSINE = (A * B).sum(1) / np.sqrt((A**2).sum(1) * (B**2).sum(1))
FORMULAS = {
    "hinge_embedding_loss": (
        lambda **kwargs: F.hinge_embedding_loss(t(A[0, :4]), t(SIGNS), 0.5, **kwargs),
        np.where(SIGNS > 0, A[0, :4], positive(0.5 - A[0, :4])),
    ),
    "soft_margin_loss": (
        lambda **kwargs: F.soft_margin_loss(t(A[0, :4]), t(SIGNS), **kwargs),
        np.log1p(np.exp(-SIGNS * A[0, :4])),
    ),
    "margin_ranking_loss": (
        lambda **kwargs: F.margin_ranking_loss(t(A[:, 0]), t(B[:, 0]), t(SIGNS), 0.3, **kwargs),
        positive(-SIGNS * (A[:, 0] - B[:, 0]) + 0.3),
    ),
    "cosine_embedding_loss": (
        lambda **kwargs: F.cosine_embedding_loss(t(A), t(B), t(SIGNS), -0.5, **kwargs),
        np.where(SIGNS > 0, 1 - COSINE, positive(COSINE + 0.5)),
    ),
    "multi_margin_loss": (
        lambda **kwargs: F.multi_margin_loss(t(A), t(CLASSES), **kwargs), multi_margin(1),
    ),
    "multi_margin_loss, squared": (
        lambda **kwargs: F.multi_margin_loss(t(A), t(CLASSES), p=2, **kwargs), multi_margin(2),
    ),
    "multilabel_margin_loss": (
        lambda **kwargs: F.multilabel_margin_loss(t(A[:2]), t(SEVERAL), **kwargs),
        multilabel_margin(),
    ),
    "multilabel_soft_margin_loss": (
        lambda **kwargs: F.multilabel_soft_margin_loss(t(A), t((B > 0) * 1.0), **kwargs),
        np.log1p(np.exp(np.where(B > 0, -A, A))).mean(1),
    ),
    "triplet_margin_loss": (
        lambda **kwargs: F.triplet_margin_loss(t(A), t(B), t(C), 0.5, **kwargs),
        positive(distance(A, B) - distance(A, C) + 0.5),
    ),
    "triplet_margin_loss, swapped": (
        lambda **kwargs: F.triplet_margin_loss(t(A), t(B), t(C), 0.5, swap=True, **kwargs),
        positive(distance(A, B) - np.minimum(distance(A, C), distance(B, C)) + 0.5),
    ),
    "triplet_margin_with_distance_loss": (
        lambda **kwargs: F.triplet_margin_with_distance_loss(
            t(A), t(B), t(C), distance_function=lambda x, y: (x - y).abs().sum(1), **kwargs
        ),
        positive(np.abs(A - B).sum(1) - np.abs(A - C).sum(1) + 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_formula_and_reductions(name):
    compute, expected = FORMULAS[name]
    np.testing.assert_allclose(compute(reduction="none").numpy(), expected, rtol=1e-7, atol=1e-9)
    assert compute().item() == pytest.approx(expected.mean())
    assert compute(reduction="sum").item() == pytest.approx(expected.sum())


ERRORS = {
    "margin": (ValueError, "margin must be positive, got 0",
               lambda: F.triplet_margin_loss(t(A), t(B), t(C), 0)),
    "class": (RuntimeError, r"from 0 to 4 .*\[4, 5\], got 1 to 5",
              lambda: F.multi_margin_loss(t(A), t(CLASSES + 1))),
    "several classes": (RuntimeError, "from -1 to 4 .*got -2 to 2",
                        lambda: F.multilabel_margin_loss(t(A[:2]), t(SEVERAL - 1))),
    "power": (ValueError, "1 or 2.*3|p.*3", lambda: F.multi_margin_loss(t(A), t(CLASSES), p=3)),
    "ranks": (RuntimeError, r"\[4, 5\].*\[5\]",
              lambda: F.triplet_margin_with_distance_loss(t(A), t(B), t(C[0]))),
    "reduction": (ValueError, "'total'",
                  lambda: F.soft_margin_loss(t(A), t(B), reduction="total")),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_state_the_facts(name):
    kind, facts, compute = ERRORS[name]
    with pytest.raises(kind, match=facts):
        compute()
