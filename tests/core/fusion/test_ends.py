"""Sequences that begin alike, or end where calls go on, run as programs too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.core.devices.donation import copied
from flambeau.core.fusion import stream
from flambeau.core.fusion.closing import Closing
from flambeau.core.programs.compiled import compiled
from flambeau.core.programs.deferred import Deferred
from flambeau.core.programs.gears import settings
from flambeau.core.support.statistics import statistics
from flambeau.optim import step_program
from tests.core.fusion.test_fusion import Fused, unfused
from tests.core.fusion.test_values_that_are_read import picks_by_a_mask, trained


def repeated(value: Any, count: int) -> Any:
    for _ in range(count):
        value = value * 1.5
    return value


def two_that_begin_alike() -> Callable[[], float]:
    """A step of two sequences, of which only the second ends with an optimizer."""
    weight = nn.Parameter(flambeau.ones(3))
    chosen = flambeau.optim.SGD([weight], lr=1e-3)

    def step() -> float:
        scale = float(repeated(weight.detach(), 25).sum())
        chosen.zero_grad()
        repeated(weight.detach(), 3)
        (repeated(weight, 4).sum() / scale).backward()
        chosen.step()
        return scale

    return step


def test_sequences_that_begin_alike_are_fused_at_different_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The longer one is followed first, and with it the beginning of the other."""
    monkeypatch.setattr(
        type(settings), "repetitions", lambda self, calls, results, size: 4 if calls > 20 else 16
    )

    def run() -> list[float]:
        step = two_that_begin_alike()
        return [step() for _ in range(60)]

    expected = unfused(run)
    step = two_that_begin_alike()
    found = [step() for _ in range(50)]
    count = Fused()
    found += [step() for _ in range(10)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert (count.fused, count.left) == (20, 0)


def test_a_sequence_that_ends_where_an_operator_reads_stays_in_use() -> None:
    trained(8, picks_by_a_mask)
    count = Fused()
    trained(8, picks_by_a_mask)
    assert (count.fused, count.left) == (16, 0)


def test_parameters_that_are_views_are_written_after_the_sequence() -> None:
    def run() -> list[float]:
        weight = nn.Parameter(flambeau.ones(6).view(2, 3))
        chosen = flambeau.optim.SGD([weight], lr=0.1)
        losses = []
        for _ in range(12):
            chosen.zero_grad()
            loss = (weight * 2 + 1).square().sum()
            loss.backward()
            chosen.step()
            losses.append(loss.item())
        return losses

    expected = unfused(run)
    count = Fused()
    np.testing.assert_allclose(run(), expected, rtol=1e-5)
    assert count.left == 0
    assert len(stream.here.stream.loops) == 1


def test_arrays_that_have_waited_are_given_to_the_program_in_memory() -> None:
    program = compiled(lambda array: array * 2, "doubled", at_once=True)
    has_waited = False
    for _ in range(8):
        array = (flambeau.ones(4) * 3 + 1)._cell.array
        stream.boundary()
        has_waited |= type(array) is Deferred
        np.testing.assert_array_equal(program(array), [8.0] * 4)
    assert has_waited
    made, loaded = (
        kept.get("doubled", (0, 0)) for kept in (statistics.compiled, statistics.loaded)
    )
    assert made[0] + loaded[0] == 1


def test_an_optimizer_that_stops_copying_overwrites_no_array_that_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program made for copies of the parameters is not run with the parameters themselves."""
    monkeypatch.setattr(type(settings), "repetitions", lambda *_: 3)
    own, given = step_program.owned, []

    def noted(self: Closing, arguments: Any) -> Any:
        found = arguments_of(self, arguments)
        given.append({*map(id, found[0])}.isdisjoint(map(id, found[1])))
        return found

    arguments_of = Closing.arguments
    monkeypatch.setattr(Closing, "arguments", noted)

    def run() -> list[float]:
        flambeau.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1))
        chosen = flambeau.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for i in range(40):
            # As programs do whose memory may be refused.
            copies = (lambda taken, _=(): [*map(copied, taken)]) if i < 12 else own
            monkeypatch.setattr(step_program, "owned", copies)
            chosen.zero_grad()
            loss = model(flambeau.ones(3, 5)).square().sum()
            loss.backward()
            chosen.step()
            losses.append(loss.item())
        return losses

    expected = unfused(run)
    given.clear()
    assert run() == pytest.approx(expected, rel=1e-3)
    assert len(given) > 20
    assert all(given)
