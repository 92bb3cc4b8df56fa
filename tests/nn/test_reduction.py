"""Reductions by their numbers, and by the arguments that PyTorch deprecates."""

import pytest

from flambeau.nn import _reduction


def test_reductions_have_pytorchs_numbers():
    assert [_reduction.get_enum(each) for each in ("none", "mean", "sum")] == [0, 1, 2]


def test_another_reduction_is_refused_by_name():
    with pytest.raises(ValueError, match="median is not a valid value"):
        _reduction.get_enum("median")


@pytest.mark.parametrize(
    ("size_average", "reduce", "expected"),
    [
        (None, None, "mean"),
        (True, True, "mean"),
        (False, None, "sum"),
        (False, True, "sum"),
        (True, False, "none"),
    ],
)
def test_the_older_flags_mean_a_reduction(size_average, reduce, expected):
    found = _reduction.legacy_get_string(size_average, reduce, emit_warning=False)
    assert found == expected
    with pytest.warns(UserWarning, match=expected):
        number = _reduction.legacy_get_enum(size_average, reduce)
    assert number == _reduction.get_enum(expected)
