"""`flambeau.compiler.lower`: the program of a call that is not made."""

import re

import numpy as np
import pytest

import flambeau
from flambeau import nn, optim
from flambeau.compile import CompileError
from flambeau.nn import functional as F


def training(meta, optimizer=optim.AdamW):
    flambeau.manual_seed(0)
    with flambeau.device("meta" if meta else "cpu"):
        model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(), nn.Linear(16, 4))
    chosen = optimizer(model.parameters(), lr=0.1)

    @flambeau.compile
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        chosen.step()
        chosen.zero_grad()
        return loss

    return model, chosen, step


def batch(device="cpu"):
    x = np.sin(np.arange(32.0, dtype=np.float32)).reshape(4, 8)
    return flambeau.from_numpy(x).to(device), flambeau.arange(4).to(device)


def text(lowered):
    """The program, without the lines that it comes from."""
    return re.sub(r"loc\(.*?\)|#loc.*", "", lowered.as_text())


def values(model, optimizer):
    state = [each for name in optimizer.state.values() for each in name.values()]
    return [each.detach().numpy().copy() for each in (*model.state_dict().values(), *state)]


def test_the_program_on_meta_is_the_program_of_real_tensors():
    _, _, step = training(meta=True)
    _, _, real = training(meta=False)
    lowered = flambeau.compiler.lower(step, *batch("meta"))
    assert text(lowered) == text(flambeau.compiler.lower(real, *batch()))
    memory = lowered.compile().memory_analysis()
    # Parameters, two moments, running statistics; nothing else is that large.
    assert memory.argument_size_in_bytes >= 4 * (3 * (8 * 16 + 16 * 4) + 2 * 16)


def test_a_model_on_meta_is_as_before_and_trains_once_it_is_materialized():
    model, optimizer, step = training(meta=True)
    names = {name: each._cell.array for name, each in model.state_dict().items()}
    flambeau.compiler.lower(step, *batch("meta"))
    assert all(each._cell.array is names[name] for name, each in model.state_dict().items())
    model.materialize()
    _, _, other = training(meta=False)
    losses = []
    for run in (step, other):
        flambeau.manual_seed(1)
        losses.append([run(*batch()).item() for _ in range(3)])
    assert losses[0] == losses[1]
    assert {each.device.type for each in optimizer.state[model[0].weight].values()} == {"cpu"}


@pytest.mark.parametrize("optimizer", [optim.SGD, optim.NAdam, optim.Rprop])
def test_a_step_on_meta_leaves_an_optimizer_that_works_later(optimizer):
    model, chosen, _ = training(meta=True, optimizer=optimizer)
    for each in model.parameters():
        each.grad = flambeau.ones_like(each)
    chosen.step()
    model.materialize()
    other, same, _ = training(meta=False, optimizer=optimizer)
    for net, steps in ((model, chosen), (other, same)):
        for _ in range(2):
            for each in net.parameters():
                each.grad = flambeau.ones_like(each)
            steps.step()
    for one, two in zip(values(model, chosen), values(other, same), strict=True):
        np.testing.assert_array_equal(one, two)


def test_nothing_is_computed_or_drawn():
    model, optimizer, step = training(meta=False)
    step(*batch())
    before, generator = values(model, optimizer), flambeau.get_rng_state().numpy().copy()
    flambeau.compiler.lower(step, *batch())
    assert step.program_count == 1
    np.testing.assert_array_equal(flambeau.get_rng_state().numpy(), generator)
    for one, two in zip(values(model, optimizer), before, strict=True):
        np.testing.assert_array_equal(one, two)


def test_what_asks_for_the_device_of_a_parameter_finds_the_real_one():
    with flambeau.device("meta"):
        layer = nn.Linear(2, 3)

    @flambeau.compile
    def shifted():
        # Asked before the parameter has taken part in anything.
        return layer.weight + flambeau.ones(3, 2, device=layer.weight.device)

    assert "stablehlo.add" in flambeau.compiler.lower(shifted).as_text()
    assert layer.weight.is_meta


def test_modules_and_arguments_by_name_are_lowered():
    with flambeau.device("meta"):
        layer = nn.Linear(2, 3)
    compiled = flambeau.compile(layer)
    x = flambeau.empty(5, 2, device="meta")
    found = flambeau.compiler.lower(compiled, input=x).compile()
    assert found.memory_analysis().output_size_in_bytes >= 5 * 3 * 4


def test_a_function_that_needs_a_value_is_refused():
    step = flambeau.compile(lambda x: x if x.sum() > 0 else -x)
    x = flambeau.empty(2, device="meta")
    with pytest.raises(CompileError, match="value of a tensor is not known"):
        flambeau.compiler.lower(step, x)
    assert x.is_meta


def test_what_is_not_compiled_is_refused():
    with pytest.raises(TypeError, match=r"lower\(\) needs what flambeau.compile\(\) returned"):
        flambeau.compiler.lower(lambda x: x, flambeau.ones(1))
    inner = flambeau.compile(lambda x: x * 2, fullgraph=True)
    outer = flambeau.compile(lambda x: flambeau.compiler.lower(inner, x), fullgraph=True)
    with pytest.raises(RuntimeError, match=r"lower\(\) cannot be called inside"):
        outer(flambeau.ones(1))
