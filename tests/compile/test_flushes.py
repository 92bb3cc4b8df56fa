"""Containers and attributes that a function fills, uses and empties again."""

from collections import defaultdict, deque

import numpy as np
import pytest

import flambeau
from flambeau import nn


class Mixture(nn.Module):
    """Collects a loss at each call."""

    def __init__(self, make):
        super().__init__()
        self.losses = make()

    def forward(self, x):
        self.losses.append(x.sum())
        return x


def replaced(module, make):
    module.losses = make()


def cleared(module, make):
    module.losses.clear()


def emptied(module, make):
    while module.losses:
        module.losses.pop()


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("empty", [replaced, cleared, emptied])
@pytest.mark.parametrize("make", [list, deque])
def test_a_flush_happens_at_every_call(make, empty, fullgraph):
    module = Mixture(make)
    first = module.losses

    def step(x):
        module(x)
        module(x * 2)
        total = sum(module.losses)
        empty(module, make)
        return total

    run = flambeau.compile(step, fullgraph=fullgraph)
    for i in range(1, 4):
        assert run(flambeau.ones(1) * i).item() == 3 * i
        assert not module.losses
    assert run.program_count == 1
    module.losses.append(flambeau.ones(()))
    assert run(flambeau.ones(1)).item() == 4
    # Whoever holds the first list finds what was put there before it was replaced.
    assert [each.item() for each in first] == ([1, 2] if empty is replaced else [])


@pytest.mark.parametrize("make", [dict, lambda: defaultdict(list)])
def test_dictionaries_of_lists_are_flushed(make):
    class Logger:
        """Has a buffer."""

    logger, history = Logger(), []
    logger.buffer = make()

    @flambeau.compile
    def flush(x):
        logger.buffer.setdefault("loss", []).append(x.sum())
        mean = sum(logger.buffer["loss"]) / len(logger.buffer["loss"])
        logger.buffer = make()
        history.append(mean)

    for i in range(3):
        flush(flambeau.ones(2) * i)
        assert len(logger.buffer) == 0
    assert [each.item() for each in history] == [0, 2, 4]
    assert flush.program_count == 1


def test_a_state_that_is_dropped_is_dropped_at_every_call():
    class State:
        hidden = None

    state = State()

    @flambeau.compile
    def step(x):
        result = x if state.hidden is None else x + state.hidden
        state.hidden = None
        return result

    for i in range(4):
        if i % 2:
            state.hidden = flambeau.ones(1) * i
        assert step(flambeau.ones(1)).item() == (1 + i if i % 2 else 1)
        assert state.hidden is None


def test_containers_without_stand_ins_are_restored_before_a_call_runs_eagerly():
    class Row(list):
        """A list of one's own."""

    row, seen, counts, raw = Row(), set(), np.zeros(1), bytearray()

    def step(x):
        row.append(1)
        seen.add(len(seen))
        counts[0] += 1
        raw.append(0)
        return x * len(row) * len(seen) * counts[0] * len(raw)

    run = flambeau.compile(step, fullgraph=False)
    assert [run(flambeau.ones(())).item() for _ in range(2)] == [1, 16]
