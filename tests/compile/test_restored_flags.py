"""Modes and flags that a function sets, or saves, changes and restores."""

import contextlib

import pytest

import flambeau
from flambeau import nn
from tests.compile.following import check_as_eagerly

X = flambeau.ones(2, 2)


def normed():
    flambeau.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))


# Functions that read and set the mode of a module.


def evaluated(module, x):
    module.eval()
    result = module(x)
    module.train()
    return result


def switched(module, x):
    """Evaluates, and restores the mode of the root for all."""
    was = module.training
    module.eval()
    try:
        return module(x)
    finally:
        module.train(was)


def switched_one_by_one(module, x):
    was = {each: each.training for each in module.modules()}
    module.train(False)
    result = module(x)
    for each, mode in was.items():
        each.train(mode)
    return result


def assigned(module, x):
    was, module.training = module.training, False
    result = x * (2 if module.training else 3)
    module.training = was
    return result


def left_in_evaluation(module, x):
    result = x * (2 if module.training else 3)
    module.eval()
    return result


def toggled(module, x):
    module.train(not module.training)
    return x * (2 if module.training else 3)


# The last one finds both modes, and sets another each time.
MODES = {
    evaluated: 1, switched: None, switched_one_by_one: None, assigned: None, left_in_evaluation: 2,
    toggled: None,
}  # fmt: skip


@pytest.mark.parametrize("function", MODES)
def test_a_mode_is_compared_as_it_was_read(function):
    def make():
        module = normed()

        def change(call):
            module.train(call % 3 != 1)
            module[1].train(call != 4)

        def state():
            return [each.training for each in module.modules()], [*module.buffers()]

        return lambda x: function(module, x), state, change

    check_as_eagerly(make, MODES[function])


# Functions that read and set the flags of parameters.


def frozen_around(module, x):
    was = module[0].weight.requires_grad
    module[0].weight.requires_grad_(False)
    result = module(x)
    module[0].weight.requires_grad_(was)
    return result


def frozen_after_a_use(module, x):
    loss = module(x).sum()
    module[0].bias.requires_grad_(False)
    return loss


def trained_in_part(module, x):
    module[0].requires_grad_(False)
    module[1].weight.requires_grad = True
    loss = module(x).sum()
    loss.backward()
    return loss


def trained_in_evaluation(module, x):
    module.eval()
    module.requires_grad_(False)
    return module(x)


@contextlib.contextmanager
def frozen(module):
    flags = [each.requires_grad for each in module.parameters()]
    module.requires_grad_(False)
    try:
        yield sum(flags)
    finally:
        for each, flag in zip(module.parameters(), flags, strict=True):
            each.requires_grad = flag


def frozen_by_a_context_manager(module, x):
    with frozen(module[0]) as count:
        loss = module(x).sum() * count
    module.zero_grad()
    loss.backward()
    return loss.detach()


FLAGS = {
    frozen_around: None, frozen_after_a_use: 2, trained_in_part: None, trained_in_evaluation: 1,
    frozen_by_a_context_manager: None,
}  # fmt: skip


@pytest.mark.parametrize("function", FLAGS)
def test_a_flag_is_compared_as_it_was_read(function):
    def make():
        module = normed()

        def change(call):
            module.requires_grad_(call % 3 != 1)
            module[1].weight.requires_grad_(True)
            module.zero_grad()

        return lambda x: function(module, x), lambda: [*module.parameters()], change

    check_as_eagerly(make, FLAGS[function])


def test_a_flag_set_on_an_argument_is_set_on_the_tensor_given():
    def gradient(x):
        x.requires_grad_()
        (x * x).sum().backward()

    check_as_eagerly(lambda: (gradient, lambda: None), 1)


def test_a_trace_that_fails_leaves_flags_and_modes_as_they_were():
    module = normed()

    @flambeau.compile(fullgraph=True)
    def function(x):
        module.requires_grad_(False)
        module.eval()
        return 1 if x.sum() > 0 else 0

    with pytest.raises(flambeau.CompileError):
        function(X)
    assert all(each.requires_grad for each in module.parameters())
    assert all(each.training for each in module.modules())


class Trainer(nn.Module):
    """Switches its mode in a method, and is not called itself."""

    def __init__(self):
        super().__init__()
        self.net, self.last = nn.Linear(2, 1), None

    def step(self, x):
        self.train()
        loss = self.net(x).square().mean()
        self.last, self.new = loss.detach(), x.sum()
        return loss


@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_module_that_is_switched_keeps_its_new_attributes(fullgraph):
    trainer = Trainer()
    step = flambeau.compile(trainer.step, fullgraph=fullgraph)
    for i in range(3):
        loss = step(X * i)
        assert trainer.last.item() == loss.item()
        assert trainer.new.item() == 4.0 * i


def test_a_tensor_that_has_become_a_result_is_no_leaf_at_the_next_call():
    total = flambeau.zeros(2)

    @flambeau.compile
    def add(x):
        total.requires_grad_(False)
        total.add_(x)

    add(flambeau.ones(2, requires_grad=True))
    assert not total.is_leaf
    with pytest.raises(RuntimeError, match="leaf tensors only"):
        add(flambeau.ones(2, requires_grad=True))
