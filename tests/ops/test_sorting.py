"""Sorting, searching and counting."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

import flambeau

small_integers = numpy_strategies.arrays(np.int64, (6,), elements=st.integers(-3, 3))


@given(small_integers, st.booleans())
def test_sorting_is_stable(values: np.ndarray, descending: bool) -> None:
    found, indices = flambeau.tensor(values).sort(descending=descending)
    expected = np.argsort(-values if descending else values, kind="stable")
    assert indices.tolist() == expected.tolist()
    assert found.tolist() == values[expected].tolist()
    assert flambeau.tensor(values).argsort(descending=descending).tolist() == indices.tolist()


EXTREME = {
    "float32": [0.0, -0.0, math.inf, -math.inf, math.nan, -1.5, 3e38, -3e38, 1e-30, -math.nan, 0.0],
    "float16": [0.0, -0.0, math.inf, -math.inf, math.nan, -1.5, 6e4, -6e4, 1e-4, -math.nan, 0.0],
    "bfloat16": [0.0, -0.0, math.inf, -math.inf, math.nan, -1.5, 3e38, -3e38, 0.25, -1.5],
    "float64": [0.0, -0.0, math.inf, -math.inf, math.nan, 1e300, -1e300],
    "int32": [0, -1, 2**31 - 1, -(2**31), 5, 0],
    "int64": [0, -1, 2**63 - 1, -(2**63), 5, 0],
    "uint8": [255, 0, 128, 127, 0],
    "uint32": [2**32 - 1, 0, 2**31, 2**31 - 1, 0],
    "bool": [True, False, True, False],
}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("name", EXTREME)
def test_sorting_at_the_ends_of_every_dtype(name: str, descending: bool) -> None:
    x = flambeau.tensor(EXTREME[name], dtype=getattr(flambeau, name))
    values = [float("inf") if v != v else v for v in x.tolist()]
    keys = [(v != v, key) for v, key in zip(x.tolist(), values, strict=True)]
    # Python keeps the order of equals in reverse too.
    expected = sorted(range(len(keys)), key=keys.__getitem__, reverse=descending)
    assert x.argsort(descending=descending).tolist() == expected


def test_nan_is_greater_than_everything() -> None:
    x = flambeau.tensor([math.nan, 2.0, math.inf])
    assert x.argsort().tolist() == [1, 2, 0]
    assert x.argsort(descending=True).tolist() == [0, 2, 1]
    assert x.topk(2).indices.tolist() == [0, 2]
    assert x.topk(2, largest=False).indices.tolist() == [1, 2]


@given(small_integers, st.integers(1, 6))
def test_topk_and_kthvalue_are_parts_of_the_sorted(values: np.ndarray, k: int) -> None:
    x = flambeau.tensor(values)
    ascending = np.sort(values)
    assert x.topk(k).values.tolist() == ascending[::-1][:k].tolist()
    assert x.topk(k, largest=False).values.tolist() == ascending[:k].tolist()
    value, index = x.kthvalue(k)
    assert value.item() == ascending[k - 1] == values[index.item()]


def test_more_than_there_are() -> None:
    with pytest.raises(RuntimeError, match=r"k=4.*\[3\]"):
        flambeau.ones(3).topk(4)
    with pytest.raises(RuntimeError, match=r"k=0.*\[3\]"):
        flambeau.ones(3).kthvalue(0)


@given(small_integers, small_integers, st.booleans())
def test_searchsorted_is_numpys(borders: np.ndarray, values: np.ndarray, right: bool) -> None:
    borders = np.sort(borders)
    expected = np.searchsorted(borders, values, "right" if right else "left").tolist()
    b, v = flambeau.tensor(borders), flambeau.tensor(values)
    assert flambeau.searchsorted(b, v, right=right).tolist() == expected
    assert flambeau.bucketize(v, b, right=right).tolist() == expected


def test_searchsorted_in_rows() -> None:
    rows = flambeau.tensor([[1, 3], [2, 4]])
    assert flambeau.searchsorted(rows, rows).tolist() == [[0, 1], [0, 1]]
    with pytest.raises(RuntimeError, match=r"\[2, 2\].*\[2\]"):
        flambeau.searchsorted(rows, rows[0])
    with pytest.raises(RuntimeError, match="contradicts"):
        flambeau.searchsorted(rows[0], 2, side="left", right=True)


@given(small_integers)
def test_unique_takes_apart_and_puts_together(values: np.ndarray) -> None:
    x = flambeau.tensor(values)
    for function in (flambeau.unique, flambeau.unique_consecutive):
        found, inverse, counts = function(x, return_inverse=True, return_counts=True)
        assert found.numpy()[inverse.numpy()].tolist() == values.tolist()
        assert counts.sum().item() == values.size
    assert flambeau.unique(x).tolist() == sorted(set(values.tolist()))


def test_unique_rows() -> None:
    x = flambeau.tensor([[3, 1], [1, 2], [3, 1]])
    found, inverse, counts = x.unique(dim=0, return_inverse=True, return_counts=True)
    assert found.tolist() == [[1, 2], [3, 1]]
    assert (inverse.tolist(), counts.tolist()) == ([1, 0, 1], [1, 2])


def test_what_depends_on_values_is_refused_where_there_are_none() -> None:
    integers = flambeau.tensor([1, 1, 2])
    for function in (flambeau.unique, flambeau.unique_consecutive, flambeau.bincount):
        with pytest.raises(RuntimeError, match=f"{function.__name__}.*depends on"):
            flambeau.compile(function, fullgraph=True)(integers)
        with pytest.raises(NotImplementedError, match="meta"):
            function(integers.to("meta"))


def test_bincount() -> None:
    x = flambeau.tensor([1, 1, 3])
    assert x.bincount().tolist() == [0, 2, 0, 1]
    assert x.bincount(minlength=6).tolist() == [0, 2, 0, 1, 0, 0]
    assert x.bincount(flambeau.tensor([0.5, 1.0, 2.0])).tolist() == [0.0, 1.5, 0.0, 2.0]
    with pytest.raises(RuntimeError, match="-3"):
        (-x).bincount()


def test_bincount_of_a_known_length_is_compiled() -> None:
    count = flambeau.compile(
        lambda x, weights: flambeau.bincount(x, weights, minlength=4), fullgraph=True
    )
    x, weights = flambeau.tensor([1, 1, 3]), flambeau.tensor([0.5, 1.0, 2.0])
    for each in (None, weights, weights.double(), x):
        found, expected = count(x, each), x.bincount(each, minlength=4)
        assert (found.tolist(), found.dtype) == (expected.tolist(), expected.dtype)
    assert count(flambeau.tensor([9, -1, 2], dtype=flambeau.int8), None).tolist() == [0, 0, 1, 0]
    with pytest.raises(RuntimeError, match=r"shape \[3, 1\]"):
        count(x[:, None], None)
    with pytest.raises(RuntimeError, match=r"\[2\] for an input of shape \[3\]"):
        count(x, weights[:2])
    with pytest.raises(flambeau.CompileError, match="give it minlength"):
        flambeau.compile(flambeau.bincount, fullgraph=True)(x)


def test_histc_counts_what_lies_in_the_range() -> None:
    x = flambeau.tensor([0.0, 1.0, 2.0, 3.0, 9.0])
    assert x.histc(2, 0, 4).tolist() == [2.0, 2.0]
    assert x.histc(3).tolist() == [3.0, 1.0, 1.0]
    with pytest.raises(RuntimeError, match="positive"):
        x.histc(0)
