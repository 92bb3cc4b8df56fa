"""Interrupts at random moments, first calls included; FLAMBEAU_INTERRUPTS says how many of each."""

import os
import random
import signal
import sys
import threading
import time

import pytest

import flambeau
from flambeau import nn, optim

# In each situation, by signals and by exceptions from a trace function.
COUNT = int(os.environ.get("FLAMBEAU_INTERRUPTS", "6"))
X = flambeau.ones(4, 3)


class Interrupt(BaseException):
    """What the tests raise where Python may raise a KeyboardInterrupt."""


def numbers(tensors):
    """The elements, read one by one: arrays that are lost raise."""
    return [each.tolist() for each in tensors]


def training(compiled, steps):
    flambeau.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step():
        optimizer.zero_grad()
        model(X).square().sum().backward()
        optimizer.step()

    if compiled:
        step = flambeau.compile(step)
    for _ in range(steps):
        step()

    def state():
        gradients = [each.grad for each in model.parameters() if each.grad is not None]
        assert all(flambeau.isfinite(each).all() for each in gradients)
        momenta = [each["momentum_buffer"] for each in optimizer.state.values() if each]
        # Zeros are what momenta begin with.
        momenta = [each for each in momenta if each is not None and bool(each.any())]
        return numbers([*model.parameters(), *momenta])

    return step, state, optimizer


def first_compiled():
    return training(True, 0)[:2]


def later_compiled():
    return training(True, 3)[:2]


def leaving(steps):
    """A step whose tensors are written, put into attributes, or both."""
    flambeau.manual_seed(0)
    cell = nn.GRUCell(3, 3)
    cell.state, cell.losses, cell.last = flambeau.zeros(4, 3), None, flambeau.zeros(())
    count = flambeau.zeros(())

    @flambeau.compile
    def step():
        state = cell(X, cell.state)
        loss = state.square().sum()
        loss.backward()
        cell.state = state.detach()
        cell.last = loss.detach()
        cell.losses = {"last": cell.last, "all": [loss.detach() * 2]}
        count.add_(1)

    for _ in range(steps):
        step()
    # The first step finds no gradients.
    assert step.program_count == min(steps, 2)

    def state():
        kept = [cell.last]
        if cell.losses:
            kept += [cell.losses["last"], *cell.losses["all"]]
        gradients = [each.grad for each in cell.parameters() if each.grad is not None]
        return numbers([count, cell.state, *kept, *gradients])

    return step, state


def first_leaving():
    return leaving(0)


def later_leaving():
    return leaving(3)


def eager():
    return training(False, 3)[:2]


def first_update():
    _, state, optimizer = training(False, 0)
    for each in optimizer.param_groups[0]["params"]:
        each.grad = flambeau.ones_like(each)
    return optimizer.step, state


def update():
    _, state, optimizer = training(False, 3)
    return optimizer.step, state


def shared(compiled):
    """A step whose parameters share their elements with arrays of NumPy."""
    step, state, optimizer = training(compiled, 3)
    parameters = optimizer.param_groups[0]["params"]
    arrays = [each.detach().numpy() for each in parameters]

    def shared_state():
        found = state()
        assert found[: len(arrays)] == [each.tolist() for each in arrays]
        return found

    return step, shared_state


def eager_shared():
    return shared(False)


def compiled_shared():
    return shared(True)


def materialized():
    flambeau.manual_seed(0)
    with flambeau.device("meta"):
        model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))

    def state():
        tensors = [*model.state_dict().values()]
        metas = [each.is_meta for each in tensors]
        return "meta" if all(metas) else numbers(tensors)

    return model.materialize, state


SITUATIONS = [
    first_compiled, later_compiled, first_leaving, later_leaving,
    eager, first_update, update, eager_shared, compiled_shared, materialized,
]  # fmt: skip


class AnyEvent:
    """A trace function that counts events, and raises at one of them."""

    def __init__(self, at=0):
        self.count, self.at = 0, at

    def __call__(self, frame, event, argument):
        self.count += 1
        if self.count == self.at:
            raise Interrupt
        return self


def by_tracing(action, moment, total):
    previous = sys.gettrace()
    sys.settrace(AnyEvent(1 + int(moment * total[0])))
    try:
        action()
    finally:
        sys.settrace(previous)


def by_signal(action, moment, total):
    try:
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, moment * total[1]))
        action()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def extent_of(situation):
    """How many events and seconds an action takes, and the states before, after it, and later."""
    action, state = situation()
    before = state()
    action()
    after = state()
    action()
    again = state()
    # The shortest of some, since a busy machine would let every signal come too late.
    seconds = []
    for _ in range(3):
        action, _ = situation()
        began = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - began)
    # Events are counted once the programs are there, as they are for the interrupted actions.
    action, _ = situation()
    counter, previous = AnyEvent(), sys.gettrace()
    sys.settrace(counter)
    action()
    sys.settrace(previous)
    return (counter.count, 1.2 * min(seconds)), before, after, again


# Where Python closes a generator, it reports the exception instead of raising it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals need the main thread"
)
@pytest.mark.parametrize("interrupted", [by_signal, by_tracing])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_an_interrupt_leaves_all_as_before_or_as_after(situation, interrupted):
    def interrupt(number, frame):
        raise Interrupt

    total, before, after, again = extent_of(situation)
    chance = random.Random(0)
    previous = signal.signal(signal.SIGALRM, interrupt)
    raised, least = 0, total[1] / 8
    try:
        for i in range(COUNT):
            action, state = situation()
            try:
                interrupted(action, chance.random(), total)
                # The action ended first: most likely it is quicker than it was.
                total = (total[0], max(total[1] / 2, least))
            except Interrupt:
                raised += 1
            except ValueError as error:
                # JAX's C++ turns what interrupts a comparison of its own into such an error.
                assert "Interrupt" in str(error)  # noqa: PT017 (most are no errors at all)
                raised += 1
            found = state()
            assert found in (before, after), f"neither before nor after, at interrupt {i}"
            # What was interrupted goes on as if nothing had happened.
            action()
            assert state() == (after if found == before else again), f"at interrupt {i}"
    finally:
        signal.signal(signal.SIGALRM, previous)
    print(f"{situation.__name__} {interrupted.__name__}: {COUNT} tries, {raised} interrupts")  # noqa: T201
    # A few signals may all come too late on a busy machine.
    assert raised or COUNT < 50 or interrupted is by_tracing
