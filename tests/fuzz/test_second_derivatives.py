"""A slice of the comparison of second derivatives; `second_derivatives` compares the rest."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is what the derivatives are compared with")

from tests.fuzz import numbers
from tests.fuzz import second_derivatives as second

# Rules that differ from their formula at 0, at ties, at bounds or in a loop.
SLICE = (
    "norms.vector_norm, 2.0", "norms.dist, 2.0", "norms.renorm, 2.0", "distance.cosine_similarity",
    "normalization.normalize, 2.0", "cumulative.logcumsumexp",
    "special.sinc", "activation.elu", "activation.softsign", "activation.hardswish",
    "loss.binary_cross_entropy", "factorization.eigvals",
    "regression_loss.huber_loss, none", "special.hypot",
)  # fmt: skip


@pytest.mark.parametrize("name", SLICE)
def test_a_slice_agrees(name: str) -> None:
    (case,) = (each for each in numbers.cases() if each.name == name)
    found = list(second.compared(case, "float64"))
    assert not found, "\n".join(found)
    gradients = second.gradients(numbers.torch, case, second.arrays_of(case, "float64"))
    assert isinstance(gradients, list)
    assert any(each.any() for each in gradients[1])


@pytest.mark.parametrize("pattern", second.DIFFERENCES)
def test_every_documented_difference_is_there(pattern: str, monkeypatch) -> None:
    monkeypatch.setattr(second, "DIFFERENCES", {pattern: second.DIFFERENCES[pattern]})
    listed = [
        (case, dtype)
        for case in numbers.cases()
        for dtype in second.DTYPES
        if dtype in case.dtypes and second.is_documented(case, dtype)
    ]
    assert any(list(second.compared(*each)) for each in listed)


def test_a_planted_defect_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = (each for each in numbers.cases() if each.name == "arithmetic.square")
    monkeypatch.setattr(numbers.flambeau, "square", lambda x: x * x.abs())
    assert list(second.compared(case, "float64"))
