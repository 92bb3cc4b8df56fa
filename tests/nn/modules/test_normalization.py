"""Normalization of each sample by itself."""

import pytest

import flambeau
from flambeau import nn


def test_groups_must_divide_channels():
    with pytest.raises(ValueError, match="num_channels=5 must be divisible by num_groups=2"):
        nn.GroupNorm(2, 5)


def test_shape_may_be_a_number_a_list_or_a_size():
    for shape in (3, [3], (3,), flambeau.Size([3])):
        assert nn.LayerNorm(shape).normalized_shape == (3,)
        assert nn.RMSNorm(shape).normalized_shape == (3,)


def test_layer_without_parameters_has_none():
    for layer in (
        nn.LayerNorm(3, elementwise_affine=False),
        nn.RMSNorm(3, elementwise_affine=False),
        nn.GroupNorm(1, 3, affine=False),
    ):
        assert not layer.state_dict()
        assert layer.weight is None
        layer.reset_parameters()


def test_cross_map_is_local_response_of_images():
    x = flambeau.arange(16.0).reshape(1, 4, 2, 2)
    expected = nn.LocalResponseNorm(3, 0.5, 0.6, 2.0)(x)
    assert (nn.CrossMapLRN2d(3, 0.5, 0.6, 2.0)(x) == expected).all()
    with pytest.raises(ValueError, match="CrossMapLRN2d"):
        nn.CrossMapLRN2d(3)(x[0])
