"""An interrupt in a step whose calls wait leaves parameters and state as before or as after."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau import nn, optim
from flambeau.core.fusion import stream

COUNT = int(os.environ.get("FLAMBEAU_INTERRUPTS", "12"))
X = flambeau.from_numpy(np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32))


class Interrupt(BaseException):
    """Raised where Python may raise a KeyboardInterrupt."""


class AnyEvent:
    """A trace function that counts events, and raises at one of them."""

    def __init__(self, at: int = 0) -> None:
        self.count, self.at = 0, at

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        self.count += 1
        if self.count == self.at:
            raise Interrupt
        return self


def traced(action: Callable[[], Any], at: int = 0) -> int:
    """The number of events in ``action``, which is interrupted at one of them."""
    counter, previous = AnyEvent(at), sys.gettrace()
    sys.settrace(counter)
    try:
        action()
    finally:
        sys.settrace(previous)
    return counter.count


def training() -> tuple[Callable[[], None], Callable[[], list[Any]]]:
    """A step that is followed, and the state that it changes."""
    flambeau.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        model(X * 2.0).square().sum().backward()
        optimizer.step()

    for _ in range(6):
        step()

    def state() -> list[Any]:
        gradients = [each.grad for each in model.parameters() if each.grad is not None]
        assert all(np.isfinite(each.numpy()).all() for each in gradients)
        momenta = [each["momentum_buffer"] for each in optimizer.state.values()]
        return [each.detach().numpy().copy() for each in (*model.parameters(), *momenta)]

    return step, state


def is_same(one: list[Any], other: list[Any]) -> bool:
    return all(np.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(one, other, strict=True))


# Python reports an exception in a finalizer instead of raising it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_leaves_all_as_before_or_as_after() -> None:
    step, state = training()
    assert stream.here.stream.take is not None
    before = state()
    total = traced(step)
    after = state()
    step()
    again = state()
    chance = random.Random(0)
    raised = 0
    for i in range(COUNT):
        step, state = training()
        try:
            traced(step, 1 + int(chance.random() * total))
        except Interrupt:
            raised += 1
        found = state()
        assert is_same(found, before) or is_same(found, after), f"at interrupt {i}"
        step()
        expected = after if is_same(found, before) else again
        assert is_same(state(), expected), f"at interrupt {i}"
    assert raised
