"""Pooling: what its constructors keep and check."""

import pickle

import pytest

import flambeau
from flambeau import nn


def test_stride_is_the_size_of_the_window_by_default():
    assert nn.MaxPool2d((2, 3)).stride == (2, 3)
    assert nn.AvgPool2d(3).stride == 3
    assert nn.AvgPool1d(3).stride == (3,)
    assert nn.MaxUnpool2d(2).stride == (2, 2)
    assert nn.LPPool2d(2, 3).stride is None


def test_unpooling_puts_maxima_back():
    x = flambeau.tensor([[[1.0, 4.0, 3.0, 2.0]]])
    values, indices = nn.MaxPool1d(2, return_indices=True)(x)
    assert nn.MaxUnpool1d(2)(values, indices).tolist() == [[[0.0, 4.0, 3.0, 0.0]]]


@pytest.mark.parametrize("kind", [nn.FractionalMaxPool2d, nn.FractionalMaxPool3d])
def test_fractional_pooling_takes_one_of_size_and_ratio(kind):
    with pytest.raises(ValueError, match="output_size or an output_ratio, and not both"):
        kind(2)
    with pytest.raises(ValueError, match=r"not both; got output_size=3, output_ratio=0.5"):
        kind(2, output_size=3, output_ratio=0.5)
    with pytest.raises(ValueError, match=r"between 0 and 1, got 1.5"):
        kind(2, output_ratio=1.5)
    with pytest.raises(ValueError, match="kernel_size must be positive, got 0"):
        kind(0, output_size=3)


def test_fractional_pooling_takes_samples_of_ones_own():
    samples = flambeau.tensor([[[0.3, 0.7]]])
    layer = nn.FractionalMaxPool2d(2, 2, _random_samples=samples)
    x = flambeau.arange(25.0).reshape(1, 1, 5, 5)
    assert (layer(x) == layer(x)).all()
    assert list(layer.state_dict()) == ["_random_samples"]


def test_older_pickles_of_average_pooling_have_defaults():
    layer = nn.AvgPool3d(2)
    for name in ("padding", "ceil_mode", "count_include_pad"):
        delattr(layer, name)
    loaded = pickle.loads(pickle.dumps(layer))
    assert (loaded.padding, loaded.ceil_mode, loaded.count_include_pad) == (0, False, True)
