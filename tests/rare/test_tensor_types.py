"""Constructors named for a dtype."""

import pytest

import flambeau


def test_sizes_and_data():
    assert flambeau.FloatTensor(2, 3).shape == (2, 3)
    assert flambeau.FloatTensor(flambeau.Size([2, 3])).shape == (2, 3)
    made = flambeau.LongTensor([1.5, -2])
    assert type(made) is flambeau.Tensor
    assert made.dtype is flambeau.int64
    assert made.tolist() == [1, -2]


def test_tensors_share_their_elements():
    x = flambeau.ones(2, requires_grad=True)
    for made in (flambeau.Tensor(x), flambeau.FloatTensor(x)):
        assert made is not x
        assert made.grad_fn.name() == "AliasBackward0"
        made.data.add_(1)
    assert x.tolist() == [3.0, 3.0]


def test_a_tensor_is_an_instance_by_its_dtype():
    x = flambeau.ones(2, dtype=flambeau.float64)
    assert isinstance(x, flambeau.DoubleTensor)
    assert not isinstance(x, flambeau.FloatTensor)
    assert not isinstance(1.0, flambeau.DoubleTensor)


def test_type_takes_them_and_their_names():
    x = flambeau.ones(2)
    assert x.type() == "flambeau.FloatTensor"
    assert x.type(flambeau.LongTensor).dtype is flambeau.int64
    assert x.type("flambeau.HalfTensor").dtype is flambeau.float16
    with pytest.raises(ValueError, match=r"flambeau\.LongTensor"):
        x.type("flambeau.NumberTensor")


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: flambeau.LongTensor(flambeau.ones(2)), r"LongTensor\(\) takes .*int64.*float32"),
        (lambda: flambeau.FloatTensor(2.5), r"FloatTensor\(\) takes sizes.*\(float\)"),
        (lambda: flambeau.FloatTensor(2, "a"), r"\(int, str\)"),
        (lambda: flambeau.FloatTensor([1.0], dtype=1), "dtype"),
    ],
)
def test_other_arguments_are_refused(make, match):
    with pytest.raises(TypeError, match=match):
        make()
