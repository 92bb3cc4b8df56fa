"""Distances and similarities of vectors."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.nn import functional as F

A, B = np.random.default_rng(0).standard_normal((2, 4, 3))


def t(array):
    return flambeau.tensor(array)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_distances_of_rows(p):
    every = A[:, None] - B[None]
    expected = np.linalg.norm(every.reshape(-1, 3), p, axis=1).reshape(4, 4)
    np.testing.assert_allclose(flambeau.cdist(t(A), t(B), p).numpy(), expected, rtol=1e-7)
    own = np.linalg.norm((A[:, None] - A[None]).reshape(-1, 3), p, axis=1).reshape(4, 4)
    np.testing.assert_allclose(F.pdist(t(A), p).numpy(), own[np.triu_indices(4, 1)], rtol=1e-7)
    if p:
        paired = F.pairwise_distance(t(A), t(B), p, eps=0.0)
        np.testing.assert_allclose(paired.numpy(), np.linalg.norm(A - B, p, axis=1), rtol=1e-7)


def test_the_distance_of_equal_rows_has_a_gradient_of_zero():
    x = t(A).requires_grad_()
    flambeau.cdist(x, x.detach()).diagonal().sum().backward()
    assert not x.grad.any()


def test_pairwise_distance_adds_a_little():
    found = F.pairwise_distance(t(A), t(A), eps=0.1, keepdim=True)
    np.testing.assert_allclose(found.numpy(), np.full((4, 1), 0.1 * np.sqrt(3)))


def test_cosines():
    expected = (A * B).sum(1) / np.linalg.norm(A, axis=1) / np.linalg.norm(B, axis=1)
    np.testing.assert_allclose(F.cosine_similarity(t(A), t(B)).numpy(), expected)
    assert F.cosine_similarity(t(A[0]), t(A[0]), dim=0).item() == pytest.approx(1)
    assert F.cosine_similarity(t(A[:1]), flambeau.zeros(1, 3).double()).item() == 0


ERRORS = {
    "columns": (r"\[4, 3\].*\[4, 2\]|3.*2", lambda: flambeau.cdist(t(A), t(B[:, :2]))),
    "order": ("-1", lambda: flambeau.cdist(t(A), t(B), p=-1.0)),
    "rank": (r"\[3\]|1", lambda: F.pdist(t(A[0]))),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_state_the_facts(name):
    facts, compute = ERRORS[name]
    with pytest.raises(RuntimeError, match=facts):
        compute()
