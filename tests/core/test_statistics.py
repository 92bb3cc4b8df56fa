"""Counts of programs, and the line that says what is being compiled."""

from __future__ import annotations

import time

import pytest

import flambeau
from flambeau.core.support import statistics
from flambeau.core.support.statistics import Statistics


def test_stats_count_by_name(all_compiled):
    before = flambeau.compiler.stats()
    x = flambeau.ones(17, 3)
    for _ in range(3):
        flambeau.sinh(x)
    after = flambeau.compiler.stats()
    made = [each["by_name"].get("sinh", {"compiled": 0, "loaded": 0}) for each in (before, after)]
    assert sum(made[1][each] - made[0][each] for each in ("compiled", "loaded")) == 1
    assert after["seconds"] > before["seconds"]
    assert after["held"] <= after["bound"]
    assert after["compiled"] + after["loaded"] == after["held"] + after["dropped"]


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(statistics, "_UNNOTICED", 0.1)
    monkeypatch.setattr(statistics, "_IDLE", 0.1)


def test_a_line_says_what_is_compiled_when_it_takes_long(quick, monkeypatch, capsys):
    monkeypatch.setenv("FLAMBEAU_PROGRESS", "1")
    with Statistics().working("conv2d"):
        time.sleep(0.7)
    time.sleep(0.7)
    shown = capsys.readouterr().err
    assert "flambeau: compiling conv2d (program 1, 0 s)" in shown
    assert shown.endswith("\r\033[K")  # The line is gone again.


def test_no_line_in_tests_and_where_nobody_watches(quick, monkeypatch, capsys):
    monkeypatch.delenv("FLAMBEAU_PROGRESS", raising=False)
    with Statistics().working("conv2d"):
        time.sleep(0.5)
    assert capsys.readouterr().err == ""


def test_what_is_traced_is_not_counted_as_a_program():
    x = flambeau.ones(17, 3)
    flambeau.compile(lambda: flambeau.cosh(x).tan().sinh().sum())()
    counts = flambeau.compiler.stats()
    assert counts["dropped"] >= 0
    assert counts["compiled"] + counts["loaded"] == counts["held"] + counts["dropped"]
