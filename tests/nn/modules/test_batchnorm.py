"""Batch normalization: its running statistics, its older states, its checks."""

from collections import OrderedDict

import pytest

import flambeau
from flambeau import nn


@pytest.mark.parametrize(
    ("name", "shape", "dims"),
    [
        ("BatchNorm1d", (2, 3, 1, 1), "2 or 3"),
        ("BatchNorm2d", (2, 3), "4"),
        ("BatchNorm3d", (2, 3, 1, 1), "5"),
        ("LazyBatchNorm2d", (2, 3), "4"),
        ("SyncBatchNorm", (3,), "at least 2"),
    ],
)
def test_other_numbers_of_dimensions_are_refused(name, shape, dims):
    layer = getattr(nn, name)() if "Lazy" in name else getattr(nn, name)(3)
    with pytest.raises(ValueError, match=f"{dims} dimensions"):
        layer._check_input_dim(flambeau.ones(shape))


def test_running_statistics_are_written_in_place_and_counted():
    layer = nn.BatchNorm1d(2, momentum=0.5)
    mean = layer.running_mean
    version = mean._version
    layer(flambeau.tensor([[1.0, 2.0], [3.0, 6.0]]))
    assert layer.running_mean is mean
    assert mean._version > version
    assert mean.tolist() == [1.0, 2.0]
    assert layer.running_var.tolist() == [1.5, 4.5]
    assert layer.num_batches_tracked.item() == 1


def test_evaluation_changes_nothing():
    layer = nn.BatchNorm1d(2).eval()
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    layer(flambeau.tensor([[1.0, 2.0], [3.0, 6.0]]))
    for name, value in layer.state_dict().items():
        assert (value == before[name]).all()


def test_average_of_all_batches():
    layer = nn.BatchNorm1d(1, momentum=None)
    for value in (0.0, 3.0, 6.0):
        layer(flambeau.tensor([[value], [value + 2]]))
    assert layer.running_mean.tolist() == [4.0]
    assert layer.running_var.tolist() == [2.0]


@pytest.mark.parametrize("momentum", [0.1, None])
def test_compiled_training_counts_every_batch_without_compiling_again(momentum):
    layer = nn.BatchNorm1d(2, momentum=momentum)
    reference = nn.BatchNorm1d(2, momentum=momentum)

    @flambeau.compile
    def run(x):
        return layer(x)

    for step in range(3):
        x = flambeau.tensor([[1.0, 2.0], [3.0, 6.0 + step]])
        assert (run(x) - reference(x)).abs().max().item() < 1e-6
        for name, value in reference.state_dict().items():
            assert (layer.state_dict()[name] - value).abs().max().item() < 1e-6, name
    assert run.program_count == 1


def test_reset_puts_everything_back():
    layer = nn.BatchNorm1d(2)
    layer(flambeau.tensor([[1.0, 2.0], [3.0, 6.0]]))
    nn.init.constant_(layer.weight, 5.0)
    layer.reset_parameters()
    fresh = nn.BatchNorm1d(2).state_dict()
    for name, value in layer.state_dict().items():
        assert (value == fresh[name]).all()


def test_states_from_before_batches_were_counted_load():
    layer = nn.BatchNorm1d(2)
    layer(flambeau.tensor([[1.0, 2.0], [3.0, 6.0]]))
    state = nn.BatchNorm1d(2).state_dict()
    del state["num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        layer.load_state_dict(state)
    old = OrderedDict(state)
    assert str(layer.load_state_dict(old)) == "<All keys matched successfully>"
    assert layer.num_batches_tracked.item() == 1


def test_users_can_build_on_the_base():
    class Own(nn.modules.batchnorm._BatchNorm):
        def _check_input_dim(self, input):
            pass

    assert Own(3)(flambeau.ones(2, 3, 2)).shape == (2, 3, 2)
    with pytest.raises(NotImplementedError, match="_BatchNorm does not define _check_input_dim"):
        nn.modules.batchnorm._BatchNorm(3)(flambeau.ones(2, 3))


def test_conversion_keeps_parameters_and_buffers():
    model = nn.Sequential(nn.BatchNorm2d(3, affine=False), nn.Sequential(nn.BatchNorm1d(2).eval()))
    inner = model[1][0]
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(model, process_group="group")
    assert converted is model
    assert type(model[0]) is type(model[1][0]) is nn.SyncBatchNorm
    assert model[1][0].weight is inner.weight
    assert model[1][0].running_var is inner.running_var
    assert not model[1][0].training
    assert model[0].weight is None
    assert model[0].process_group == "group"
    assert type(nn.SyncBatchNorm.convert_sync_batchnorm(inner)) is nn.SyncBatchNorm


def test_sync_needs_channels():
    with pytest.raises(ValueError, match="with channels"):
        nn.SyncBatchNorm(0)(flambeau.ones(2, 0))
