"""A compiled function gives the eager result whatever has changed since it was compiled."""

import pytest

import flambeau
from flambeau import nn
from flambeau.compile.errors import CompileWarning


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
    compiled = flambeau.compile(lambda x: net(x))
    for n in range(16):
        net.first.offset = float(n)
        compiled(X)
    net.first.offset = 16.0
    with pytest.warns(CompileWarning, match="17 times"):
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
