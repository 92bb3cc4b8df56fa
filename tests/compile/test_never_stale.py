"""A compiled function gives the eager result whatever has changed since it was compiled."""

import warnings

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.compile.errors import CompileError, CompileWarning
from tests.compile.following import check


class Scale(nn.Module):
    """Multiplies by a parameter; trains and evaluates differently, and reads plain attributes."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(flambeau.tensor([1.0, 2.0, 3.0]))
        self.offset = 0.5
        self.options = {"sign": 1.0}
        self.register_buffer("shift", flambeau.zeros(3))

    def forward(self, x):
        y = x * self.weight * self.options["sign"] + self.shift
        return y + self.offset if self.training else y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Scale()
        self.second = Scale()

    def forward(self, x):
        return self.second(self.first(x))


X = flambeau.tensor([1.0, -1.0, 2.0])


def swap_submodule(net):
    replacement = Scale()
    with flambeau.no_grad():
        replacement.weight.mul_(3)
    net.second = replacement


def load(net):
    net.load_state_dict({name: value + 1 for name, value in net.state_dict().items()})


def add_hook(net):
    net.first.register_forward_hook(lambda module, args, output: output * 10)


def add_pre_hook(net):
    net.register_forward_pre_hook(lambda module, args: args[0] - 1)


def global_hook(net):
    return nn.modules.module.register_module_forward_hook(lambda module, args, output: output + 1)


CHANGES = {
    "eval": lambda net: net.eval(),
    "eval of one": lambda net: net.second.eval(),
    "hook": add_hook,
    "pre hook": add_pre_hook,
    "global hook": global_hook,
    "submodule": swap_submodule,
    "parameter": lambda net: setattr(net.first, "weight", nn.Parameter(flambeau.ones(3))),
    "parameter data": lambda net: setattr(net.first.weight, "data", flambeau.full((3,), 7.0)),
    "parameter in place": lambda net: net.first.weight.data.fill_(5.0),
    "buffer": lambda net: setattr(net.first, "shift", flambeau.ones(3)),
    "buffer in place": lambda net: net.first.shift.fill_(2.0),
    "plain attribute": lambda net: setattr(net.first, "offset", 4.0),
    "item of a dictionary": lambda net: net.first.options.update(sign=-1.0),
    "deleted attribute": lambda net: (
        delattr(net.first, "options") or setattr(net.first, "options", {"sign": 2.0})
    ),
    "state dict": load,
    "dtype": lambda net: net.double(),
    "forward of the instance": lambda net: setattr(net.first, "forward", lambda x: x),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change_after_compiling_is_seen(name):
    net = Net()
    compiled = flambeau.compile(lambda x: net(x))
    before = compiled(X)
    assert flambeau.equal(before, net(X))
    handle = CHANGES[name](net)
    try:
        expected = net(X)
        assert not (expected.dtype is before.dtype and flambeau.equal(expected, before))
        assert flambeau.equal(compiled(X), expected)
        assert flambeau.equal(compiled(X), expected)
    finally:
        if hasattr(handle, "remove"):
            handle.remove()


def test_removed_hook_is_gone():
    net = Net()
    handle = net.register_forward_hook(lambda module, args, output: output * 2)
    compiled = flambeau.compile(lambda x: net(x))
    with_hook = compiled(X)
    handle.remove()
    assert flambeau.equal(compiled(X) * 2, with_hook)


def test_going_back_uses_the_first_program_again():
    net = Net()
    compiled = flambeau.compile(lambda x: net(x))
    compiled(X)
    net.eval()
    compiled(X)
    net.train()
    compiled(X)
    assert compiled.program_count == 2


@pytest.mark.parametrize("kind", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_on_parameters_are_seen(kind):
    weight = flambeau.ones(2, requires_grad=True)
    compiled = flambeau.compile(lambda x: (weight * x).sum().backward())

    def grad():
        weight.grad = None
        compiled(flambeau.ones(2))
        return weight.grad.tolist()

    assert grad() == [1.0, 1.0]

    def times_five(tensor):
        if kind == "register_hook":
            return tensor * 5
        tensor.grad.mul_(5)
        return None

    handle = getattr(weight, kind)(times_five)
    assert grad() == [5.0, 5.0]
    handle.remove()
    assert grad() == [1.0, 1.0]


def test_a_world_that_changes_at_every_call_is_warned_of():
    net = Net()
    compiled = flambeau.compile(lambda x: net(x), fullgraph=True)
    for n in range(16):
        net.first.offset = float(n)
        compiled(X)
    net.first.offset = 16.0
    match = r"17 times.*since net\.first\.offset was 15\.0, and is 16\.0"
    with pytest.warns(CompileWarning, match=match):
        compiled(X)


def test_requires_grad_decides_what_is_trained():
    net = Net()
    optimizer = flambeau.optim.SGD(net.parameters(), lr=0.5)

    @flambeau.compile
    def step(x):
        net(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step(X)
    first = net.first.weight.detach().clone()
    net.first.weight.requires_grad_(False)
    second = net.second.weight.detach().clone()
    step(X)
    assert flambeau.equal(net.first.weight, first)
    assert not flambeau.equal(net.second.weight, second)


def test_learning_rate_changes_without_another_program():
    net = Net()
    optimizer = flambeau.optim.SGD(net.parameters(), lr=0.1)

    @flambeau.compile
    def step(x):
        net(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step(X)
    step(X)
    count = step.program_count
    optimizer.param_groups[0]["lr"] = 0.0
    before = net.first.weight.detach().clone()
    step(X)
    assert flambeau.equal(net.first.weight, before)
    assert step.program_count == count == 1


def test_a_seed_repeats_and_calls_differ():
    layer = nn.Dropout(0.5)
    compiled = flambeau.compile(layer)
    x = flambeau.ones(64)
    flambeau.manual_seed(3)
    first, second = compiled(x), compiled(x)
    flambeau.manual_seed(3)
    again = compiled(x)
    flambeau.manual_seed(4)
    other = compiled(x)
    assert flambeau.equal(first, again)
    assert not flambeau.equal(first, second)
    assert not flambeau.equal(first, other)


def test_world_unchanged_reuses_one_program():
    net = Net()
    compiled = flambeau.compile(lambda x: net(x))
    for _ in range(3):
        compiled(X)
    assert compiled.program_count == 1


def test_new_data_of_a_tensor_that_is_only_detached_is_seen():
    w = flambeau.ones(2, requires_grad=True)
    f = flambeau.compile(lambda x: x * w.detach() + w[0].detach())
    assert f(flambeau.ones(2)).tolist() == [2.0, 2.0]
    w.data = flambeau.tensor([5.0, 6.0])
    assert f(flambeau.ones(2)).tolist() == [10.0, 11.0]


SCALE = 2.0
OPTIONS = {"power": 2}
WEIGHT = flambeau.ones(2)


def scaled(x):
    return x * SCALE


def raised(x):
    return x ** OPTIONS["power"]


def weighted(x):
    return x * WEIGHT


@pytest.mark.parametrize(
    ("function", "name", "value"),
    [(scaled, "SCALE", 5.0), (raised, "OPTIONS", {"power": 3}), (weighted, "WEIGHT", None)],
)
def test_a_global_that_is_bound_anew_is_seen(function, name, value, monkeypatch):
    f = flambeau.compile(lambda x: function(x) + 1)
    x = flambeau.tensor([2.0, 3.0])
    f(x)
    monkeypatch.setitem(globals(), name, flambeau.zeros(2) if value is None else value)
    assert f(x).tolist() == (function(x) + 1).tolist()
    assert f.program_count == 2


def test_a_global_container_that_changes_is_seen(monkeypatch):
    f = flambeau.compile(raised)
    x = flambeau.tensor([2.0])
    assert f(x).item() == 4.0
    monkeypatch.setitem(OPTIONS, "power", 3)
    assert f(x).item() == 8.0


def test_a_closure_that_changes_is_seen():
    alpha = 2

    @flambeau.compile
    def f(x):
        return x * alpha

    x = flambeau.ones(1)
    assert f(x).item() == 2.0
    alpha = 3
    assert f(x).item() == 3.0
    alpha = 2
    assert f(x).item() == 2.0
    assert f.program_count == 2


class Settings:
    """A plain object with plain attributes."""

    factor = 2

    def __init__(self):
        self.inner = None
        self.rate = 0.5

    def apply(self, x):
        return x * self.rate * self.factor


def test_attributes_of_plain_objects_are_seen():
    settings = Settings()
    settings.inner = Settings()

    def f(x):
        return settings.apply(x) + settings.inner.rate

    run, x = flambeau.compile(f), flambeau.ones(1)
    for change in (
        lambda: None,
        lambda: setattr(settings, "rate", 3.0),
        lambda: setattr(settings.inner, "rate", 7.0),
        lambda: setattr(settings, "inner", Settings()),
        lambda: setattr(Settings, "factor", 4),
    ):
        change()
        assert run(x).item() == f(x).item()
    Settings.factor = 2


def test_attributes_of_an_argument_and_of_the_object_of_a_method_are_seen():
    settings, x = Settings(), flambeau.ones(1)
    by_argument = flambeau.compile(lambda it, x: x * it.rate)
    by_method = flambeau.compile(settings.apply)
    assert (by_argument(settings, x).item(), by_method(x).item()) == (0.5, 1.0)
    settings.rate = 2.0
    assert (by_argument(settings, x).item(), by_method(x).item()) == (2.0, 4.0)


class Configured(nn.Module):
    """A module that keeps a plain object, and reads a global."""

    def __init__(self):
        super().__init__()
        self.settings = Settings()

    def forward(self, x):
        return self.helped(x) * SCALE

    def helped(self, x):
        return x * self.settings.rate


def test_plain_objects_inside_modules_are_seen(monkeypatch):
    model, x = Configured(), flambeau.ones(1)
    run = flambeau.compile(lambda x: model(x))
    assert run(x).item() == 1.0
    model.settings.rate = 3.0
    assert run(x).item() == 6.0
    monkeypatch.setitem(globals(), "SCALE", 4.0)
    assert run(x).item() == 12.0


def test_state_of_a_hook_is_seen():
    factor = 2

    def hook(module, args, output):
        return output * factor

    model, x = nn.Identity(), flambeau.ones(1)
    model.register_forward_hook(hook)
    run = flambeau.compile(model)
    assert run(x).item() == 2.0
    factor = 5
    assert run(x).item() == 5.0


@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_number_that_the_function_counts_is_never_stale(fullgraph):
    calls = Settings()
    calls.rate = 0

    def f(x):
        calls.rate += 1
        return x * calls.rate

    run = flambeau.compile(f, fullgraph=fullgraph)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(flambeau.ones(1)).item() == 1
        calls.rate = 41
        assert run(flambeau.ones(1)).item() == 42
        if fullgraph:
            with pytest.raises(CompileError, match=r"changes calls\.rate"):
                run(flambeau.ones(1))
        else:
            assert run(flambeau.ones(1)).item() == 43
    assert calls.rate == 43 - fullgraph


def test_an_optimizer_and_a_model_outside_need_one_program():
    model = nn.Linear(2, 1)
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)

    @flambeau.compile
    def step(x):
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    for rate in (0.1, 0.2, 0.3):
        optimizer.param_groups[0]["lr"] = rate
        step(flambeau.ones(1, 2))
    assert step.program_count == 1


@pytest.mark.filterwarnings("error")
def test_modes_that_the_function_switches_are_switched_at_each_call():
    model = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(2))
    x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])

    def evaluated(x):
        model.eval()
        result = model(x)
        model.train()
        return result

    run = flambeau.compile(evaluated)
    for mode in (True, False, False, True):
        model.train(mode)
        expected = evaluated(x)
        model.train(mode)
        assert flambeau.equal(run(x), expected)
        assert all(each.training for each in model.modules())
    assert run.program_count == 1


@pytest.mark.filterwarnings("error")
def test_a_mode_that_the_function_finds_and_then_switches_counts():
    layer, x = nn.Threshold(0.0, 9.0), flambeau.tensor([-1.0])
    layer.register_forward_hook(lambda module, args, output: output + module.training)

    def f(x):
        result = layer(x)
        layer.eval()
        return result

    run = flambeau.compile(f)
    assert [run(x).item(), run(x).item()] == [10.0, 9.0]
    layer.train()
    assert (run(x).item(), layer.training) == (10.0, False)
    assert run.program_count == 2


PARTS = [flambeau.ones(1), 2.0]


def test_members_of_a_list_outside_are_seen(monkeypatch):
    parts = [*PARTS]
    monkeypatch.setitem(globals(), "PARTS", parts)
    f, x = flambeau.compile(lambda x: x * PARTS[0] * PARTS[1] + len(PARTS)), flambeau.ones(1)
    assert f(x).item() == 4.0
    for i, value in ((1, 3.0), (0, flambeau.zeros(1)), (1, 4.0)):
        parts[i] = value
        assert f(x).item() == (x * parts[0] * parts[1] + len(parts)).item()
    parts.append(None)
    assert f(x).item() == 3.0


@pytest.mark.filterwarnings("error")
def test_flags_that_the_function_sets_are_set_at_each_call():
    frozen, trained = nn.Linear(2, 2), nn.Linear(2, 2)

    def step(x):
        frozen.requires_grad_(False)
        trained.weight.requires_grad = True
        loss = trained(frozen(x)).sum()
        loss.backward()
        return loss

    run = flambeau.compile(step)
    for flag in (True, False, True):
        frozen.requires_grad_(flag)
        trained.requires_grad_(flag)
        trained.bias.requires_grad_(True)
        frozen.zero_grad()
        trained.zero_grad()
        run(flambeau.ones(1, 2))
        assert [each.requires_grad for each in frozen.parameters()] == [False, False]
        assert trained.weight.requires_grad
        assert frozen.weight.grad is None
        assert trained.weight.grad is not None
    assert run.program_count == 1


def test_a_flag_that_the_function_finds_and_then_sets_counts():
    weight, x = flambeau.ones(2, requires_grad=True), flambeau.ones(2)

    def f(x):
        result = (weight * x).sum()
        weight.requires_grad_(False)
        return result

    run = flambeau.compile(f)
    assert run(x).requires_grad
    assert not weight.requires_grad
    assert not run(x).requires_grad
    assert run.program_count == 2


def test_a_flag_set_on_an_argument_is_set_on_the_tensor_given():
    def gradient(x):
        x.requires_grad_()
        (x * x).sum().backward()

    run = flambeau.compile(gradient)
    for _ in range(2):
        x = flambeau.tensor([3.0])
        run(x)
        assert x.requires_grad
        assert x.grad is not None
        assert x.grad.item() == 6.0
    assert run.program_count == 1


def test_a_trace_that_fails_leaves_flags_as_they_were():
    weight = flambeau.ones(2, requires_grad=True)

    @flambeau.compile(fullgraph=True)
    def f(x):
        weight.requires_grad_(False)
        return 1 if x.sum() > 0 else 0

    with pytest.raises(flambeau.CompileError):
        f(flambeau.ones(2))
    assert weight.requires_grad


def test_elements_of_numpy_arrays_outside_are_seen(no_value_is_frozen):
    offset = np.ones(2, np.float32)

    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = np.ones(2, np.float32)

        def forward(self, x):
            return x + flambeau.from_numpy(self.table) * flambeau.from_numpy(offset)

    model = Table()
    run = flambeau.compile(model)
    x = flambeau.zeros(2)
    assert run(x).tolist() == run(x).tolist() == [1.0, 1.0]
    offset[0] = 3.0
    assert run(x).tolist() == [3.0, 1.0]
    model.table[:] = 2.0
    assert run(x).tolist() == [6.0, 2.0]
    assert run.program_count == 3
    # These arrays are constants of each program, and the guard looks at their elements.
    no_value_is_frozen.clear()


def test_a_large_numpy_array_outside_is_warned_of():
    table = np.zeros((512, 1024), np.float32)
    run = flambeau.compile(lambda x: x + float(table[0, 0]))
    with pytest.warns(UserWarning, match=r"NumPy array table, of 2 MB"):
        run(flambeau.ones(2))


def test_numpy_numbers_outside_are_compared_by_value():
    model = nn.Linear(2, 2)
    model.scale = np.float32(2.0)
    run = flambeau.compile(lambda x: model(x) * float(model.scale))
    before = run(flambeau.ones(1, 2))
    model.scale = np.float32(2.0)
    assert run(flambeau.ones(1, 2)).equal(before)
    assert run.program_count == 1


@pytest.mark.parametrize("before", [0.0, complex(0, 0)], ids=repr)
def test_the_sign_of_a_zero_counts(before):
    module, options = nn.Module(), {"rate": before}
    module.rate = before
    module.forward = lambda x: x * module.rate
    programs = {
        "argument": flambeau.compile(lambda x, rate: x * rate),
        "attribute": flambeau.compile(lambda x, rate: module(x)),
        "container": flambeau.compile(lambda x, rate: x * options["rate"]),
    }
    for rate in (before, -before, before):
        module.rate = options["rate"] = rate
        for name, program in programs.items():
            found = program(X.new_ones(2), rate if name == "argument" else None)
            assert repr(found) == repr(X.new_ones(2) * rate), name


def test_nan_is_one_number():
    program = flambeau.compile(lambda x, rate: x * rate)
    for _ in range(2):
        assert program(X, float("nan")).isnan().all()
    assert program.program_count == 1


@pytest.mark.parametrize("ask", [bool, int, float, flambeau.Tensor.item, flambeau.Tensor.tolist])
def test_the_value_of_a_tensor_from_outside_is_asked_at_each_call(ask):
    count = flambeau.tensor(0)

    def shifted(x):
        return x + ask(count)

    with pytest.raises(flambeau.CompileError, match="not known"):
        flambeau.compile(shifted, fullgraph=True)(flambeau.zeros(()))
    step = flambeau.compile(shifted, fullgraph=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in (0, 0, 0, 1, 1, 1, 0):
            count.fill_(number)
            assert step(flambeau.zeros(())).item() == number


def test_an_object_that_is_no_module_may_have_the_attributes_of_one():
    class Holder:
        def __init__(self):
            self._parameters, self._buffers, self._modules = {"rate": 1.0}, {"shift": 2.0}, {}

    holder = Holder()

    def scaled(x):
        return x * holder._parameters["rate"] + holder._buffers["shift"]

    def replace():
        holder._buffers = {"shift": 5.0}

    check(scaled, lambda: holder._parameters.update(rate=3.0))
    check(scaled, replace)
