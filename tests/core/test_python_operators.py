"""What may stand beside a tensor in an expression, and what in a call."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import flambeau

X = flambeau.tensor([1.0, 2.0])
ARRAY = np.array([3.0, 4.0], np.float32)


def test_operators_take_numpy_arrays() -> None:
    assert (X + ARRAY).tolist() == [4.0, 6.0]
    assert (X**ARRAY).tolist() == [1.0, 16.0]
    assert (X - ARRAY).dtype is flambeau.float32


def test_functions_and_methods_do_not() -> None:
    for call in (flambeau.add, flambeau.Tensor.mul, flambeau.nn.functional.linear):
        with pytest.raises(TypeError, match=r"numpy\.ndarray of shape \[2\].*from_numpy"):
            call(X, ARRAY)


@pytest.mark.parametrize("other", [None, "a", [1.0], {}, np.array(["a"]), object()])
@pytest.mark.parametrize("name", ["add", "sub", "truediv", "pow", "iadd"])
def test_operators_leave_the_rest_to_python(name: str, other: Any) -> None:
    with pytest.raises(TypeError):
        getattr(operator, name)(X, other)
