"""`compiler.explain`: why there are the programs that there are."""

import io
import types

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.compile import CompileError

X = flambeau.ones(2)
TABLE = types.SimpleNamespace()


def page(function):
    file = io.StringIO()
    flambeau.compiler.explain(function, file=file)
    return file.getvalue()


def reasons(function):
    """Why the last program was made."""
    lines = page(function).rpartition("did not fit:\n")[2].partition("\n\n")[0].splitlines()
    return [each.strip() for each in lines]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (2.0, 3.0, "TABLE.rate was 2.0, and is 3.0"),
        (0.0, -0.0, "TABLE.rate was 0.0, and is -0.0"),
        (2, 2.0, "TABLE.rate was 2, and is 2.0"),
        (True, None, "TABLE.rate was True, and is None"),
        ((2, "a"), (2, "b"), "TABLE.rate was (2, 'a'), and is (2, 'b')"),
        ([1, [2]], [1, [3]], "TABLE.rate was [1, [2]], and is [1, [3]]"),
        ({"a": 1, 2: ()}, {"a": 2}, "TABLE.rate was {'a': 1, 2: ()}, and is {'a': 2}"),
        ({1}, set(), "TABLE.rate was {1}, and is set()"),
        (len, max, "TABLE.rate was the function len, and is the function max"),
        (nn.Linear, nn.ReLU, "TABLE.rate was the class Linear, and is the class ReLU"),
        (np.zeros(2), np.zeros(3), "was a NumPy array of float64[2], and is a NumPy array of"),
        (range(2), object(), "TABLE.rate was an object of class range, and is an object of"),
    ],
)
def test_a_value_that_has_changed_is_named_with_its_old_and_new_value(before, now, expected):
    @flambeau.compile
    def scaled(x):
        return x * 2 if TABLE.rate is None else x + 1

    TABLE.rate = before
    scaled(X)
    TABLE.rate = now
    scaled(X)
    (reason,) = reasons(scaled)
    assert expected in reason


def test_modules_and_their_tensors_are_named_by_the_way_from_where_the_function_finds_them():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))

    @flambeau.compile
    def step(x):
        return model(x).sum()

    step(X)
    model[1].eval()
    step(X)
    assert reasons(step) == ["model.1.training was True, and is False"]
    model[0].weight.requires_grad_(False)
    step(X)
    assert reasons(step) == ["model.0.weight.requires_grad was True, and is False"]
    model[0].register_forward_hook(lambda *given: None)
    step(X)
    assert reasons(step) == ["model.0.hooks has changed"]


def test_a_gradient_that_is_there_now_is_named():
    layer = nn.Linear(2, 2)

    @flambeau.compile
    def step(x):
        layer(x).sum().backward()

    step(X)
    step(X)
    assert set(reasons(step)) == {
        "layer.weight.grad was None, and is a gradient",
        "layer.bias.grad was None, and is a gradient",
    }


def test_gradients_that_a_program_assumes_share_a_line(capsys):
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(8)))

    @flambeau.compile
    def step(x):
        model(x).sum().backward()

    step(X)
    step(X)
    flambeau.compiler.explain(step)
    lines = [each.strip() for each in capsys.readouterr().out.splitlines() if "grad" in each]
    (line,) = [each for each in lines if each.endswith("is a gradient") and "was None" not in each]
    assert line.startswith("grad of model.7.weight, model.7.bias, model.6.weight, and 13 more")


def test_an_argument_that_differs_is_named_as_the_function_names_it():
    @flambeau.compile
    def scaled(batch, scale=1, *, flag=False):
        return batch["x"] * scale

    scaled({"x": X})
    scaled({"x": flambeau.ones(3)})
    assert reasons(scaled) == ["the shape of batch['x'] was [2], and is [3]"]
    scaled({"x": flambeau.ones(3, requires_grad=True)})
    assert reasons(scaled) == ["requires_grad of batch['x'] was False, and is True"]
    scaled({"x": X}, 3)
    scaled({"x": X}, 4.0)
    assert reasons(scaled) == ["scale was any int, and is any float"]
    scaled({"x": X}, flag=True)
    (reason,) = reasons(scaled)
    assert reason.endswith("are (batch['x']: a Tensor of float32[2], flag: True)")


def test_a_mode_that_has_changed_is_named():
    doubled = flambeau.compile(lambda x: x * 2)
    doubled(X)
    with flambeau.no_grad():
        doubled(X)
    assert reasons(doubled) == ["recording of gradients was on, and is off"]


