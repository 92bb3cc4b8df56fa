"""Averages of weights: what they are, also inside compiled functions."""

import copy

import numpy as np
import pytest

import flambeau
from flambeau import nn, optim
from flambeau.optim import swa_utils


def model_of(fill=1.0):
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    set_all(model, fill)
    return model


def set_all(model, fill):
    with flambeau.no_grad():
        for param in model.parameters():
            param.fill_(fill)


def values(averaged):
    return {value for param in averaged.module.parameters() for value in param.flatten().tolist()}


def test_equal_weights_give_the_mean():
    model = model_of()
    averaged = swa_utils.AveragedModel(model)
    for fill in (1.0, 2.0, 6.0):
        set_all(model, fill)
        averaged.update_parameters(model)
    assert values(averaged) == {3.0}
    assert averaged.n_averaged.item() == 3
    assert values_of_model(model) == {6.0}


def values_of_model(model):
    return {value for param in model.parameters() for value in param.flatten().tolist()}


def test_falling_weights_start_from_the_first_model():
    model = model_of(0.0)
    averaged = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.5))
    for fill in (4.0, 2.0, 1.0):
        set_all(model, fill)
        averaged.update_parameters(model)
    assert values(averaged) == {2.0}


def test_buffers_are_copied_or_averaged():
    model = model_of()
    copied = swa_utils.AveragedModel(model)
    mean = swa_utils.AveragedModel(model, use_buffers=True)
    for fill in (1.0, 5.0):
        model[1].running_mean.fill_(fill)
        copied.update_parameters(model)
        mean.update_parameters(model)
    assert copied.module[1].running_mean.tolist() == [5.0] * 3
    assert mean.module[1].running_mean.tolist() == [3.0] * 3


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.5)},
        {"avg_fn": swa_utils.get_ema_avg_fn(0.5)},
    ],
)
def test_training_and_averaging_in_one_program(options):
    def build():
        model = model_of(0.5)
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        averaged = swa_utils.AveragedModel(model, use_buffers=True, **options)

        def step(x):
            optimizer.zero_grad()
            (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
            optimizer.step()
            averaged.update_parameters(model)

        return step, averaged

    (eager, ours), (step, theirs) = build(), build()
    compiled = flambeau.compile(step)
    for i in range(3):
        x = flambeau.tensor(np.random.default_rng(i).standard_normal((4, 2)).astype("float32"))
        eager(x)
        compiled(x)
    for name, value in ours.state_dict().items():
        np.testing.assert_allclose(
            value.numpy(), theirs.state_dict()[name].numpy(), rtol=1e-5, atol=1e-6, err_msg=name
        )
    assert theirs.n_averaged.item() == 3
    assert compiled.program_count == 1


def test_an_averaged_model_is_saved_and_copied():
    model = model_of()
    averaged = swa_utils.AveragedModel(model)
    averaged.update_parameters(model)
    state = averaged.state_dict()
    assert state["n_averaged"].item() == 1
    assert "module.0.weight" in state
    other = swa_utils.AveragedModel(model_of(7.0))
    other.load_state_dict(state)
    set_all(model, 3.0)
    twin = copy.deepcopy(other)
    twin.update_parameters(model)
    assert values(twin) == {2.0}
    assert values(other) == {1.0}


def test_statistics_are_those_of_all_batches():
    model = model_of()
    batches = [flambeau.full((4, 2), float(i)) for i in range(3)]
    swa_utils.update_bn(batches, model)
    np.testing.assert_allclose(model[1].running_mean.numpy(), [3.0] * 3, rtol=1e-6)
    assert model[1].num_batches_tracked.item() == 3


def test_a_model_without_statistics_is_not_run():
    class Refuses(nn.Module):
        def forward(self, x):
            raise AssertionError("was run")

    swa_utils.update_bn([flambeau.ones(1)], Refuses())


def test_a_model_of_another_structure_changes_no_average():
    averaged = swa_utils.AveragedModel(nn.Linear(2, 1))
    before = {name: value.tolist() for name, value in averaged.state_dict().items()}
    # These shapes broadcast, so that nothing else would refuse them.
    with pytest.raises(RuntimeError, match=r"tensor 0 .* \[3, 2\], and its average \[1, 2\]"):
        averaged.update_parameters(nn.Linear(2, 3))
    assert {name: value.tolist() for name, value in averaged.state_dict().items()} == before
