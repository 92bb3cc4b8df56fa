"""Values written by index, compared with loops, and the facts in errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import flambeau

ARRAY = np.array([[3.0, -1.0, 2.0, 5.0], [0.5, 4.0, -2.0, 1.0], [2.5, -3.0, 1.5, 7.0]])
SOURCE = np.array([[1.25, 2.0, -4.0, 0.75], [6.0, -0.5, 3.5, 8.0]])
INDICES = arrays.arrays(np.int64, (2, 4), elements=st.integers(0, 2))
REDUCTIONS = {
    "sum": np.sum,
    "prod": np.prod,
    "mean": np.mean,
    "amax": np.max,
    "amin": np.min,
}


def by_loop(index: np.ndarray, reduce: str, include_self: bool) -> np.ndarray:
    result = ARRAY.copy()
    for row, column in np.ndindex(ARRAY.shape):
        values = [SOURCE[i, column] for i in range(2) if index[i, column] == row]
        if values:
            own = [ARRAY[row, column]] if include_self else []
            result[row, column] = REDUCTIONS[reduce](own + values)
    return result


def tensors() -> tuple[Any, Any]:
    return flambeau.from_numpy(ARRAY.copy()), flambeau.from_numpy(SOURCE.copy())


@pytest.mark.parametrize("reduce", REDUCTIONS)
@settings(max_examples=10)
@given(index=INDICES, include_self=st.booleans())
def test_scatter_reduce_combines_what_goes_to_one_place(
    reduce: str, index: np.ndarray, include_self: bool
) -> None:
    x, source = tensors()
    at = flambeau.from_numpy(index)
    found = x.scatter_reduce(0, at, source, reduce, include_self=include_self)
    np.testing.assert_allclose(found.numpy(), by_loop(index, reduce, include_self), rtol=1e-12)


def test_a_product_with_zeros_has_the_gradient_of_the_other_factors() -> None:
    x = flambeau.tensor([2.0, 3.0, 4.0], requires_grad=True)
    source = flambeau.tensor([0.0, 5.0, 0.0, 0.0], requires_grad=True)
    at = flambeau.tensor([0, 0, 1, 1])
    x.scatter_reduce(0, at, source, "prod").sum().backward()
    # 2·0·5, 3·0·0 and 4: only a single zero leaves anything of the others.
    assert x.grad.tolist() == [0.0, 0.0, 1.0]
    assert source.grad.tolist() == [10.0, 0.0, 0.0, 0.0]


@settings(max_examples=10)
@given(index=INDICES)
def test_scatter_add_adds_and_scatter_writes(index: np.ndarray) -> None:
    x, source = tensors()
    at = flambeau.from_numpy(index)
    np.testing.assert_allclose(x.scatter_add(0, at, source).numpy(), by_loop(index, "sum", True))
    written = x.scatter(0, at, source).numpy()
    for row, column in np.ndindex(ARRAY.shape):
        values = [SOURCE[i, column] for i in range(2) if index[i, column] == row]
        assert written[row, column] in (values or [ARRAY[row, column]])


def test_a_smaller_index_leaves_the_rest() -> None:
    x = flambeau.zeros(3, 4)
    x.scatter_(1, flambeau.tensor([[3, 0]]), 1.0)
    assert x.tolist() == [[1, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_every_value_gets_the_gradient_of_its_place() -> None:
    source = flambeau.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = flambeau.zeros(2, requires_grad=True)
    y = x.scatter(0, flambeau.tensor([1, 1, 1]), source)
    (y * flambeau.tensor([10.0, 20.0])).sum().backward()
    assert source.grad.tolist() == [20.0, 20.0, 20.0]
    assert x.grad.tolist() == [10.0, 0.0]


def test_masked_scatter_writes_in_order() -> None:
    x, source = flambeau.zeros(2, 2), flambeau.tensor([1.0, 2.0, 3.0])
    mask = flambeau.tensor([[False, True], [True, False]])
    assert x.masked_scatter(mask, source).tolist() == [[0, 1], [2, 0]]
    compiled = flambeau.compile(lambda x, m, s: x.masked_scatter(m, s))
    assert compiled(x, mask, source).tolist() == [[0, 1], [2, 0]]


def test_parts_are_replaced_in_a_copy() -> None:
    x = flambeau.zeros(2, 3)
    assert x.select_scatter(flambeau.ones(2), 1, -1).tolist() == [[0, 0, 1], [0, 0, 1]]
    assert x.slice_scatter(flambeau.ones(2, 2), 1, 0, None, 2).tolist() == [[1, 0, 1], [1, 0, 1]]
    assert x.diagonal_scatter(flambeau.ones(2), 1).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert x.sum().item() == 0


ERRORS = {
    "scatter": (lambda x, i, s: x.scatter(0, i + 2, s), RuntimeError, r"index 3 .* with size 3"),
    "scatter, dtype": (
        lambda x, i, s: x.scatter(0, i, s.float()),
        RuntimeError,
        "float32 .*float64",
    ),
    "scatter, source": (
        lambda x, i, s: x.scatter(0, i, s[:1]),
        RuntimeError,
        r"\[2, 4\] is larger than src of shape \[1, 4\] at dimension 0",
    ),
    "scatter, nothing": (lambda x, i, s: x.scatter(0, i), TypeError, "src or value"),
    "scatter_reduce": (lambda x, i, s: x.scatter_reduce(0, i, s, "max"), RuntimeError, "'max'"),
    "index_add": (lambda x, i, s: x.index_add(0, i[0], s), RuntimeError, "4 indices .* size 2"),
    "index_add, shape": (
        lambda x, i, s: x.index_add(0, i[:, 0], s[:, :3]),
        RuntimeError,
        r"\[2, 3\] does not fit .* \[3, 4\]",
    ),
    "index_copy": (lambda x, i, s: x.index_copy(0, i[:, 0] + 2, s), IndexError, "index 3"),
    "index_fill": (lambda x, i, s: x.index_fill(0, i[0], s), RuntimeError, r"\[2, 4\]"),
    "put": (lambda x, i, s: x.put(i[0], s), IndexError, "8 values .* 4 positions"),
    "masked_fill": (lambda x, i, s: x.masked_fill(i, 0.0), RuntimeError, "int64"),
    "masked_scatter": (
        lambda x, i, s: x.masked_scatter(x < 9, s),
        RuntimeError,
        "12 true elements, source only 8",
    ),
    "slice_scatter": (
        lambda x, i, s: x.slice_scatter(s, 0, 2),
        RuntimeError,
        r"\[2, 4\] .*\[1, 4\]",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_state_their_facts(name: str) -> None:
    compute, kind, facts = ERRORS[name]
    x, source = tensors()
    with pytest.raises(kind, match=facts):
        compute(x, flambeau.tensor([[0, 1, 1, 0], [1, 0, 0, 1]]), source)
