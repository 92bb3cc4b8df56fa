"""An interrupt at any moment leaves all tensors as they were before a step, or after it."""

import random
import signal
import sys
import threading

import pytest

import flambeau
from flambeau import nn, optim

X = flambeau.ones(4, 3)


class Interrupt(BaseException):
    """What the tests raise where Python may raise a KeyboardInterrupt."""


class Last:
    """An object whose attribute is set at each call."""


def compiled_step():
    """A compiled step, and every array that it changes, as numbers."""
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    optimizer = optim.Adam(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        model(X).square().sum().backward()
        optimizer.step()

    return flambeau.compile(step), lambda: state_of(model, optimizer)


def eager_step():
    """`optimizer.step()` with gradients that stay, and every array that it changes."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for each in model.parameters():
        each.grad = flambeau.ones_like(each)
    return optimizer.step, lambda: state_of(model, optimizer)


def state_of(model, optimizer):
    """Buffers, parameters and the optimizer's state, read as numbers: deleted arrays raise."""
    tensors = [*model.state_dict().values()]
    for state in optimizer.state.values():
        tensors += [each for each in state.values() if isinstance(each, flambeau.Tensor)]
    return [each.tolist() for each in tensors]


def steps_later(make, count):
    """What the state is after each of so many steps."""
    flambeau.manual_seed(0)
    step, state = make()
    found = []
    for _ in range(count):
        step()
        found.append(state())
    return found


class Raiser:
    """A trace function that raises at one event in flambeau's code.

    Args:
        at: The number of the event.
    """

    def __init__(self, at):
        self.left = at

    def __call__(self, frame, event, argument):
        if "/flambeau/" not in frame.f_code.co_filename:
            return None
        self.left -= 1
        if self.left == 0:
            raise Interrupt
        return self


# Where Python closes a generator, it reports the exception instead of raising it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("make", [compiled_step, eager_step])
def test_an_exception_at_any_line_loses_nothing(make):
    before, after = steps_later(make, 4)[2:]
    flambeau.manual_seed(0)
    step, state = make()
    for _ in range(3):
        step()
    at = 0
    while True:
        at += 1
        raiser, previous = Raiser(at), sys.gettrace()
        sys.settrace(raiser)
        try:
            step()
        except Interrupt:
            pass
        finally:
            sys.settrace(previous)
        found = state()
        assert found in (before, after), f"half a step at event {at}"
        if raiser.left > 0:
            break
        if found == after:
            # On from there: the same step, one later.
            before, after = after, one_more(make, after)
    assert at > 10


def one_more(make, state):
    """The state one step after ``state``."""
    count = 4
    while True:
        count *= 2
        course = steps_later(make, count)
        if state in course[:-1]:
            return course[course.index(state) + 1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals need the main thread"
)
@pytest.mark.parametrize("make", [compiled_step, eager_step])
def test_signals_at_random_moments_lose_nothing(make):
    def interrupt(number, frame):
        raise Interrupt

    course = steps_later(make, 1300)
    flambeau.manual_seed(0)
    step, state = make()
    step()
    chance, previous = random.Random(0), signal.signal(signal.SIGALRM, interrupt)
    interrupted, reached = 0, 0
    try:
        for _ in range(60):
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 1e-3))
                for _ in range(20):
                    step()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupt:
                interrupted += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            found = state()
            assert found in course[reached:], "half a step"
            reached = course.index(found)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert interrupted


def test_a_tensor_that_is_put_into_two_places_is_one_tensor_after_an_interrupt():
    last = Last()

    @flambeau.compile
    def step(x):
        found = x * 2
        last.all = [found, [found]]

    step(X)
    step(X)
    assert step.program_count == 1
    raised, at = 0, 0
    previous = sys.gettrace()
    while True:
        at += 1
        raiser = Raiser(at)
        try:
            sys.settrace(raiser)
            step(X)
        except Interrupt:
            raised += 1
        finally:
            sys.settrace(previous)
        assert last.all[0] is last.all[1][0], f"at event {at}"
        if raiser.left > 0:
            break
    assert raised > 20


def test_an_interrupt_that_jax_has_turned_into_an_error_is_raised_as_it_was():
    @flambeau.compile
    def step(x):
        try:
            raise Interrupt
        except Interrupt as interrupt:
            raise ValueError("as JAX's C++ says it") from interrupt

    with pytest.raises(Interrupt):
        step(X)
