"""Operators that read values, such as masks and indices, end a sequence where it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau.core.fusion import stream
from flambeau.core.programs.deferred import Deferred
from flambeau.nn import functional as F
from tests.core.fusion.test_fusion import Fused, batch, network, unfused


def picks_by_a_mask(found: Any) -> Any:
    return found[(found.softmax(1) * 2).amax(1) > 0.5]


def picks_positions(found: Any) -> Any:
    return found[(found.softmax(1) * 2).amax(1).argsort()]


def picks_with_nonzero(found: Any) -> Any:
    (chosen,) = ((found.softmax(1) * 2).amax(1) > 0.5).nonzero(as_tuple=True)
    return found.index_select(0, chosen)


def looks_up_rows(found: Any) -> Any:
    return F.embedding((found.softmax(1) * 2).argmax(1), flambeau.ones(3, 2)) * found[:, :2]


def fills_by_a_mask(found: Any) -> Any:
    mask = (found.softmax(1) * 2).amax(1, keepdim=True) > 0.5
    return found.masked_scatter(mask, flambeau.zeros(15))


def trained(steps: int, pick: Callable[[Any], Any]) -> list[float]:
    net, losses = network(), []
    chosen = flambeau.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(steps):
        chosen.zero_grad()
        loss = pick(net(batch(0))).square().sum()
        loss.backward()
        chosen.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    "pick",
    [picks_by_a_mask, picks_positions, picks_with_nonzero, looks_up_rows, fills_by_a_mask],
    ids=lambda pick: pick.__name__,
)
def test_no_sequence_is_left_where_an_operator_reads_a_value(pick: Callable[[Any], Any]) -> None:
    expected = unfused(lambda: trained(12, pick))
    count = Fused()
    np.testing.assert_allclose(trained(12, pick), expected, rtol=1e-5)
    assert count.left == 0
    # The calls before the value, and those after it.
    assert count.fused >= 12


def test_a_value_that_few_calls_lead_to_divides_nothing() -> None:
    def pick(found: Any) -> Any:
        return found[flambeau.arange(5) != 2]

    count = Fused()
    trained(12, pick)
    assert count.left == 0
    assert len(stream.here.stream.loops) == 1


def test_a_value_that_is_read_later_on_divides_the_sequence_from_then_on() -> None:
    """While the sequence was recorded, nothing was read."""
    weight, is_read = flambeau.ones(4), False

    def run() -> float:
        found = (weight * 2 + 1).exp().log() * 3
        mask = found > 1
        kept = found[mask] if is_read else found
        return float(kept.sum())

    for _ in range(10):
        run()
    assert len(stream.here.stream.loops) == 1
    is_read, count = True, Fused()
    assert {run() for _ in range(10)} == {36.0}
    assert count.left <= 1
    assert count.fused >= 8


def test_where_an_array_is_does_not_compute_it() -> None:
    weight = flambeau.ones(4)
    for _ in range(8):
        found = (weight * 2 + 1).exp()
        array = found._cell.array
        has_waited = type(array) is Deferred
        assert array.devices() == weight._cell.array.devices()
        still_waits = has_waited and array.segment is not None
        stream.boundary()
    assert still_waits
