"""A few functions that ask for values at every run of the tests; and planted defects."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau
from flambeau.compile import function, program
from tests.fuzz import answers
from tests.fuzz.slices import SLICE_OF_A_SEARCH

CHOOSES = """
def step(x, y):
    if x.sum() > 0:
        state['count'].add_(1)
    return x * 2
"""
CALLS = [([1.0] * 3, [0.0] * 3)] * 4 + [([-1.0] * 3, [0.0] * 3)] * 2


@SLICE_OF_A_SEARCH
def test_programs_give_what_eager_calls_give() -> None:
    report = answers.run(None, 0, 12)
    assert not report.disagreements, str(report)
    assert report.counts["programs"] >= 3


def test_the_same_seed_gives_the_same_function() -> None:
    assert answers.program_of(3, 4) == answers.program_of(3, 4)
    assert answers.program_of(3, 4) != answers.program_of(3, 5)
    assert answers.arguments_of(3, 4) == answers.arguments_of(3, 4)


def test_an_answer_that_is_not_checked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answers.judged(CHOOSES, CALLS) == ("", 2)
    monkeypatch.setattr(program, "checked", lambda executable, *_: executable)
    assert "call 4: count is" in answers.judged(CHOOSES, CALLS)[0]


def test_a_call_that_happens_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    learn = function.CompiledFunction._learn

    def twice(*given: Any) -> Any:
        learn(*given)
        return learn(*given)

    monkeypatch.setattr(function.CompiledFunction, "_learn", twice)
    assert "call 0: count is 2.0, not 1.0" in answers.judged(CHOOSES, CALLS)[0]


def test_other_errors_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(step: Any, **_: Any) -> Any:
        class Refusing:
            program_count = 0

            def __call__(self, *_: Any) -> Any:
                raise TypeError("no")

        return Refusing()

    monkeypatch.setattr(flambeau, "compile", refuse)
    assert "TypeError" in answers.judged(CHOOSES, CALLS)[0]
