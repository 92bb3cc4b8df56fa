"""Dictionaries that forget what was not asked for."""

from __future__ import annotations

import gc

import pytest

from flambeau.core.support import generations
from flambeau.core.support.generations import Generations, put_aside, remembered


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A small bound; entries that the process has made before are kept out of it."""
    monkeypatch.setattr(Generations, "bound", 10)
    monkeypatch.setattr(Generations, "_all", [])
    monkeypatch.setattr(Generations, "_made", 0)


def test_what_is_in_use_stays_however_many_come():
    found = Generations()
    found["used"] = 1
    for number in range(100):
        found[number] = number
        assert found["used"] == 1
    assert len(found) + len(found._aside) <= 25


def test_what_is_not_asked_for_goes():
    found = Generations()
    found["old"] = 1
    put_aside()
    assert found["old"] == 1
    put_aside()
    put_aside()
    with pytest.raises(KeyError):
        found["old"]


def test_one_bound_for_all():
    few, many = Generations(), Generations()
    few["old"] = 1
    for number in range(30):
        many[number] = number
    with pytest.raises(KeyError):
        few["old"]


def test_dictionaries_that_are_gone_are_forgotten():
    for _ in range(5):
        Generations()[1] = 1
    gc.collect()
    put_aside()
    assert generations.Generations._all == []


def test_clear_forgets_what_is_aside_too():
    found = Generations()
    found["old"] = 1
    put_aside()
    found.clear()
    with pytest.raises(KeyError):
        found["old"]


def test_remembered_results():
    calls = []

    @remembered
    def double(number):
        calls.append(number)
        return number * 2

    assert [double(1), double(1), double(2)] == [2, 2, 4]
    assert calls == [1, 2]
    double.cache_clear()
    double(1)
    assert calls == [1, 2, 1]
