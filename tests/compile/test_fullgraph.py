"""Functions that cannot become one program, and may run eagerly."""

import copy
import functools
import pickle
import warnings
from typing import ClassVar

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.compile.errors import CompileError, CompileWarning

KEPT: dict[str, list[flambeau.Tensor]] = {"losses": []}


class Asking(nn.Module):
    """Chooses by the value of a tensor, in a way that no eager call's answer helps."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("count", flambeau.zeros(()))

    def forward(self, x):
        self.count += 1
        y = nn.functional.dropout(self.linear(x), 0.5)
        return y if y.sum().detach().numpy() > 0 else -y


def losses(wrap):
    flambeau.manual_seed(0)
    model = Asking()
    optimizer = flambeau.optim.Adam(model.parameters())
    KEPT["losses"].clear()

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        KEPT["losses"].append(loss)
        loss.backward()
        optimizer.step()
        return loss

    run = wrap(step)
    found = [run(flambeau.ones(3, 2)).item() for _ in range(4)]
    kept = [each.item() for each in KEPT["losses"]]
    drawn = flambeau.rand(2).tolist()
    return found, kept, model.count.item(), model.linear.weight.tolist(), drawn


def test_the_steps_are_the_eager_ones_with_one_warning():
    expected = losses(lambda step: step)
    with pytest.warns(CompileWarning, match=r"'step' runs eagerly .*test_fullgraph") as said:
        assert losses(lambda step: flambeau.compile(step)) == expected
    assert len(said) == 1


def test_with_it_the_error_stays():
    with pytest.raises(flambeau.CompileError, match="the value of a tensor is not known"):
        losses(functools.partial(flambeau.compile, fullgraph=True))


def test_calls_that_can_be_compiled_are():
    def clipped(x, mode):
        return x.clamp(max=float(x.max().numpy())) if mode == "python" else x.clamp(max=1)

    run = flambeau.compile(clipped, fullgraph=False)
    x = flambeau.tensor([0.5, 2.0])
    assert run(x, "other").tolist() == [0.5, 1]
    with pytest.warns(CompileWarning, match="runs eagerly"):
        assert run(x, "python").tolist() == [0.5, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(x, "python").tolist() == [0.5, 2]
        assert run(x, "other").tolist() == [0.5, 1]
    assert run.program_count == 1


@pytest.mark.parametrize("again", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_copies_of_modules_keep_it(again):
    compiled = again(flambeau.compile(Asking().eval(), fullgraph=False))
    with pytest.warns(CompileWarning, match="runs eagerly"):
        assert compiled(flambeau.ones(1, 2)).shape == (1, 2)


def test_errors_of_the_function_are_its_own():
    def wrong(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        flambeau.compile(wrong, fullgraph=False)(flambeau.ones(2))


def test_arrays_of_numpy_among_the_arguments_run_eagerly_with_one_warning():
    def run(x, array):
        return x * float(array[0])

    x, array = flambeau.ones(2), np.full(2, 3.0)
    with pytest.raises(TypeError, match="a compiled function got a ndarray"):
        flambeau.compile(run, fullgraph=True)(x, array)
    fast = flambeau.compile(run, fullgraph=False)
    with pytest.warns(CompileWarning, match="a compiled function got a ndarray") as told:
        assert fast(x, array).tolist() == [3.0, 3.0]
    assert told[0].filename == __file__
    assert fast(x, array * 2).tolist() == [6.0, 6.0]


class Silent:
    """Says of itself what ``told`` says."""

    told: ClassVar = {"rate": 2.0}

    def __getattribute__(self, name):
        return Silent.told[name]


class Loud:
    rate = 2.0


def test_objects_that_do_not_say_what_they_are_run_eagerly():
    silent, loud = Silent(), Loud()
    x = flambeau.ones(1)
    with pytest.raises(CompileError, match="__getattribute__ of Silent"):
        flambeau.compile(lambda x: x * silent.rate, fullgraph=True)(x)
    with pytest.warns(CompileWarning, match="__getattribute__ of Silent"):
        assert flambeau.compile(lambda x: x * silent.rate, fullgraph=False)(x).item() == 2.0
    fast = flambeau.compile(lambda x: x * loud.rate, fullgraph=False)
    assert fast(x).item() == 2.0
    Loud.__getattribute__ = lambda self, name: {"rate": 5.0}[name]
    try:
        with pytest.warns(CompileWarning, match="__getattribute__ of Loud"):
            assert fast(x).item() == 5.0
    finally:
        del Loud.__getattribute__
    assert fast(x).item() == 2.0
