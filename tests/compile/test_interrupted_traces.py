"""An interrupt while a trace is cleaned up leaves the thread, the classes and the tensors whole."""

import os
import sys

import jax
import pytest

import flambeau
from flambeau import nn, optim
from flambeau.compile.reading import interception
from flambeau.compile.recording import Recording
from flambeau.core.programs import jit_core
from flambeau.core.support import jax_private, world
from flambeau.core.support.modes import modes

X = flambeau.ones(4, 3)
# At how many moments of the cleaning up there is an interrupt.
MOMENTS = int(os.environ.get("FLAMBEAU_INTERRUPTS", "8"))


class Interrupt(BaseException):
    """What the tests raise where Python may raise a KeyboardInterrupt."""


class Cleaning:
    """A trace function that counts the events of `Recording._leave`, and raises at one of them."""

    def __init__(self, at=0):
        self.at, self.count = at, 0
        self.has_begun = False

    def __call__(self, frame, event, argument):
        self.has_begun |= frame.f_code is Recording._leave.__code__
        if self.has_begun:
            self.count += 1
            if self.count == self.at:
                raise Interrupt
            if frame.f_code is Recording.record.__code__:
                self.has_begun = False
        return self


class Settings:
    """An object of a class that traces are told of."""

    rate = 0.5


def training(fails):
    flambeau.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    model.last, model.settings = flambeau.zeros(()), Settings()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @flambeau.compile(fullgraph=True)
    def step():
        optimizer.zero_grad()
        loss = model(X).square().sum() * model.settings.rate
        loss.backward()
        optimizer.step()
        model.last = loss.detach()
        model.losses = [loss.detach(), {"x": loss.detach() * 2}]
        if fails:
            raise ValueError("as every call")

    model.losses = None

    def state():
        tensors = [*model.state_dict().values(), model.last]
        tensors += [model.losses[0], model.losses[1]["x"]] if model.losses else []
        tensors += [each.grad for each in model.parameters() if each.grad is not None]
        momenta = [each.get("momentum_buffer") for each in optimizer.state.values()]
        # Zeros are what momenta begin with.
        tensors += [each for each in momenta if each is not None and bool(each.any())]
        return [each.tolist() for each in tensors]

    return step, state


def run(step, at=0):
    """Call a step with an interrupt; gives what it raised, and the events there were."""
    cleaning, previous = Cleaning(at), sys.gettrace()
    sys.settrace(cleaning)
    try:
        step()
    except (Interrupt, ValueError) as error:
        return type(error), cleaning.count
    finally:
        sys.settrace(previous)
    return None, cleaning.count


@pytest.mark.parametrize("fails", [False, True], ids=["traced", "failed"])
def test_an_interrupt_while_a_trace_ends(fails):
    step, state = training(fails)
    before = state()
    raised, events = run(step)
    assert raised is (ValueError if fails else None)
    after = state()
    methods = [name for name in interception.METHODS if name in vars(nn.Sequential)]
    for at in range(1, events + 1, max(1, events // MOMENTS)):
        step, state = training(fails)
        raised, _ = run(step, at)
        assert raised is not None
        assert modes.trace is None, f"the thread still traces, at event {at}"
        assert not world.tracing
        assert not interception._telling
        assert "__setattr__" not in vars(flambeau.Tensor)
        assert methods == [name for name in interception.METHODS if name in vars(nn.Sequential)]
        assert state() == before, f"at event {at}"
        assert run(step)[0] is (ValueError if fails else None)
        assert state() == after, f"at event {at}"


@pytest.mark.skipif(jax_private._trace_ctx is None, reason="this JAX keeps its trace elsewhere")
def test_a_transformation_of_jax_that_did_not_end_is_ended():
    context, found = jax_private._trace_ctx, []
    jax.jit(lambda x: (found.append(context.trace), x)[1])(1.0)
    with pytest.raises(Interrupt), jit_core.tracing():
        # What an interrupt between two lines of JAX can leave.
        context.set_trace(found[0])
        raise Interrupt
    assert (flambeau.ones(2) + 1).tolist() == [2.0, 2.0]