def test_the_checks_that_are_on_are_named():
    doubled = flambeau.compile(lambda x: x * 2)
    doubled(X)
    with flambeau.compiler.checks(indices=True, nan=True):
        doubled(X)
    assert reasons(doubled) == ["compiler.checks was off, and is indices and nan"]


def test_arguments_that_now_share_elements_are_a_reason():
    @flambeau.compile
    def moved(x, y):
        x.add_(y)

    moved(flambeau.ones(2), flambeau.ones(2))
    x = flambeau.ones(2)
    moved(x, x)
    assert len(reasons(moved)) == 1


def test_each_program_says_what_it_takes_for_granted():
    TABLE.rate = 2.0
    layer = nn.Dropout()

    @flambeau.compile
    def scaled(x):
        return layer(x) * TABLE.rate

    scaled(X)
    lines = page(scaled).splitlines()
    assert lines[0] == "scaled: 1 program"
    assert "    x is a Tensor of float32[2]" in lines
    assert "    TABLE.rate is 2.0" in lines
    assert "    layer.training is True" in lines


def test_a_compiled_module_is_explained():
    layer = flambeau.compile(nn.Dropout())
    layer(X)
    layer.eval()
    layer(X)
    assert reasons(layer) == ["Dropout.training was True, and is False"]


def test_calls_that_run_eagerly_are_explained():
    @flambeau.compile(fullgraph=False)
    def chosen(x):
        return x if x.sum().numpy() > 0 else -x

    with pytest.warns(UserWarning, match="runs eagerly"):
        chosen(X)
    assert "run eagerly: " in page(chosen)
    assert "the value of a tensor is not known" in page(chosen)


def test_a_call_that_fails_leaves_no_program_behind():
    @flambeau.compile(fullgraph=True)
    def chosen(x):
        return x if x.sum() > 0 else -x

    with pytest.raises(CompileError):
        chosen(X)
    assert page(chosen) == "chosen: 0 programs\n"


def test_what_is_not_compiled_is_refused():
    with pytest.raises(TypeError, match=r"explain\(\) needs what flambeau.compile\(\) returned"):
        flambeau.compiler.explain(len)


def test_attributes_that_appear_are_named(capsys):
    model = nn.Linear(2, 2)
    step = flambeau.compile(lambda x: model(x) * len(vars(model)))
    step(X)
    model.note = "new"
    step(X)
    assert reasons(step) == ["model.note was absent, and is 'new'"]
    flambeau.compiler.explain(step)
    assert "list is" not in capsys.readouterr().out


def test_the_groups_of_an_optimizer_are_named():
    model = nn.Linear(2, 2)
    optimizer = flambeau.optim.SGD([model.weight], lr=0.1)

    @flambeau.compile
    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    step(X)
    optimizer.add_param_group({"params": [model.bias]})
    step(X)
    assert "the groups of SGD has changed" in reasons(step)


def test_a_difference_is_told_once():
    layer = nn.Linear(2, 2)
    layer.history = []
    run = flambeau.compile(lambda x: layer(x) * len(layer.history))
    for _ in range(2):
        run(flambeau.ones(1, 2))
        layer.history.append(1)
    assert run.explanation().count("layer.history was [], and is [1]") == 1


def test_an_entry_of_an_optimizers_state_is_named():
    class Counting(flambeau.optim.Optimizer):
        @flambeau.no_grad()
        def step(self):
            for param in self.param_groups[0]["params"]:
                state = self.state[param]
                rate = [1.0, 0.5, 0.25][state.setdefault("count", 1)]
                param.sub_(param.grad, alpha=rate)

    layer = nn.Linear(2, 1)
    optimizer = Counting(layer.parameters(), {})

    @flambeau.compile
    def step(x):
        layer(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    for count in (1, 1, 2):
        for each in optimizer.state.values():
            each["count"] = count
        step(flambeau.ones(1, 2))
    assert "'count' in an optimizer's state was 1, and is 2" in step.explanation()


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x[: self.calls]


def test_a_change_that_calls_cannot_repeat_is_told_with_its_line():
    compiled = flambeau.compile(Counting(), fullgraph=True)
    line = Counting.forward.__code__.co_firstlineno + 1
    compiled(flambeau.ones(2))
    compiled(flambeau.ones(2))
    told = rf"changes Counting\.calls \(test_explaining\.py:{line}\)"
    with pytest.raises(CompileError, match=told):
        compiled(flambeau.ones(2))
