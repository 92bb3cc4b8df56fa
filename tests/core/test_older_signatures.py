"""Signatures in which a factor stands before the tensors."""

import pytest

import flambeau


@pytest.fixture
def two():
    return flambeau.full((2, 2), 2.0), flambeau.full((2, 2), 3.0)


def test_a_factor_before_tensors_scales_them_with_a_warning(two):
    first, second = two
    ones = flambeau.ones(2, 2)
    calls = {
        5.0: lambda: flambeau.add(ones, 2, first),
        -3.0: lambda: ones.clone().sub_(2, first),
        13.0: lambda: ones.clone().addcmul_(2, first, second),
        37.0: lambda: flambeau.addmm(1, ones, 3, first, second),
        14.0: lambda: ones.addmm(2, first, second),
        38.0: lambda: ones.addmm(2, 3, first, second),
    }
    for expected, call in calls.items():
        with pytest.warns(UserWarning, match="This overload of .* is deprecated"):
            found = call()
        assert found.flatten().tolist() == [expected] * 4


def test_a_factor_may_be_a_tensor_without_dimensions(two):
    with pytest.warns(UserWarning, match="alpha by name"):
        assert flambeau.add(two[0], flambeau.tensor(2.0), two[1])[0, 0] == 8


def test_a_factor_behind_the_tensors_is_refused(two):
    with pytest.raises(TypeError, match="takes 2 positional arguments"):
        flambeau.add(*two, 2)
    with pytest.raises(TypeError, match="takes 3 positional arguments, got 4"):
        flambeau.addcmul(*two, two[0], 2)
