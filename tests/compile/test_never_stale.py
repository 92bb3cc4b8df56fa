"""A compiled function gives the eager result whatever has changed since it was compiled."""

import warnings

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.compile.errors import CompileWarning
from tests.compile.following import X, check


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
    # What Python reads is no input.
    compiled = flambeau.compile(lambda x: net(x) * int(net.first.offset), fullgraph=True)
    for n in range(2):
        net.first.offset = float(n)
        compiled(X)
    net.first.offset = 2.0
    match = r"3 times, since net\.first\.offset changes \(0\.0, 1\.0, 2\.0\)"
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


# Worlds outside a function: the function, and changes of its world.

SCALE = 2.0
PARTS = [flambeau.ones(1), 2.0]


class Settings:
    """A plain object with plain attributes."""

    factor = 2

    def __init__(self):
        self.inner = None
        self.rate = 0.5

    def apply(self, x):
        return x * self.rate * self.factor


def new_data_of_a_tensor_that_is_only_detached():
    w = flambeau.ones(3, requires_grad=True)
    data = flambeau.tensor([5.0, 6.0, 7.0])
    return lambda x: x * w.detach() + w[0].detach(), [lambda: setattr(w, "data", data)]


def global_values():
    def function(x):
        return x * SCALE * PARTS[0] * PARTS[1] + len(PARTS)

    def bind(**values):
        return lambda: globals().update(values)

    return function, [
        bind(SCALE=5.0), bind(SCALE=flambeau.zeros(3)), bind(SCALE=2.0), bind(PARTS=[2.0, 3.0]),
        lambda: PARTS.append(None), lambda: PARTS.insert(0, flambeau.full((), 4.0)),
        bind(PARTS=[flambeau.ones(1), 2.0]),
    ]  # fmt: skip


def closure():
    alpha = 2

    def bind(value):
        nonlocal alpha
        alpha = value

    return lambda x: x * alpha, [lambda: bind(3), lambda: bind(X), lambda: bind(2)]


def plain_objects():
    settings = Settings()
    settings.inner = Settings()

    def function(x):
        return settings.apply(x) + settings.inner.rate

    return function, [
        lambda: setattr(settings, "rate", 3.0),
        lambda: setattr(settings.inner, "rate", 7.0),
        lambda: setattr(settings, "inner", Settings()),
        lambda: setattr(Settings, "factor", 4),
        lambda: setattr(Settings, "factor", 2),
    ]


def the_object_of_a_method():
    settings = Settings()
    return settings.apply, [lambda: setattr(settings, "rate", 3.0)]


def an_object_in_a_module():
    model = nn.Identity()
    model.settings = Settings()
    model.register_forward_hook(lambda module, args, output: module.settings.apply(output))
    return model, [lambda: setattr(model.settings, "rate", 3.0)]


def state_of_a_hook():
    factor = 2

    def change():
        nonlocal factor
        factor = 5

    model = nn.Identity()
    model.register_forward_hook(lambda module, args, output: output * factor)
    return model, [change]


def numbers_of_numpy():
    model = nn.Linear(3, 3)
    model.scale = np.float32(2.0)
    return lambda x: model(x) * float(model.scale), [
        lambda: setattr(model, "scale", np.float32(3.0))
    ]


def a_mask_of_the_last_call():
    state = Settings()
    state.last = flambeau.zeros(3)
    return lambda x: x + state.last, [
        lambda: setattr(state, "last", flambeau.ones(3)),
        lambda: state.last.add_(1),
        lambda: setattr(state, "last", 3),
    ]


WORLDS = [
    new_data_of_a_tensor_that_is_only_detached, global_values, closure, plain_objects,
    the_object_of_a_method, an_object_in_a_module, state_of_a_hook, numbers_of_numpy,
    a_mask_of_the_last_call,
]  # fmt: skip


@pytest.mark.parametrize("make", WORLDS, ids=lambda make: make.__name__)
def test_each_change_of_the_world_is_seen(make):
    function, changes = make()
    run = flambeau.compile(function)
    for change in (lambda: None, *changes):
        change()
        for _ in range(2):
            assert flambeau.equal(run(X), function(X))
    assert run.program_count <= len(changes) + 1


def test_attributes_of_an_argument_are_seen():
    settings, run = Settings(), flambeau.compile(lambda it, x: x * it.rate)
    for rate in (0.5, 2.0):
        settings.rate = rate
        assert run(settings, X).tolist() == (X * rate).tolist()


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
