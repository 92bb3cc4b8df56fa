"""Activations: their flags and checks."""

import pickle

import pytest

import flambeau
from flambeau import nn


@pytest.mark.parametrize("name", ["ReLU", "SiLU", "Hardtanh", "ELU", "LeakyReLU", "RReLU"])
def test_in_place_layer_gives_its_input(name):
    x = flambeau.tensor([-1.0, 2.0])
    layer = getattr(nn, name)(inplace=True)
    assert layer(x) is x
    assert "inplace=True" in repr(layer)
    assert "inplace" not in repr(getattr(nn, name)())


def test_bounds_must_be_in_order():
    with pytest.raises(AssertionError, match="max_val=1 must be greater than min_val=2"):
        nn.Hardtanh(2, 1)


def test_older_names_of_bounds_are_deprecated():
    with pytest.warns(FutureWarning, match="min_val"):
        layer = nn.Hardtanh(min_value=-3.0)
    with pytest.warns(FutureWarning, match="max_val"):
        assert nn.Hardtanh(max_value=3.0).max_val == 3.0
    assert layer.min_val == -3.0


def test_random_slopes_lie_between_the_bounds():
    layer = nn.RReLU(0.2, 0.4)
    x = -flambeau.ones(256)
    slopes = -layer(x)
    assert 0.2 <= slopes.min().item() < 0.22
    assert 0.38 < slopes.max().item() <= 0.4
    assert (layer.eval()(x) + 0.3).abs().max().item() < 1e-6


def test_softmax_without_dim_is_deprecated():
    with pytest.warns(UserWarning, match="dim"):
        nn.Softmax()(flambeau.zeros(2, 2))
    layer = nn.Softmax(1)
    del layer.dim
    assert pickle.loads(pickle.dumps(layer)).dim is None


def test_softmax2d_takes_images():
    with pytest.raises(ValueError, match="Softmax2d"):
        nn.Softmax2d()(flambeau.zeros(2, 2))


def test_slopes_of_prelu_begin_where_wanted():
    layer = nn.PReLU(3, init=0.5)
    assert layer.weight.tolist() == [0.5] * 3
