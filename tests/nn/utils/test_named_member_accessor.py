"""Tensors of modules that are exchanged."""

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils._named_member_accessor import swap_tensor


def test_a_tensor_takes_the_place_of_a_parameter_or_buffer():
    layer = nn.BatchNorm1d(2)
    weight, mean = layer.weight, layer.running_mean
    doubled = 2 * weight
    assert swap_tensor(layer, "weight", doubled) is weight
    assert layer.weight is doubled
    assert swap_tensor(layer, "running_mean", None) is mean
    assert layer.running_mean is None
    swap_tensor(layer, "weight", weight)
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]


def test_other_attributes_are_exchanged_too():
    layer = nn.Linear(2, 1)
    layer.scale = flambeau.ones(1)
    scale = layer.scale
    assert swap_tensor(layer, "scale", flambeau.zeros(1)) is scale
    swap_tensor(layer, "shift", flambeau.ones(1), allow_missing=True)
    assert layer.shift.tolist() == [1.0]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("weight", 1.0), TypeError),
        (("in_features", flambeau.ones(1)), TypeError),
        (("a.weight", None), KeyError),
        (("", None), KeyError),
        (("shift", None), AttributeError),
    ],
)
def test_what_is_no_tensor_of_the_module_is_refused(arguments, error):
    layer = nn.Linear(2, 1)
    with pytest.raises(error):
        swap_tensor(layer, *arguments)
    with pytest.raises(TypeError, match="takes a Module"):
        swap_tensor("layer", *arguments)
