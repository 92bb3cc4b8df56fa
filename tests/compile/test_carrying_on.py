"""What a compiled function sets is there at each call: attributes, globals, recurrent state."""

import dataclasses
import types
from typing import Any

import pytest

import flambeau
from flambeau import nn
from flambeau.compile.program import Program
from tests.compile.following import (
    MAY_RUN_EAGERLY,
    X,
    argument,
    check_as_eagerly,
    check_refusal,
    check_refused,
    tracers,
)

LAST: Any = None


class Holder:
    hidden: Any = None


@dataclasses.dataclass(eq=False)
class Node:
    value: Any
    other: Any = None


# Scenes: the function, the state outside, and what changes between calls; see `course`.


def attributes_and_globals():
    global LAST
    LAST = None
    holder, total = Holder(), flambeau.zeros(())
    model = filled(nn.Linear(2, 2))

    def step(x):
        global LAST
        nonlocal total
        y = model(x)
        holder.loss = y.sum()
        holder.outputs = [y, {"y": y}]
        LAST = (y, holder.loss)
        total = total + holder.loss
        return holder.loss

    def change(call):
        holder.outputs = [None, "text", 3.0, {"x": X}, holder][call]

    return step, lambda: (vars(holder), LAST, total), change


def numbers_and_strings():
    holder = Holder()

    def step(x):
        holder.last_shape, holder.mode, holder.count = x.shape, "train", 3
        holder.found = ["a", (1, 2.0, None), {"k": [True]}]
        return x * holder.count + holder.last_shape[0]

    def change(call):
        holder.mode, holder.count = ["eval", None, "train", X, 5][call], call
        holder.last_shape = (call,)

    return step, lambda: vars(holder), change


def a_dataclass_in_an_attribute():
    holder = Holder()
    holder.node = None

    def step(x):
        holder.node = Node(x + 1, [Node([x * 2])])
        return x

    return step, lambda: holder.node


def a_dataclass_in_a_global():
    global LAST
    LAST = None

    def step(x):
        global LAST
        LAST = Node([x * 2])
        return x

    return step, lambda: LAST


def attributes_of_a_module_before_it_is_called():
    module = nn.Linear(2, 2)
    filled(module).register_forward_hook(lambda self, args, output: output * self.state)

    def step(x):
        module.state = x.sum()
        module.kept = [x, module.state]
        module.later = {"x": x * 3}
        return module(x)

    return step, lambda: (module.state, module.kept, module.later)


def an_attribute_that_is_emptied_before_hooks_fill_it():
    net, recorder = filled(nn.Linear(2, 2)), Holder()
    net.register_forward_hook(lambda module, args, output: recorder.features.append(output * 2))

    def step(x):
        recorder.features = []
        return net(x), len(recorder.features)

    def change(call):
        recorder.features = [[], [X], None, {}, [1]][call]

    return step, lambda: vars(recorder), change


def a_recurrent_state():
    flambeau.manual_seed(0)
    model = nn.LSTMCell(2, 2)
    model.state = (flambeau.zeros(2, 2), flambeau.zeros(2, 2))

    def step(x):
        h, c = model(x, model.state)
        model.state = (h.detach(), c.detach())
        return h

    def change(call):
        if call == 2:
            model.state = (flambeau.ones(2, 2), model.state[0])

    return step, lambda: model.state, change


def a_state_that_is_a_tensor():
    holder = Holder()
    holder.last = holder.hidden = flambeau.zeros(2, 2)

    def step(x):
        last, holder.last = holder.last, x * 1
        holder.hidden = (holder.hidden + x).tanh()
        return last

    def change(call):
        if call == 2:
            holder.last = holder.hidden = flambeau.ones(2, 2)

    return step, lambda: vars(holder), change


def a_state_that_is_dropped():
    state = Holder()
    state.hidden = None

    def step(x):
        result = x if state.hidden is None else x + state.hidden
        state.hidden = None
        return result

    def change(call):
        if call % 2:
            state.hidden = flambeau.ones(1) * call

    return step, lambda: vars(state), change


def history_is_cut():
    weight, state = flambeau.ones(2, requires_grad=True), Holder()
    state.hidden = (weight, weight + 1)

    def step(x):
        state.hidden = tuple(each.detach() for each in state.hidden)

    def change(call):
        state.hidden = (weight * call, weight + call)

    return step, lambda: vars(state), change


