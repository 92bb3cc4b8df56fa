"""Averages of weights against PyTorch's."""

import inspect

import numpy as np
import pytest
import torch

import flambeau
from flambeau.optim import swa_utils

STEPS = 6


def model_of(lib):
    model = lib.nn.Sequential(lib.nn.Conv2d(2, 3, 2), lib.nn.BatchNorm2d(3), lib.nn.Flatten())
    rng = np.random.default_rng(0)
    with lib.no_grad():
        for param in model.parameters():
            param.copy_(lib.tensor(rng.standard_normal(param.shape).astype("float32")))
    return model


def batches(lib, count=4):
    rng = np.random.default_rng(1)
    return [lib.tensor(rng.standard_normal((4, 2, 3, 3)).astype("float32")) for _ in range(count)]


def change(lib, model, i):
    rng = np.random.default_rng(10 + i)
    with lib.no_grad():
        for param in model.parameters():
            param.add_(lib.tensor(rng.standard_normal(param.shape).astype("float32")))
    model(batches(lib)[i % 4])


def assert_same(ours, theirs, tolerance=1e-6):
    ours, theirs = ours.state_dict(), theirs.state_dict()
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        assert str(ours[name].dtype).split(".")[1] == str(value.dtype).split(".")[1]
        np.testing.assert_allclose(
            ours[name].numpy(), value.numpy(), rtol=tolerance, atol=tolerance, err_msg=name
        )


MODES = {
    "default": lambda u: {},
    "swa": lambda u: {"avg_fn": u.get_swa_avg_fn()},
    "swa, all at once": lambda u: {"multi_avg_fn": u.get_swa_multi_avg_fn()},
    "ema": lambda u: {"avg_fn": u.get_ema_avg_fn(0.7)},
    "ema, all at once": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.7)},
    "ema, slow": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.2)},
    "own": lambda u: {"avg_fn": lambda average, value, count: average * count + value},
}


def reference(mode):
    """The mode of PyTorch to compare with: its own at once fails on buffers of integers."""
    return "swa" if mode == "swa, all at once" else mode


def average_over_steps(lib, mode, use_buffers, update=None):
    utils = lib.optim.swa_utils
    model = model_of(lib)
    averaged = utils.AveragedModel(model, use_buffers=use_buffers, **MODES[mode](utils))
    update = (update or (lambda function: function))(lambda: averaged.update_parameters(model))
    for i in range(STEPS):
        change(lib, model, i)
        update()
    return averaged, model


@pytest.mark.parametrize("use_buffers", [False, True], ids=["copied", "averaged"])
@pytest.mark.parametrize("mode", MODES)
def test_averages_agree(mode, use_buffers):
    ours, model = average_over_steps(flambeau, mode, use_buffers)
    theirs, _ = average_over_steps(torch, reference(mode), use_buffers)
    assert_same(ours, theirs)
    assert set(ours.module.parameters()).isdisjoint(model.parameters())


@pytest.mark.parametrize("mode", MODES)
def test_averages_agree_when_compiled(mode):
    ours, _ = average_over_steps(flambeau, mode, True, flambeau.compile)
    theirs, _ = average_over_steps(torch, reference(mode), True)
    assert_same(ours, theirs)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool"])
@pytest.mark.parametrize("decay", [0.9, 0.95])
def test_averages_of_counters_are_cut_to_the_same_integers(decay, dtype):
    results = []
    for lib in (flambeau, torch):
        average = lib.arange(120).to(getattr(lib, dtype))
        value = (lib.arange(120) + lib.arange(120) % 7).to(average.dtype)
        lib.optim.swa_utils.get_ema_multi_avg_fn(decay)([average], [value], 1)
        results.append(average.tolist())
    assert results[0] == results[1]


