"""Layers that batch normalization has been merged into."""

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import fuse_conv_bn_eval, fuse_linear_bn_eval


def used(layer, x):
    """The layer in evaluation, its running statistics having seen a batch."""
    layer(x)
    return layer.eval()


def test_a_fused_convolution_gives_the_same():
    x = flambeau.linspace(-1, 1, 32).reshape(2, 2, 8)
    conv, bn = used(nn.Sequential(nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3)), x)
    fused = fuse_conv_bn_eval(conv, bn)
    assert flambeau.allclose(fused(x), bn(conv(x)), atol=1e-5)


def test_a_fused_linear_layer_gives_the_same():
    x = flambeau.linspace(-1, 1, 12).reshape(3, 4) ** 2
    linear, bn = used(nn.Sequential(nn.Linear(4, 2, bias=False), nn.BatchNorm1d(2)), x)
    before = linear.weight.tolist()
    fused = fuse_linear_bn_eval(linear, bn)
    assert flambeau.allclose(fused(x), bn(linear(x)), atol=1e-5)
    assert linear.weight.tolist() == before


def test_training_layers_cannot_be_fused():
    with pytest.raises(AssertionError, match=r"eval\(\)"):
        fuse_linear_bn_eval(nn.Linear(1, 1), nn.BatchNorm1d(1))
