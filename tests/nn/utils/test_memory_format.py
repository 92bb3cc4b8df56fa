"""Memory formats of weights, which XLA chooses."""

import flambeau
from flambeau import nn
from flambeau.nn.utils import (
    convert_conv2d_weight_memory_format,
    convert_conv3d_weight_memory_format,
)


def test_modules_stay_as_they_are():
    model = nn.Sequential(nn.Conv2d(1, 1, 1))
    weight = model[0].weight
    assert convert_conv2d_weight_memory_format(model, flambeau.channels_last) is model
    assert convert_conv3d_weight_memory_format(model, flambeau.channels_last_3d) is model
    assert model[0].weight is weight