def test_the_first_average_is_the_model_itself():
    model = model_of(flambeau)
    averaged = swa_utils.AveragedModel(model)
    change(flambeau, model, 0)
    averaged.update_parameters(model)
    for mine, other in zip(averaged.module.parameters(), model.parameters(), strict=True):
        np.testing.assert_array_equal(mine.detach().numpy(), other.detach().numpy())


@pytest.mark.parametrize("as_pairs", [False, True])
def test_batch_statistics_agree(as_pairs):
    models = []
    for lib in (flambeau, torch):
        model = model_of(lib)
        model[1].momentum = 0.3
        model.eval()
        loader = [(each, 1) if as_pairs else each for each in batches(lib)]
        lib.optim.swa_utils.update_bn(loader, model)
        assert not model.training
        assert model[1].momentum == 0.3
        models.append(model)
    assert_same(*models, tolerance=1e-5)


def test_momenta_come_back_when_a_batch_fails():
    model = model_of(flambeau)
    with pytest.raises(TypeError, match="input must be a Tensor, got None"):
        swa_utils.update_bn([None], model)
    assert model[1].momentum == 0.1


@pytest.mark.parametrize(
    "options",
    [
        {"swa_lr": 0.05},
        {"swa_lr": [0.05, 0.9], "anneal_epochs": 4, "anneal_strategy": "linear"},
        {"swa_lr": 0.05, "anneal_epochs": 0},
    ],
)
def test_the_rate_goes_to_its_final_value_as_in_pytorch(options):
    courses, states = [], []
    for lib in (flambeau, torch):
        groups = [{"params": [lib.zeros(2)], "lr": 0.3}, {"params": [lib.zeros(1)]}]
        optimizer = lib.optim.SGD(groups, lr=0.7)
        before = lib.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
        scheduler = lib.optim.swa_utils.SWALR(optimizer, **options)
        course = []
        for i in range(14):
            optimizer.step()
            (before if i < 4 else scheduler).step()
            course.append([group["lr"] for group in optimizer.param_groups])
        courses.append(course)
        states.append(
            {key: value for key, value in scheduler.state_dict().items() if key != "optimizer"}
        )
    assert courses[0] == courses[1]
    assert states[0] == states[1]


INVALID = {
    "both functions": lambda lib, u: u.AveragedModel(
        lib.nn.Linear(1, 1), avg_fn=u.get_swa_avg_fn(), multi_avg_fn=u.get_swa_multi_avg_fn()
    ),
    "decay": lambda lib, u: u.get_ema_avg_fn(1.5),
    "decay, all at once": lambda lib, u: u.get_ema_multi_avg_fn(-0.1),
    "strategy": lambda lib, u: u.SWALR(sgd(lib), 0.1, anneal_strategy="steps"),
    "epochs": lambda lib, u: u.SWALR(sgd(lib), 0.1, anneal_epochs=-1),
    "fraction of an epoch": lambda lib, u: u.SWALR(sgd(lib), 0.1, anneal_epochs=0.5),
    "another structure": lambda lib, u: u.AveragedModel(lib.nn.Linear(2, 2)).update_parameters(
        lib.nn.Linear(2, 3)
    ),
    "rates": lambda lib, u: u.SWALR(sgd(lib), [0.1, 0.2]),
}


def sgd(lib):
    return lib.optim.SGD([lib.zeros(1, requires_grad=True)], lr=0.1)


@pytest.mark.parametrize("case", INVALID)
def test_wrong_arguments_raise_as_in_pytorch(case):
    with pytest.raises((AssertionError, ValueError, RuntimeError)) as expected:
        INVALID[case](torch, torch.optim.swa_utils)
    with pytest.raises(expected.type):
        INVALID[case](flambeau, swa_utils)


@pytest.mark.parametrize("name", swa_utils.__all__)
def test_arguments_are_pytorchs(name):
    ours, theirs = (
        {
            each: (parameter.kind, parameter.default)
            for each, parameter in inspect.signature(getattr(utils, name)).parameters.items()
        }
        for utils in (swa_utils, torch.optim.swa_utils)
    )
    assert ours == theirs
