"""Affine and bilinear maps."""

import pytest

import flambeau
from flambeau import nn


def test_identity_ignores_its_arguments():
    layer = nn.Identity(3, unused=4)
    x = object()
    assert layer(x) is x


def test_bias_can_be_left_out():
    layer = nn.Linear(2, 3, bias=False)
    assert layer.bias is None
    assert list(layer.state_dict()) == ["weight"]
    layer.reset_parameters()


def test_weights_are_those_that_pytorch_draws():
    flambeau.manual_seed(0)
    layer = nn.Linear(2, 2)
    expected = [[-0.0053, 0.3793], [-0.5820, -0.5204]]
    assert layer.weight.mul(1e4).round().div(1e4).sub(flambeau.tensor(expected)).abs().max() < 1e-6


def test_layer_without_inputs_has_a_bias_of_zero():
    with pytest.warns(UserWarning, match="no elements"):
        layer = nn.Linear(0, 2)
    assert layer(flambeau.ones(3, 0)).tolist() == [[0.0, 0.0]] * 3


def test_wrong_number_of_features_names_both_shapes():
    with pytest.raises(RuntimeError, match=r"(?s)4.*3|3.*4"):
        nn.Linear(3, 2)(flambeau.ones(1, 4))


def test_bilinear_needs_a_first_input():
    with pytest.raises(ValueError, match="in1_features must be positive, got 0"):
        nn.Bilinear(0, 1, 1)
