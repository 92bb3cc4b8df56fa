"""What a compiled function sets from call to call is there: attributes, globals, states."""

import copy

import numpy as np
import pytest

import flambeau
from flambeau import nn

pytestmark = pytest.mark.filterwarnings("error")

LAST = None


class Trainer:
    def __init__(self):
        self.loss = None
        self.model = nn.Linear(2, 2)

    def step(self, x):
        global LAST
        y = self.model(x)
        self.loss = y.sum()
        self.outputs = [y, {"y": y}]
        LAST = (y, self.loss)
        return self.loss


def test_attributes_and_globals_are_set_at_each_call():
    trainer, total = Trainer(), flambeau.zeros(())
    trainer.outputs = None

    def step(x):
        nonlocal total
        total = total + trainer.step(x)

    run, expected = flambeau.compile(step), 0.0
    for i in range(4):
        x = flambeau.full((1, 2), float(i))
        run(x)
        y = trainer.model(x)
        expected = expected + y.sum()
        np.testing.assert_allclose(total.item(), expected.item(), rtol=1e-5)
        assert trainer.loss.allclose(y.sum())
        assert LAST[0].allclose(y)
        assert LAST[1] is trainer.loss
        assert trainer.outputs[0] is trainer.outputs[1]["y"] is LAST[0]
    # The first call finds nothing in the attributes.
    assert run.program_count == 2


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(2, 2)
        self.state = None

    def forward(self, x):
        h, c = self.cell(x, self.state)
        self.state = (h.detach(), c.detach())
        return h


def test_a_tuple_of_tensors_is_carried_on():
    flambeau.manual_seed(0)
    model = Recurrent()
    eager, run = copy.deepcopy(model), flambeau.compile(model)
    for i in range(4):
        x = flambeau.full((1, 2), float(i))
        assert run(x).allclose(eager(x))
        assert all(a.allclose(b) for a, b in zip(model.state, eager.state, strict=True))
    assert flambeau.compile(lambda x: model(x)).program_count == 0


def test_the_history_of_what_is_carried_on_reaches_back():
    weight, kept = flambeau.tensor([2.0], requires_grad=True), {}

    def step(x):
        kept["y"] = kept.get("y", 1.0) * weight * x

    run = flambeau.compile(step)
    for _ in range(3):
        run(flambeau.ones(1))
    kept["y"].sum().backward()
    assert weight.grad.tolist() == [12.0]
    assert run.program_count == 2


def test_the_tensor_in_a_container_is_written_in_place():
    net = nn.Module()
    net.cache = {"k": flambeau.zeros(4), "n": flambeau.zeros((), dtype=flambeau.int64)}

    @flambeau.compile
    def step(x):
        net.cache["k"][1:2] = x
        net.cache["n"].add_(1)
        net.cache["last"] = x * 2

    for i in range(3):
        if i == 2:
            net.cache["k"] = flambeau.ones(4)
        step(flambeau.full((1,), float(i)))
    assert net.cache["k"].tolist() == [1.0, 2.0, 1.0, 1.0]
    assert net.cache["n"].item() == 3
    assert step.program_count == 1


class Carried:
    hidden = None


@pytest.mark.parametrize("kind", [tuple, list])
@pytest.mark.parametrize("fullgraph", [True, False])
def test_tensors_in_a_container_are_taken_off_the_tape_at_each_call(kind, fullgraph):
    weight = flambeau.ones(2, requires_grad=True)

    def cut():
        Carried.hidden = kind(each.detach() for each in Carried.hidden)

    run = flambeau.compile(cut, fullgraph=fullgraph)
    for call in range(3):
        Carried.hidden = kind((weight * call, weight + call))
        run()
        assert [each.requires_grad for each in Carried.hidden] == [False, False]
        assert [each.tolist() for each in Carried.hidden] == [[call] * 2, [call + 1] * 2]


def test_tensors_from_outside_change_places_at_each_call():
    def swap():
        Carried.hidden = Carried.hidden[::-1]

    run = flambeau.compile(swap)
    for _ in range(3):
        one, other = flambeau.ones(1), flambeau.zeros(1)
        Carried.hidden = (one, other)
        run()
        assert Carried.hidden[0] is other
        assert Carried.hidden[1] is one
