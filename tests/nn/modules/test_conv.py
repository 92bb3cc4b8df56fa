"""Convolutions: what their constructors check, and the sizes that transposed ones can give."""

import pickle

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.modules.conv import _ConvNd, _ConvTransposeNd


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": 0}, "groups must be positive, got 0"),
        ({"groups": 3}, "in_channels=4 must be divisible by groups=3"),
        ({"groups": 4}, "out_channels=6 must be divisible by groups=4"),
        ({"padding": "full"}, "'same' or 'valid', got 'full'"),
        ({"padding": "same", "stride": 2}, r"padding='same' needs stride 1, got stride=\(2, 2\)"),
        ({"padding_mode": "mirror"}, "padding_mode must be one of .*, got 'mirror'"),
    ],
)
def test_constructor_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        nn.Conv2d(4, 6, 3, **options)


def test_same_padding_needs_a_kernel_of_its_dimensions():
    with pytest.raises(ValueError, match=r"kernel_size must be one number or 1, got \(3, 3\)"):
        nn.Conv1d(2, 2, (3, 3), padding="same")


def test_transposed_convolution_pads_with_zeros_only():
    with pytest.raises(ValueError, match="ConvTranspose1d has only padding_mode='zeros'"):
        nn.ConvTranspose1d(1, 1, 1, padding_mode="circular")


def test_sizes_are_kept_for_each_dimension():
    layer = nn.Conv3d(1, 1, (1, 2, 3), stride=2, padding=(0, 1, 1))
    assert layer.kernel_size == (1, 2, 3)
    assert layer.stride == (2, 2, 2)
    assert layer.dilation == (1, 1, 1)
    assert layer._reversed_padding_repeated_twice == (1, 1, 1, 1, 0, 0)


def test_same_padding_adds_the_odd_element_at_the_end():
    layer = nn.Conv2d(1, 1, (2, 5), padding="same", dilation=(3, 1))
    assert layer._reversed_padding_repeated_twice == [2, 2, 1, 2]
    assert layer(flambeau.ones(1, 1, 6, 7)).shape == (1, 1, 6, 7)


@pytest.mark.parametrize("size", [7, 8])
def test_transposed_convolution_reaches_each_size_of_its_stride(size):
    layer = nn.ConvTranspose1d(2, 3, 3, stride=2, padding=1)
    assert layer(flambeau.ones(1, 2, 4), output_size=(size,)).shape == (1, 3, size)
    assert layer(flambeau.ones(1, 2, 4), output_size=(1, 3, size)).shape == (1, 3, size)
    assert layer(flambeau.ones(2, 4), output_size=(3, size)).shape == (3, size)


def test_other_sizes_are_refused_with_the_possible_ones():
    layer = nn.ConvTranspose1d(2, 3, 3, stride=2, padding=1)
    with pytest.raises(ValueError, match=r"\[9\] cannot be reached.*from \[7\] to \[8\]"):
        layer(flambeau.ones(1, 2, 4), output_size=(9,))
    with pytest.raises(ValueError, match=r"output_size of 1 or 3 entries.*got \[7, 8\]"):
        layer(flambeau.ones(1, 2, 4), output_size=(7, 8))


def test_subclass_can_convolve_with_another_weight():
    class Doubled(nn.Conv1d):
        def forward(self, input):
            return self._conv_forward(input, self.weight * 2, None)

    layer = Doubled(1, 1, 1, bias=False)
    x = flambeau.ones(1, 1, 2)
    assert (layer(x) == nn.functional.conv1d(x, layer.weight) * 2).all()


def test_users_can_build_on_the_bases():
    class Own(_ConvNd):
        def __init__(self):
            super().__init__(2, 4, (3,), (1,), (0,), (1,), False, (0,), 1, True, "zeros")

    assert repr(Own()) == "Own(2, 4, kernel_size=(3,), stride=(1,))"
    assert issubclass(nn.ConvTranspose2d, _ConvTransposeNd)
    assert issubclass(nn.LazyConv2d, nn.Conv2d)


def test_older_pickles_pad_with_zeros():
    layer = nn.Conv1d(1, 1, 1)
    del layer.padding_mode
    assert pickle.loads(pickle.dumps(layer)).padding_mode == "zeros"
