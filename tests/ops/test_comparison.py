"""Comparisons, elementwise and whole."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

import flambeau

X = flambeau.tensor([1.0, 2.0, math.nan])
Y = flambeau.tensor([2.0, 2.0, math.nan])


def test_operators_and_functions_agree() -> None:
    assert (X == Y).tolist() == flambeau.eq(X, Y).tolist() == [False, True, False]
    assert (X != Y).tolist() == X.ne(Y).tolist() == [True, False, True]
    assert (X < Y).tolist() == X.less(Y).tolist() == [True, False, False]
    assert (X <= Y).tolist() == X.le(Y).tolist() == [True, True, False]
    assert (X > Y).tolist() == X.greater(Y).tolist() == [False, False, False]
    assert (X >= Y).tolist() == X.ge(Y).tolist() == [False, True, False]


def test_numbers_on_either_side() -> None:
    assert (X < 1.5).tolist() == [True, False, False]
    assert (1.5 < X).tolist() == [False, True, False]  # noqa: SIM300
    assert (flambeau.tensor([1, 2]) == 2.0).tolist() == [False, True]


def test_results_are_bool_and_take_no_gradient() -> None:
    x = flambeau.ones(2, requires_grad=True)
    result = x < 2
    assert result.dtype is flambeau.bool
    assert not result.requires_grad


def test_other_objects_are_never_equal() -> None:
    assert (X == "text") is False
    assert (X != None) is True  # noqa: E711
    with pytest.raises(TypeError):
        X < "text"  # noqa: B015


def test_complex_numbers_have_no_order() -> None:
    with pytest.raises(NotImplementedError, match="complex64"):
        flambeau.ones(2, dtype=flambeau.complex64) < 1  # noqa: B015


def test_tensors_are_hashable_by_identity() -> None:
    assert len({X, Y, X}) == 2


floats = numpy_strategies.arrays(
    np.float64,
    (4,),
    elements=st.sampled_from([0.0, 1.0, 1.0 + 1e-7, 2.0, math.nan, math.inf, -math.inf]),
)


@given(floats, floats, st.booleans())
def test_isclose_is_numpys(first: np.ndarray, second: np.ndarray, equal_nan: bool) -> None:
    found = flambeau.isclose(flambeau.tensor(first), flambeau.tensor(second), equal_nan=equal_nan)
    assert found.tolist() == np.isclose(first, second, equal_nan=equal_nan).tolist()


def test_isclose_wants_one_dtype() -> None:
    with pytest.raises(RuntimeError, match=r"float32.*float64"):
        flambeau.isclose(X, X.double())
    with pytest.raises(RuntimeError, match=r"rtol.*-1"):
        flambeau.isclose(X, X, rtol=-1)


def test_allclose_and_equal_are_python_bools() -> None:
    assert flambeau.allclose(X[:2], X[:2] + 1e-9) is True
    assert flambeau.equal(X, X) is False
    assert flambeau.equal(X, X[:2]) is False
    assert flambeau.equal(X[:2], X[:2].double()) is True
    with pytest.raises(TypeError, match="int"):
        flambeau.equal(X, 1)


def test_in_place_comparisons_keep_the_dtype() -> None:
    x = flambeau.tensor([1.0, 3.0])
    x.gt_(2)
    assert x.tolist() == [0.0, 1.0]
    assert x.dtype is flambeau.float32
