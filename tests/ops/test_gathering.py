"""Elements picked by index tensors or masks: NumPy's semantics, and the facts in errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import flambeau

ARRAY = np.arange(12.0, dtype=np.float32).reshape(3, 4)


def tensor() -> Any:
    return flambeau.from_numpy(ARRAY.copy())


def indices(shape: tuple[int, ...], high: int) -> Any:
    return arrays.arrays(np.int64, shape, elements=st.integers(0, high))


@settings(max_examples=15)
@given(index=indices((2, 4), 2))
def test_gather_takes_along_the_dimension(index: np.ndarray) -> None:
    found = tensor().gather(0, flambeau.from_numpy(index))
    np.testing.assert_array_equal(found.numpy(), np.take_along_axis(ARRAY, index, 0))
    smaller = tensor().gather(1, flambeau.from_numpy(index))
    np.testing.assert_array_equal(smaller.numpy(), np.take_along_axis(ARRAY[:2], index, 1))


@settings(max_examples=15)
@given(mask=arrays.arrays(bool, (3, 4)))
def test_masks_pick_in_order(mask: np.ndarray) -> None:
    x, m = tensor(), flambeau.from_numpy(mask)
    np.testing.assert_array_equal(x.masked_select(m).numpy(), ARRAY[mask])
    np.testing.assert_array_equal(m.nonzero().numpy(), np.argwhere(mask))
    for found, expected in zip(flambeau.where(m), np.nonzero(mask), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected)


@settings(max_examples=15)
@given(index=arrays.arrays(np.int64, (2, 3), elements=st.integers(-12, 11)))
def test_take_counts_through_all_elements(index: np.ndarray) -> None:
    found = tensor().take(flambeau.from_numpy(index))
    np.testing.assert_array_equal(found.numpy(), ARRAY.take(index))


def test_take_along_dim_broadcasts() -> None:
    index = flambeau.tensor([[2], [0], [1]])
    picked = flambeau.take_along_dim(tensor(), index, 1)
    assert picked.tolist() == [[2.0], [4.0], [9.0]]
    assert tensor().take_along_dim(flambeau.tensor([[-1]]), 0).tolist() == [[8.0, 9.0, 10.0, 11.0]]


ERRORS = {
    "gather": (
        lambda x, i: x.gather(0, i + 1),
        RuntimeError,
        r"index 3 .* dimension 0 with size 3",
    ),
    "gather, negative": (lambda x, i: x.gather(0, i - 1), RuntimeError, r"index -1 .* size 3"),
    "gather, too wide": (
        lambda x, i: x[:, :2].gather(0, i),
        RuntimeError,
        r"\[1, 3\] is larger than input of shape \[3, 2\] at dimension 1",
    ),
    "gather, dimensions": (
        lambda x, i: x.gather(0, i[0]),
        RuntimeError,
        "1 dimensions and input 2",
    ),
    "gather, dtype": (lambda x, i: x.gather(0, i.float()), RuntimeError, "got float32"),
    "index_select": (lambda x, i: x.index_select(0, i[0] + 1), IndexError, r"index 3 .* size 3"),
    "index_select, shape": (
        lambda x, i: x.index_select(0, i),
        IndexError,
        r"vector, got .*\[1, 3\]",
    ),
    "take": (lambda x, i: x.take(i + 10), IndexError, "index 12 .* 12 elements"),
    "masked_select": (lambda x, i: x.masked_select(i), RuntimeError, "int64"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_state_their_facts(name: str) -> None:
    compute, kind, facts = ERRORS[name]
    with pytest.raises(kind, match=facts):
        compute(tensor(), flambeau.tensor([[0, 2, 1]]))
