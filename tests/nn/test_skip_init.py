"""Making modules whose values nobody has filled."""

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import skip_init


class Model(nn.Module):
    def __init__(self, size, device=None):
        super().__init__()
        self.scale = nn.Parameter(flambeau.empty(size, device=device))
        nn.init.uniform_(self.scale)
        self.inner = nn.Sequential(
            nn.Linear(size, 5, device=device), nn.BatchNorm1d(5, device=device)
        )


def test_no_random_number_is_drawn():
    flambeau.manual_seed(1)
    before = flambeau.get_rng_state()
    skip_init(nn.Linear, 10, 5)
    assert (flambeau.get_rng_state() == before).all()


def test_members_are_on_the_device_wanted():
    model = skip_init(Model, 3)
    assert {each.device.type for each in model.state_dict().values()} == {"cpu"}
    assert model.inner[0].weight.shape == (5, 3)
    assert model.scale.requires_grad
    assert skip_init(nn.Linear, 2, 3, device="meta").weight.is_meta


def test_other_arguments_are_passed_on():
    layer = skip_init(nn.Linear, 2, out_features=3, bias=False, dtype=flambeau.float64)
    assert layer.bias is None
    assert layer.weight.dtype is flambeau.float64


def test_what_is_no_module_is_refused():
    with pytest.raises(RuntimeError, match="subclass of Module"):
        skip_init(int, 1)
    for wrong in (len, nn.Linear(1, 1)):
        with pytest.raises(TypeError, match="subclass of Module"):
            skip_init(wrong, 1)


def test_module_without_device_is_refused_with_both_requirements():
    with pytest.raises(RuntimeError, match=r"ReLU.*argument device.*nothing.*flambeau\.nn\.init"):
        skip_init(nn.ReLU)
