"""Embeddings: rows of a table, their sums, and what padding and frequency change."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.nn import functional as F

TABLE = np.random.default_rng(0).standard_normal((5, 3))
INDEX = np.array([[0, 2, 4], [2, 2, 1]])
FLAT, OFFSETS = INDEX.ravel(), np.array([0, 1, 1, 4])


def t(array):
    return flambeau.tensor(array)


def test_rows():
    np.testing.assert_array_equal(F.embedding(t(INDEX), t(TABLE)).numpy(), TABLE[INDEX])


def gradient(**options):
    table = t(TABLE).requires_grad_()
    F.embedding(t(INDEX), table, **options).sum().backward()
    return table.grad[:, 0].tolist()


def test_gradients_count_the_uses():
    assert gradient() == [1.0, 1.0, 3.0, 0.0, 1.0]
    assert gradient(padding_idx=2) == [1.0, 1.0, 0.0, 0.0, 1.0]
    assert gradient(padding_idx=-1) == [1.0, 1.0, 3.0, 0.0, 0.0]
    assert gradient(scale_grad_by_freq=True) == [1.0, 1.0, 1.0, 0.0, 1.0]


def test_rows_that_are_too_long_are_shortened_in_place():
    table = t(TABLE)
    F.embedding(t(np.array([0, 2])), table, max_norm=0.5)
    norms = np.linalg.norm(table.numpy(), axis=1)
    np.testing.assert_allclose(norms[[0, 2]], 0.5, rtol=1e-5)
    np.testing.assert_array_equal(table.numpy()[[1, 3, 4]], TABLE[[1, 3, 4]])


REDUCED = {"sum": np.sum, "mean": np.mean, "max": np.max}


@pytest.mark.parametrize("mode", REDUCED)
def test_bags(mode):
    expected = REDUCED[mode](TABLE[INDEX], 1)
    found = F.embedding_bag(t(INDEX), t(TABLE), mode=mode)
    np.testing.assert_allclose(found.numpy(), expected)


@pytest.mark.parametrize("mode", REDUCED)
def test_bags_from_offsets(mode):
    found = F.embedding_bag(t(FLAT), t(TABLE), t(OFFSETS), mode=mode).numpy()
    for row, (start, end) in zip(found, ((0, 1), (1, 1), (1, 4), (4, 6)), strict=True):
        # An empty bag is zero.
        expected = REDUCED[mode](TABLE[FLAT[start:end]], 0) if end > start else np.zeros(3)
        np.testing.assert_allclose(row, expected)
    whole = F.embedding_bag(
        t(FLAT), t(TABLE), t(np.array([0, 1, 1, 4, 6])), mode=mode, include_last_offset=True
    )
    np.testing.assert_array_equal(whole.numpy(), found)


def test_weighted_bags():
    weights = np.array([[0.5, 1.0, 2.0], [1.0, -1.0, 0.0]])
    found = F.embedding_bag(t(INDEX), t(TABLE), mode="sum", per_sample_weights=t(weights))
    np.testing.assert_allclose(found.numpy(), (TABLE[INDEX] * weights[..., None]).sum(1))


def test_padding_counts_in_no_bag():
    found = F.embedding_bag(t(INDEX), t(TABLE), mode="mean", padding_idx=2)
    np.testing.assert_allclose(found.numpy(), [TABLE[[0, 4]].mean(0), TABLE[1]])


def test_one_hot():
    assert F.one_hot(t(INDEX)).tolist() == np.eye(5, dtype=int)[INDEX].tolist()
    assert F.one_hot(t(INDEX), 7).shape == (2, 3, 7)


ERRORS = {
    "row": (IndexError, "5", lambda: F.embedding(t(INDEX + 1), t(TABLE))),
    "padding_idx": (ValueError, "from -5 to 4, got 5",
                    lambda: F.embedding(t(INDEX), t(TABLE), padding_idx=5)),
    "mode": (ValueError, "'sum', 'mean' or 'max', got 'min'",
             lambda: F.embedding_bag(t(INDEX), t(TABLE), mode="min")),
    "rank": (ValueError, r"1-d or 2-d, got shape \[1, 2, 3\]",
             lambda: F.embedding_bag(t(INDEX[None]), t(TABLE))),
    "weights": (NotImplementedError, "mode='sum', not for 'mean'",
                lambda: F.embedding_bag(t(INDEX), t(TABLE), per_sample_weights=t(TABLE[:2]))),
    "shape of the weights": (
        ValueError, r"\[2, 3\], got \[3\]",
        lambda: F.embedding_bag(t(INDEX), t(TABLE), mode="sum", per_sample_weights=t(TABLE[0])),
    ),
    "first offset": (RuntimeError, "begin with 0, got 1",
                     lambda: F.embedding_bag(t(FLAT), t(TABLE), t(OFFSETS[1:]))),
    "last offset": (RuntimeError, "is 9, the input has 6",
                    lambda: F.embedding_bag(t(FLAT), t(TABLE), t(np.array([0, 9])))),
    "classes": (RuntimeError, "from 0 to 2, got 0 to 4", lambda: F.one_hot(t(INDEX), 3)),
    "dtype": (RuntimeError, "int64 class indices, got .*float64", lambda: F.one_hot(t(TABLE))),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_state_the_facts(name):
    kind, facts, compute = ERRORS[name]
    with pytest.raises(kind, match=facts):
        compute()
