"""Modes and flags that a function saves, changes and restores, or leaves changed."""

import contextlib

import pytest

import flambeau
from flambeau import nn

X = flambeau.ones(2, 2)


def same(make, poke, look, calls=5):
    """Compiled calls give the results of eager ones, and leave what ``look`` sees as they do."""
    runs = []
    for compile_ in (lambda function: function, flambeau.compile):
        flambeau.manual_seed(0)
        function, state = make()
        run = compile_(function)
        found = []
        for i in range(calls):
            poke(state, i)
            found.append((run(X * (i + 1)).tolist(), look(state)))
        runs.append(found)
    for (expected, seen), (given, left) in zip(*runs, strict=True):
        assert flambeau.allclose(flambeau.tensor(given), flambeau.tensor(expected))
        assert left == seen


def normed():
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))


def modes_of(module):
    return [each.training for each in module.modules()]


def switched(module):
    """Evaluates, and restores the mode of the root for all."""

    def predict(x):
        was = module.training
        module.eval()
        try:
            return module(x)
        finally:
            module.train(was)

    return predict


def switched_one_by_one(module):
    def predict(x):
        was = {each: each.training for each in module.modules()}
        module.train(False)
        result = module(x)
        for each, mode in was.items():
            each.train(mode)
        return result

    return predict


def assigned(module):
    def predict(x):
        was, module.training = module.training, False
        result = x * (2 if module.training else 3)
        module.training = was
        return result

    return predict


def left_in_evaluation(module):
    def function(x):
        result = x * (2 if module.training else 3)
        module.eval()
        return result

    return function


def toggled(module):
    def function(x):
        module.train(not module.training)
        return x * (2 if module.training else 3)

    return function


MODES = [switched, switched_one_by_one, assigned, left_in_evaluation, toggled]


@pytest.mark.parametrize("write", MODES)
def test_a_mode_is_compared_as_it_was_read(write):
    def make():
        module = normed()
        return write(module), module

    def poke(module, i):
        module.train(i % 3 != 1)
        module[1].train(i != 4)

    same(make, poke, modes_of)


def frozen_around(weight):
    def function(x):
        was = weight.requires_grad
        weight.requires_grad_(False)
        result = x * weight
        weight.requires_grad_(was)
        return result

    return function


@contextlib.contextmanager
def frozen(module):
    flags = [each.requires_grad for each in module.parameters()]
    module.requires_grad_(False)
    try:
        yield sum(flags)
    finally:
        for each, flag in zip(module.parameters(), flags, strict=True):
            each.requires_grad = flag


def test_a_flag_is_compared_as_it_was_read():
    def make():
        weight = nn.Parameter(X.clone())
        return frozen_around(weight), weight

    same(
        make, lambda weight, i: weight.requires_grad_(i % 3 != 1),
        lambda weight: weight.requires_grad,
    )  # fmt: skip


def test_flags_that_a_context_manager_restores_are_compared():
    def make():
        module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))

        def step(x):
            with frozen(module[0]) as count:
                loss = module(x).sum() * count
            module.zero_grad()
            loss.backward()
            return loss.detach()

        return step, module

    def look(module):
        flags = [each.requires_grad for each in module.parameters()]
        return flags, [
            None if each.grad is None else each.grad.sum() for each in module[0].parameters()
        ]

    def poke(module, i):
        module[0].bias.requires_grad_(i != 2)

    same(make, poke, look)


def test_a_flag_that_is_set_before_it_is_read_needs_one_program():
    module = normed()

    @flambeau.compile
    def step(x):
        module.eval()
        module.requires_grad_(False)
        return module(x)

    for flag in (True, False, True):
        module.train(flag)
        module.requires_grad_(flag)
        step(X)
        assert not module.training
    assert step.program_count == 1


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
