"""Layers that only change shapes: Flatten, Unflatten, Fold, PixelShuffle, Upsample, padding."""

import pickle

import pytest

import flambeau
from flambeau import nn


def test_unflatten_takes_integers_only():
    with pytest.raises(TypeError, match="got a str at position 1"):
        nn.Unflatten(1, (2, "3"))
    with pytest.raises(TypeError, match="got a int"):
        nn.Unflatten(1, 2)


def test_fold_adds_up_what_unfold_took_apart():
    x = flambeau.arange(18.0).reshape(1, 2, 3, 3)
    counts = nn.Fold(3, 2)(nn.Unfold(2)(flambeau.ones(1, 2, 3, 3)))
    assert (nn.Fold(3, 2)(nn.Unfold(2)(x)) == x * counts).all()


def test_pixels_go_back_where_they_were():
    x = flambeau.arange(16.0).reshape(1, 4, 2, 2)
    assert (nn.PixelUnshuffle(2)(nn.PixelShuffle(2)(x)) == x).all()


def test_channels_are_taken_in_turns():
    x = flambeau.arange(6).reshape(1, 6, 1)
    assert nn.ChannelShuffle(2)(x).flatten().tolist() == [0, 3, 1, 4, 2, 5]


def test_upsample_describes_what_it_was_given():
    assert repr(nn.Upsample(scale_factor=2)) == "Upsample(scale_factor=2.0, mode='nearest')"
    assert repr(nn.Upsample((2, 3))) == "Upsample(size=(2, 3), mode='nearest')"
    layer = nn.Upsample(scale_factor=(1, 2))
    assert layer.scale_factor == (1.0, 2.0)
    assert layer.name == "Upsample"


def test_older_pickles_of_upsample_recompute_the_scale():
    layer = nn.Upsample(2)
    del layer.recompute_scale_factor
    assert pickle.loads(pickle.dumps(layer)).recompute_scale_factor is True


def test_padding_is_kept_per_side():
    assert nn.ZeroPad2d(1).padding == (1, 1, 1, 1)
    assert nn.ReflectionPad3d(2).padding == (2,) * 6
    assert nn.ConstantPad1d([1, 2], 3.0).padding == (1, 2)


def test_circular_padding_checks_dimensions():
    with pytest.raises(ValueError, match="CircularPad1d takes an input of 2 or 3 dimensions"):
        nn.CircularPad1d(1)(flambeau.ones(1, 1, 1, 1))
