"""An optimizer on parameters and a state that it is lent does what PyTorch's does."""

import copy

import numpy as np
import pytest
import torch

import flambeau

OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9},
    "Adam": {"lr": 0.1, "amsgrad": True},
    "Rprop": {"lr": 0.1},
}
RANDOM = np.random.default_rng(0)
SHAPES = [(2, 3), (3,), (2,)]
VALUES, OTHERS = ([RANDOM.standard_normal(shape) for shape in SHAPES] for _ in range(2))


def with_gradients(lib, values):
    found = [lib.nn.Parameter(lib.tensor(each)) for each in values]
    for each in found:
        each.grad = lib.cos(each.detach())
    return found


def stepped(lib, name):
    params = with_gradients(lib, VALUES)
    groups = [{"params": params[:2]}, {"params": params[2:], "lr": 0.05}]
    optimizer = getattr(lib.optim, name)(groups, **OPTIMIZERS[name])
    optimizer.step()
    return params, optimizer


def entries(state):
    """The tensors of a state dict, in order."""
    return [each for own in state["state"].values() for _, each in sorted(own.items())]


def course(lib, name):
    """What an optimizer and what it is lent are after two steps within, and one more outside."""
    params, optimizer = stepped(lib, name)
    state = copy.deepcopy(optimizer.state_dict())
    state["param_groups"][0]["lr"] = 0.2
    lent = dict(zip("abc", with_gradients(lib, OTHERS), strict=True))
    swap = lib.optim.swap_in_optimizer_params_and_state
    rates = [group["lr"] for group in optimizer.param_groups]
    with swap(optimizer, lent, state):
        rates += [group["lr"] for group in optimizer.param_groups]
        optimizer.step()
        optimizer.step()
    rates += [group["lr"] for group in optimizer.param_groups]
    optimizer.step()
    tensors = [*params, *lent.values(), *entries(state), *entries(optimizer.state_dict())]
    return rates, [np.asarray(each.detach()) for each in tensors if hasattr(each, "detach")]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_on_what_is_lent(name):
    rates, tensors = course(flambeau, name)
    expected_rates, expected = course(torch, name)
    assert rates == expected_rates
    for ours, theirs in zip(tensors, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def without_a_state(lib, optimizer, state, lent):
    return lib.optim.SGD(list(lent.values()), lr=0.1), state, lent


def one_group_less(lib, optimizer, state, lent):
    return optimizer, {**state, "param_groups": state["param_groups"][:1]}, lent


def one_parameter_less(lib, optimizer, state, lent):
    return optimizer, state, dict(list(lent.items())[:2])


def other_options(lib, optimizer, state, lent):
    group = {key: each for key, each in state["param_groups"][0].items() if key != "lr"}
    return optimizer, {**state, "param_groups": [group, state["param_groups"][1]]}, lent


def a_stranger(lib, optimizer, state, lent):
    return optimizer, {**state, "state": {**state["state"], 7: {}}}, lent


def no_groups(lib, optimizer, state, lent):
    return optimizer, {"state": state["state"]}, lent


@pytest.mark.parametrize(
    "change",
    [without_a_state, one_group_less, one_parameter_less, other_options, a_stranger, no_groups],
)
def test_what_does_not_fit_is_refused_before_anything_changes(change):
    for lib in (torch, flambeau):
        _, optimizer = stepped(lib, "SGD")
        before = repr(optimizer.state_dict())
        lent = dict(zip("abc", with_gradients(lib, OTHERS), strict=True))
        given, state, others = change(lib, optimizer, optimizer.state_dict(), lent)
        swap = lib.optim.swap_in_optimizer_params_and_state
        with pytest.raises(RuntimeError, match=r"swap_in|optim"), swap(given, others, state):
            pass
        assert repr(optimizer.state_dict()) == before


def test_all_is_as_before_after_an_error():
    params, optimizer = stepped(flambeau, "Adam")
    before = repr(optimizer.state_dict())
    lent = dict(zip("abc", with_gradients(flambeau, OTHERS), strict=True))
    swap = flambeau.optim.swap_in_optimizer_params_and_state
    with pytest.raises(KeyError), swap(optimizer, lent, copy.deepcopy(optimizer.state_dict())):
        optimizer.step()
        raise KeyError
    assert repr(optimizer.state_dict()) == before
    assert [each for group in optimizer.param_groups for each in group["params"]] == params