def history_is_cut_in_a_list():
    weight, state = flambeau.ones(2, requires_grad=True), Holder()
    state.hidden = [weight, weight + 1]

    def step(x):
        state.hidden = [each.detach() for each in state.hidden]

    def change(call):
        state.hidden = [weight * call, weight + call]

    return step, lambda: vars(state), change


def tensors_change_places():
    state = Holder()
    pairs = [(flambeau.full((1,), i), flambeau.ones(1)) for i in range(6)]
    state.hidden = pairs[0]

    def step(x):
        state.hidden = state.hidden[::-1]

    def change(call):
        state.hidden = pairs[call + 1]

    return step, lambda: (pairs, state.hidden), change


def numbers_are_counted():
    state = Holder()
    state.count = 0

    def step(x):
        state.count = state.count + 1
        return x * state.count

    def change(call):
        if call == 2:
            state.count = 41

    return step, lambda: vars(state), change


def numbers_are_counted_and_read():
    state = Holder()
    state.count = 0

    def step(x):
        state.count = state.count + 1
        return x * [0, 5, 3, 4, 7, 1, 2, 6][state.count]

    return step, lambda: vars(state), lambda _: None


def attributes_of_a_namespace():
    space = types.SimpleNamespace(features=[X])

    def step(x):
        space.features = [x * 2]
        space.mode = "train"

    return step, lambda: space.features


PROGRAMS = {
    # The second call finds a total with a history.
    attributes_and_globals: 2,
    numbers_and_strings: 1,
    a_dataclass_in_an_attribute: 1,
    a_dataclass_in_a_global: None,
    attributes_of_a_module_before_it_is_called: 1,
    an_attribute_that_is_emptied_before_hooks_fill_it: 1,
    a_recurrent_state: 1,
    # Later, two attributes hold one tensor.
    a_state_that_is_a_tensor: 2,
    a_state_that_is_dropped: 2,
    history_is_cut: 1,
    history_is_cut_in_a_list: None,
    tensors_change_places: 1,
    numbers_are_counted: 1,
    numbers_are_counted_and_read: 0,
    attributes_of_a_namespace: None,
}


def filled(module):
    with flambeau.no_grad():
        for i, each in enumerate(module.parameters()):
            each.fill_(0.5 + i)
    return module


@MAY_RUN_EAGERLY
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_what_is_set_is_there_at_each_call(make):
    check_as_eagerly(make, PROGRAMS[make])
    assert not tracers()


def test_a_number_that_is_read_and_set_is_refused_by_its_name():
    check_refusal(numbers_are_counted_and_read)
    step, state = numbers_are_counted_and_read()[:2]
    check_refused(step, r"changes state\.count \(.*\), and a program would repeat", X)
    assert state() == {"count": 2}


def test_gradients_reach_through_what_is_set():
    weight, holder = flambeau.ones(2, requires_grad=True), Holder()

    @flambeau.compile
    def run(x):
        holder.losses = {"loss": (weight * x).sum()}

    for i in range(3):
        run(argument(i)[0])
        holder.losses["loss"].backward()
    assert weight.grad.tolist() == [3.0, 9.0]
    assert run.program_count == 1


def test_an_error_of_a_program_leaves_attributes_as_they_were(monkeypatch):
    holder = Holder()

    @flambeau.compile
    def run(x):
        holder.outputs = [x * 2]
        holder.hidden = x * 3

    run(X)
    before = {**vars(holder)}
    monkeypatch.setattr(Program, "run_on", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(X)
    assert all(each is before[name] for name, each in vars(holder).items())


@pytest.mark.parametrize("value", [lambda x: x * 2, lambda x: float(len(x)), lambda x: [x, x * 3]])
@pytest.mark.parametrize("cls", [nn.Linear, type("Own", (nn.Linear,), {})])
def test_another_program_sees_what_one_has_set_on_a_layer(cls, value):
    """Programs compare the attributes of flambeau's own layers only after an announcement."""
    layer = cls(2, 2)
    layer.last = value(X)

    @flambeau.compile(fullgraph=True)
    def write(x):
        layer.last = value(x)

    def read(x):
        last = layer.last[-1] if isinstance(layer.last, list) else layer.last
        return x.sum() + last

    compiled = flambeau.compile(read)
    for size in (2, 3, 2, 4):
        write(flambeau.ones(size) * size)
        assert flambeau.equal(compiled(X), read(X))
