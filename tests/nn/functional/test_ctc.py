"""The CTC loss is minus the logarithm of the probability of all alignments together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau
from flambeau.nn import functional as F

STEPS, BATCH, CLASSES = 5, 2, 3
SCORES = np.random.default_rng(0).standard_normal((STEPS, BATCH, CLASSES))
LOG = SCORES - np.log(np.exp(SCORES).sum(2, keepdims=True))
TARGETS, INPUT_LENGTHS, TARGET_LENGTHS = np.array([[1, 2, 2], [2, 1, 0]]), [5, 4], [3, 2]


def read(alignment, blank):
    """What an alignment says: repetitions joined, then blanks left out."""
    return tuple(key for key, _ in itertools.groupby(alignment) if key != blank)


def expected(log, target, blank=0):
    """The loss of one sample, alignment by alignment."""
    total = sum(
        np.exp(sum(log[step, each] for step, each in enumerate(alignment)))
        for alignment in itertools.product(range(CLASSES), repeat=len(log))
        if read(alignment, blank) == tuple(target)
    )
    return -np.log(total)


EACH = np.array(
    [
        expected(LOG[:length, i], TARGETS[i, :count])
        for i, (length, count) in enumerate(zip(INPUT_LENGTHS, TARGET_LENGTHS, strict=True))
    ]
)


def loss(targets=TARGETS, **options):
    lengths = [flambeau.tensor(each) for each in (INPUT_LENGTHS, TARGET_LENGTHS)]
    return F.ctc_loss(flambeau.tensor(LOG), flambeau.tensor(targets), *lengths, **options)


def test_all_alignments_are_summed():
    np.testing.assert_allclose(loss(reduction="none").numpy(), EACH)


def test_reductions():
    assert loss(reduction="sum").item() == pytest.approx(EACH.sum())
    # The mean is that of the losses per element of their targets.
    assert loss().item() == pytest.approx((EACH / TARGET_LENGTHS).mean())


def test_targets_one_after_the_other():
    joined = np.concatenate([TARGETS[0, :3], TARGETS[1, :2]])
    np.testing.assert_allclose(loss(joined, reduction="none").numpy(), EACH)


def test_another_blank():
    found = F.ctc_loss(
        flambeau.tensor(LOG[:, 0]), flambeau.tensor([0, 1]), flambeau.tensor(5),
        flambeau.tensor(2), blank=2, reduction="none",
    )  # fmt: skip
    assert found.item() == pytest.approx(expected(LOG[:, 0], [0, 1], blank=2))


def test_a_target_that_is_too_long_is_impossible():
    arguments = flambeau.tensor(LOG[:2, :1]), flambeau.tensor([[1, 1]]), [2], [2]
    assert F.ctc_loss(*arguments, reduction="none").item() == float("inf")
    assert F.ctc_loss(*arguments, zero_infinity=True).item() == 0


LENGTHS = ([5, 4], [3, 2])
ERRORS = {
    "rank": (r"\(T, N, C\) or \(T, C\), got \[5\]", LOG[:, 0, 0], TARGETS, *LENGTHS),
    "number of lengths": ("one number for each of 2 samples, got 1", LOG, TARGETS, [5], [3, 2]),
    "length": (r"from 0 to 5, got \[6, 4\]", LOG, TARGETS, [6, 4], [3, 2]),
    "joined": (r"sum\(target_lengths\) = 5 elements, got 4", LOG, TARGETS.ravel()[:4], *LENGTHS),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_state_the_facts(name):
    facts, log, targets, *lengths = ERRORS[name]
    with pytest.raises(RuntimeError, match=facts):
        F.ctc_loss(flambeau.tensor(log), flambeau.tensor(targets), *lengths)
