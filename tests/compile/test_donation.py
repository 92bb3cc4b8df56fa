"""A compiled training step writes a model where it stands, and never what somebody else holds."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import flambeau
from flambeau import nn, optim
from flambeau.nn import functional as F

X, Y = flambeau.linspace(-1.0, 1.0, 32).view(8, 4), flambeau.zeros(8, 3)


class Training:
    """A model, an optimizer and the compiled step of both."""

    def __init__(self, make, set_to_none=True):
        flambeau.manual_seed(0)
        self.net = nn.Sequential(
            nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3)
        )  # fmt: skip
        self.optimizer = make(self.net.parameters())
        self.set_to_none = set_to_none
        self.step = flambeau.compile(self.one_step, fullgraph=True)

    def one_step(self, x, y):
        loss = F.mse_loss(self.net(x), y)
        self.optimizer.zero_grad(self.set_to_none)
        loss.backward()
        self.optimizer.step()
        return loss

    def overwritten(self):
        """The tensors that a step overwrites: parameters, buffers, the optimizer's state.

        Without counters and other single numbers, which XLA may put anywhere.
        """
        state = [each for values in self.optimizer.state.values() for each in values.values()]
        kept = [] if self.set_to_none else [each.grad for each in self.net.parameters()]
        tensors = [*self.net.parameters(), *self.net.buffers(), *state, *kept]
        return [each for each in tensors if each.numel() > 1]

    def values(self):
        return [each.tolist() for each in self.overwritten()]

    def places(self):
        return [each.data_ptr() for each in self.overwritten()]


def sgd(parameters):
    return optim.SGD(parameters, lr=0.1, momentum=0.9)


def adam(parameters):
    return optim.Adam(parameters, lr=0.1, amsgrad=True)


@pytest.fixture
def training():
    made = Training(sgd)
    for _ in range(2):
        made.step(X, Y)
    return made


@pytest.mark.parametrize("make", [sgd, adam, optim.AdamW], ids=lambda each: each.__name__)
def test_a_step_leaves_everything_where_it_was(make):
    training = Training(make)
    for _ in range(3):
        training.step(X, Y)
    values, places = training.values(), training.places()
    assert len({*places}) == len(values)
    for _ in range(3):
        training.step(X, Y)
    assert training.places() == places
    assert training.values() != values
    assert training.step.program_count == 1


def test_gradients_that_are_kept_are_all_that_moves():
    training = Training(sgd, set_to_none=False)
    for _ in range(2):
        training.step(X, Y)
    places = training.places()
    training.step(X, Y)
    gradients = list(training.net.parameters())
    assert len({*training.places()} - {*places}) <= len(gradients)


def test_programs_for_other_shapes_leave_everything_there_too(training):
    training.step(X[:4], Y[:4])
    places = training.places()
    for count in (8, 4, 8):
        training.step(X[:count], Y[:count])
    assert training.places() == places


def test_eager_use_in_between_costs_nothing(training):
    training.net.eval()
    places = training.places()
    with flambeau.no_grad():
        training.net(X)
    training.net(X).sum().backward()
    training.net.train()
    training.optimizer.zero_grad()
    training.step(X, Y)
    assert training.places() == places


# What others hold


HOLDS = {
    "array": lambda weight: weight.jax(),
    "array of a detached tensor": lambda weight: weight.detach().jax(),
    "NumPy's view of the array": lambda weight: np.asarray(weight.jax()),
    "clone": lambda weight: weight.detach().clone(),
    "copy": lambda weight: copy.deepcopy(weight).detach(),
    "result": lambda weight: weight.detach() + 0,
    "graph": lambda weight: weight * 2,
}


@pytest.mark.parametrize("name", HOLDS)
def test_what_was_taken_before_keeps_its_values(training, name):
    weight = training.net[0].weight
    held = HOLDS[name](weight)
    before = np.array(held.detach() if name == "graph" else held)
    for _ in range(2):
        training.step(X, Y)
    now = held.detach() if name == "graph" else held
    np.testing.assert_array_equal(np.array(now), before)
    assert not np.array_equal(np.array(weight.detach()), before)


def test_a_graph_from_before_gives_the_gradient_of_before(training):
    weight = training.net[0].weight
    squares = (weight * weight).sum()
    before = weight.tolist()
    training.step(X, Y)
    (gradient,) = flambeau.autograd.grad(squares, weight)
    np.testing.assert_allclose(gradient.numpy(), 2 * np.array(before, np.float32))


def test_dictionaries_of_state_follow_and_their_copies_do_not(training):
    state, steps = training.net.state_dict(), training.optimizer.state_dict()
    copies = copy.deepcopy((state, steps))
    for _ in range(2):
        training.step(X, Y)
    for name, value in training.net.state_dict().items():
        assert flambeau.equal(state[name], value)
    assert not flambeau.equal(copies[0]["0.weight"], state["0.weight"])
    momentum = [each["state"][0]["momentum_buffer"] for each in (copies[1], steps)]
    assert not flambeau.equal(*momentum)
    assert flambeau.equal(
        momentum[1], training.optimizer.state_dict()["state"][0]["momentum_buffer"]
    )
    training.net.load_state_dict(copies[0])
    training.optimizer.load_state_dict(copies[1])
    assert flambeau.equal(training.net[0].weight, copies[0]["0.weight"])
    training.step(X, Y)
    assert not flambeau.equal(training.net[0].weight, copies[0]["0.weight"])


def test_views_from_before_follow(training):
    weight = training.net[0].weight
    with flambeau.no_grad():
        row, transposed = weight[1], weight.t()
    for _ in range(2):
        training.step(X, Y)
        assert row.tolist() == weight[1].tolist()
        assert transposed.tolist() == weight.t().tolist()


def test_arguments_are_not_given_away(training):
    x, y = X.clone(), Y.clone()
    before = x.tolist()
    for _ in range(2):
        training.step(x, y)
    assert x.tolist() == before


# Errors


def raising_on(message):
    def hook(module, args):
        raise RuntimeError(message)

    return hook


@pytest.mark.parametrize("kind", ["shape", "numpy", "hook", "interrupt"])
def test_an_error_leaves_everything_usable(training, kind):
    values, places = training.values(), training.places()
    if kind == "shape":
        with pytest.raises(RuntimeError):
            training.step(X[:, :3], Y)
    elif kind == "numpy":
        with pytest.raises(TypeError):
            training.step(X.numpy(), Y)
    elif kind == "hook":
        handle = training.net[3].register_forward_pre_hook(raising_on("mine"))
        with pytest.raises(RuntimeError, match="mine"):
            training.step(X, Y)
        handle.remove()
    else:

        def interrupt(module, args):
            raise KeyboardInterrupt

        handle = training.net[3].register_forward_pre_hook(interrupt)
        with pytest.raises(KeyboardInterrupt):
            training.step(X, Y)
        handle.remove()
    assert training.values() == values
    assert training.places() == places
    training.step(X, Y)
    assert training.values() != values
    places = training.places()
    training.step(X, Y)
    assert training.places() == places
