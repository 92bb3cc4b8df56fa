"""Optimizers that wrap another and share its groups and its state, as users write them."""

from collections import defaultdict

import numpy as np
import pytest
import torch

import flambeau


def climbing(lib):
    """A class whose steps take the gradient from a little further up (sharpness-aware)."""

    class Climbing(lib.optim.Optimizer):
        def __init__(self, params, base, radius=0.1, **options):
            super().__init__(params, {"radius": radius, **options})
            self.base = base(self.param_groups, **options)
            self.param_groups = self.base.param_groups
            self.defaults.update(self.base.defaults)

        def step(self, closure):
            closure()
            with lib.no_grad():
                for group in self.param_groups:
                    for param in group["params"]:
                        state = self.state[param]
                        if "climbed" not in state:
                            state["climbed"] = lib.zeros_like(param)
                        state["climbed"].copy_(group["radius"] * param.grad)
                        param.add_(state["climbed"])
            loss = closure()
            with lib.no_grad():
                for group in self.param_groups:
                    for param in group["params"]:
                        param.sub_(self.state[param]["climbed"])
            self.base.step()
            return loss

        def load_state_dict(self, state_dict):
            super().load_state_dict(state_dict)
            self.base.param_groups = self.param_groups

    return Climbing


def following(lib):
    """A class that keeps slow copies of the parameters, and does not call its base's `__init__`."""

    class Following(lib.optim.Optimizer):
        def __init__(self, base, share_state=False):
            self.base = base
            self.defaults = base.defaults
            self.param_groups = base.param_groups
            self.state = base.state if share_state else defaultdict(dict)
            for group in self.param_groups:
                group["part"] = 0.5

        @property
        def slow(self):
            return [each["slow"] for each in self.state.values()]

        def step(self, closure=None):
            loss = self.base.step(closure)
            with lib.no_grad():
                for group in self.param_groups:
                    for param in group["params"]:
                        state = self.state[param]
                        if "slow" not in state:
                            state["slow"] = param.detach().clone()
                        state["slow"].add_(param - state["slow"], alpha=group["part"])
                        param.copy_(state["slow"])
            return loss

    return Following


def problem(lib):
    param = lib.tensor([1.0, -2.0, 3.0], requires_grad=True)

    def closure():
        param.grad = None
        loss = (param**4 + param).sum()
        loss.backward()
        return loss

    return param, closure


def by_climbing(lib, base):
    param, closure = problem(lib)
    optimizer = climbing(lib)([param], getattr(lib.optim, base), lr=0.01)
    scheduler = lib.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    course = []
    for number in range(5):
        course.append(optimizer.step(closure).item())
        scheduler.step()
        if number == 2:
            optimizer.load_state_dict(optimizer.state_dict())
        if number == 3:
            optimizer.base.param_groups[0]["radius"] = 0.01
    return *course, optimizer.base.param_groups[0]["lr"], *param.tolist()


def by_following(lib, base, **options):
    param, closure = problem(lib)
    optimizer = following(lib)(getattr(lib.optim, base)([param], lr=0.01), **options)
    scheduler = lib.optim.lr_scheduler.StepLR(optimizer, 2)
    course = []
    for number in range(5):
        course.append(optimizer.step(closure).item())
        scheduler.step()
        if number == 1:
            for each in optimizer.slow:
                each.mul_(1.5)
    optimizer.zero_grad()
    assert param.grad is None
    saved = optimizer.base.state_dict()["state"].get(0, {})
    return *course, len(optimizer.state[param]), len(saved), *param.tolist()


def with_added_group(lib):
    """A group added to either is a group of both."""
    param, closure = problem(lib)
    optimizer = climbing(lib)([param], lib.optim.SGD, lr=0.01)
    more = lib.tensor([1.0], requires_grad=True)
    optimizer.add_param_group({"params": [more], "lr": 0.1})
    more.grad = lib.ones(1)
    optimizer.step(closure)
    same = optimizer.base.param_groups[1] is optimizer.param_groups[1]
    return same, len(optimizer.base.param_groups), *more.tolist(), *param.tolist()


CASES = {
    "SGD, climbing": lambda lib: by_climbing(lib, "SGD"),
    "Adam, climbing": lambda lib: by_climbing(lib, "Adam"),
    "SGD, following": lambda lib: by_following(lib, "SGD"),
    "Adam, following": lambda lib: by_following(lib, "Adam"),
    "Adam, following, one state": lambda lib: by_following(lib, "Adam", share_state=True),
    "an added group": with_added_group,
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrapper_does_what_it_does_in_pytorch(case):
    ours, theirs = CASES[case](flambeau), CASES[case](torch)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_groups_made_of_several_optimizers_groups_are_theirs():
    for lib in (flambeau, torch):
        params = [lib.ones(1, requires_grad=True) for _ in range(2)]
        optimizers = [lib.optim.SGD([params[0]], lr=0.5), lib.optim.Adam([params[1]], lr=0.5)]
        both = following(lib)(optimizers[0])
        both.param_groups = [group for each in optimizers for group in each.param_groups]
        for group in both.param_groups:
            group["lr"] = 0.25
        for param, optimizer in zip(params, optimizers, strict=True):
            param.grad = lib.ones(1)
            optimizer.step()
            assert param.item() == pytest.approx(0.75)


@pytest.mark.parametrize("base", ["SGD", "Adam"])
def test_a_compiled_step_of_a_wrapper_follows_its_base(base):
    courses = []
    for compiled in (False, True):
        param, closure = problem(flambeau)
        optimizer = climbing(flambeau)([param], getattr(flambeau.optim, base), lr=0.01)
        # State is made at the first call, which no program can do.
        optimizer.step(closure)

        def step(optimizer=optimizer, closure=closure):
            return optimizer.step(closure)

        run = flambeau.compile(step) if compiled else step
        course = []
        for number in range(4):
            course.append(run().item())
            optimizer.param_groups[0]["lr"] *= 0.5
            if number == 1:
                optimizer.base.param_groups[0]["radius"] = 0.01
        courses.append([*course, *param.tolist()])
    np.testing.assert_allclose(*courses, rtol=1e-5)
