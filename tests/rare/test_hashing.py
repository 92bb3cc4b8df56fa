"""A hash of the elements of a tensor."""

import pytest

import flambeau


def test_the_hash_is_the_exclusive_or_of_the_bits():
    assert flambeau.hash_tensor(flambeau.tensor([1, 2, 4, -1])).item() == 2**64 - 1 ^ 7
    one, two = flambeau.tensor([1.0]), flambeau.tensor([2.0])
    assert flambeau.hash_tensor(one).item() == 0x3FF0000000000000
    assert flambeau.hash_tensor(flambeau.cat([one, two])).item() == 0x7FF0000000000000


def test_floats_have_the_hash_of_the_doubles_that_they_equal():
    values = [[1.5, -0.0, 2.0**-10], [2.0**-24, float("inf"), -3.0]]
    expected = flambeau.tensor(values, dtype=flambeau.float64).hash_tensor()
    for dtype in (flambeau.float16, flambeau.bfloat16, flambeau.float32):
        assert flambeau.tensor(values, dtype=dtype).hash_tensor() == expected


def test_subnormal_elements_count():
    # As doubles they are normal.
    small = [2.0**-149, -(2.0**-130), 2.0**-126]
    expected = flambeau.tensor(small, dtype=flambeau.float64).reshape(3, 1).hash_tensor(1)
    assert flambeau.tensor(small).reshape(3, 1).hash_tensor(1).tolist() == expected.tolist()


def test_the_sign_of_a_zero_and_the_last_bit_count():
    zero = flambeau.tensor(0.0)
    assert zero.hash_tensor() != (-zero).hash_tensor()
    assert flambeau.tensor(1.0).hash_tensor() != flambeau.tensor(1.0 + 2**-23).hash_tensor()


def test_dimensions_are_reduced_or_kept():
    x = flambeau.arange(24).reshape(2, 3, 4)
    assert x.hash_tensor().shape == x.hash_tensor(()).shape == ()
    assert x.hash_tensor(-1).shape == (2, 3)
    assert x.hash_tensor((0, 2), keepdim=True).shape == (1, 3, 1)
    assert x.hash_tensor(1).dtype is flambeau.uint64
    assert x[0, 0].hash_tensor(0).tolist() == 0 ^ 1 ^ 2 ^ 3


def test_there_is_no_gradient():
    assert not flambeau.ones(2, requires_grad=True).hash_tensor().requires_grad


def test_it_is_known_on_the_meta_device_and_in_compiled_functions():
    assert flambeau.ones(2, 3, device="meta").hash_tensor(1).shape == (2,)
    x = flambeau.tensor([1.5, 2.5])
    assert flambeau.compile(flambeau.hash_tensor)(x) == flambeau.hash_tensor(x)


@pytest.mark.parametrize(
    ("input", "arguments", "error", "message"),
    [
        (flambeau.ones(2), {"mode": 1}, RuntimeError, "mode must be 0, got 1"),
        (flambeau.ones(2), {"dim": 1}, IndexError, "out of range .* but got 1"),
        (flambeau.ones(0, 2), {}, RuntimeError, "no elements needs dim"),
        (flambeau.ones(0, 2), {"dim": 0}, IndexError, r"dimension 0 of \[0, 2\] is empty"),
        (flambeau.ones(2).cfloat(), {}, NotImplementedError, "of complex64: convert"),
        (flambeau.ones(2).to(flambeau.uint16), {}, NotImplementedError, "of uint16: convert"),
        (flambeau.ones(2).to(flambeau.float8_e5m2), {}, NotImplementedError, "of float8_e5m2"),
    ],
)
def test_what_has_no_hash_is_refused(input, arguments, error, message):
    with pytest.raises(error, match=message):
        flambeau.hash_tensor(input, **arguments)
