"""From which repetition on a sequence is one program: a matter of counts and shapes."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import flambeau
from flambeau.core.fusion import sequence, stream
from flambeau.core.programs.gears import REPETITIONS, settings
from flambeau.core.support.statistics import statistics


def fused_after(size: int, most: int) -> int:
    """The repetition that is the first to run as one program; each has three calls."""
    stream.here.stream = stream.Stream()
    before = statistics.fused
    x = flambeau.ones(size)
    for i in range(most):
        ((x * 2.0).exp() + 1.0).sum().item()
        if statistics.fused > before:
            return i
    return most


def test_small_calls_are_fused_when_they_have_cost_the_time_of_compiling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings, "fuse", REPETITIONS)
    first = fused_after(3, REPETITIONS + 10)
    assert 1000 < first <= REPETITIONS
    assert fused_after(3, REPETITIONS + 10) == first
    assert fused_after(4_000_000, 200) < 200


def test_no_sequence_is_fused_later_than_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "fuse", 30)
    assert fused_after(3, 60) == 30


def test_nothing_is_compiled_that_does_not_repeat_often_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings, "fuse", REPETITIONS)
    before = flambeau.compiler.stats()["by_name"].get("fused")
    assert fused_after(5, 150) == 150
    assert flambeau.compiler.stats()["by_name"].get("fused") == before
    assert not [each for each in threading.enumerate() if each.name == "flambeau-fusing"]


def test_what_is_known_of_sequences_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_MOST_POINTS", 20)
    before = statistics.fused
    for size in range(1, 12):
        x = flambeau.ones(size)
        for _ in range(6):
            found = ((x * 2.0).exp() + 1.0).sum().item()
        assert found == pytest.approx(8.389056 * size)
        assert len(stream.here.stream._root.after) <= 6
        assert len(stream.here.stream.loops) <= 6
    assert statistics.fused - before >= 11


def test_arrays_without_elements_are_made_for_compiling_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []

    def noted(*arguments: Any) -> Any:
        made.append(arguments)
        return without_elements(*arguments)

    without_elements = sequence.without_elements
    monkeypatch.setattr(sequence, "without_elements", noted)
    monkeypatch.setattr(settings, "fuse", REPETITIONS)
    assert fused_after(5, 60) == 60
    (point,) = [each.point for each in stream.here.stream._seen.values()]
    assert point is not None
    assert not made
    monkeypatch.setattr(settings, "fuse", 30)
    assert fused_after(6, 60) == 30
    assert len(made) == 1
