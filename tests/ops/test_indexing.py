"""Subscripts: random ones equal NumPy's, errors state their facts, programs know no masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import flambeau

SHAPE = (2, 3, 4)
ARRAY = np.arange(24.0, dtype=np.float32).reshape(SHAPE)


def tensor() -> Any:
    return flambeau.from_numpy(ARRAY.copy())


# NumPy counts an integer beside an index array as another index array, PyTorch as a view that comes
# first. So NumPy is given the view and the arrays one after the other.


def read_with_numpy(array: np.ndarray, items: list[Any]) -> tuple[np.ndarray, tuple[Any, ...]]:
    """The view that ``items`` make and the subscript of it that remains."""
    view, rest = [], []
    for item in items:
        if isinstance(item, list | np.ndarray):
            covered = np.asarray(item).ndim if np.asarray(item).dtype == bool else 1
            view.extend([slice(None)] * covered)
            rest.append(np.asarray(item, None if np.size(item) else np.int64))
            continue
        view.append(item)
        if not isinstance(item, int):
            rest.append(item if item is ... else slice(None))
    return array[(*view, ...)] if ... not in view else array[tuple(view)], tuple(rest)


INTEGERS = st.integers(-2, 1)
SLICES = st.builds(
    slice,
    st.none() | st.integers(-3, 2),
    st.none() | st.integers(-3, 5),
    st.none() | st.integers(1, 2),
)
LISTS = st.lists(INTEGERS, min_size=2, max_size=2)


@st.composite
def subscripts(draw: Any) -> list[Any]:
    items: list[Any] = []
    sizes = list(SHAPE)
    while sizes and draw(st.integers(0, 4)):
        kind = draw(st.sampled_from(["integer", "slice", "list", "none", "array", "mask"]))
        if kind == "none":
            items.append(None)
        elif kind == "mask":
            bits = draw(st.lists(st.booleans(), min_size=sizes[0], max_size=sizes[0]))
            items.append(np.array(bits))
            sizes.pop(0)
        else:
            drawn = {"integer": INTEGERS, "slice": SLICES, "list": LISTS, "array": LISTS}[kind]
            item = draw(drawn)
            items.append(np.array([item]) if kind == "array" else item)
            sizes.pop(0)
    return items


def broadcasts(items: list[Any]) -> bool:
    shapes = []
    for item in items:
        if isinstance(item, list | np.ndarray):
            found = np.asarray(item)
            shapes.append((found.sum(),) if found.dtype == bool else found.shape)
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


@settings(max_examples=80)
@given(items=subscripts())
def test_reading_and_writing_by_any_subscript_equals_numpys(items: list[Any]) -> None:
    assume(broadcasts(items))
    subscript = tuple(items)
    view, rest = read_with_numpy(ARRAY.copy(), items)
    found = tensor()[subscript]
    np.testing.assert_array_equal(found.numpy(), view[rest])
    written, base = tensor(), ARRAY.copy()
    written[subscript] = -1.0
    view, rest = read_with_numpy(base, items)
    view[rest] = -1.0
    np.testing.assert_array_equal(written.numpy(), base)


@settings(max_examples=30)
@given(items=subscripts())
def test_a_subscript_without_arrays_is_a_view_and_one_with_arrays_a_copy(items: list[Any]) -> None:
    assume(broadcasts(items))
    x = tensor()
    part = x[tuple(items)]
    copies = any(isinstance(item, list | np.ndarray) for item in items)
    assert (part._cell is x._cell) != copies


@settings(max_examples=20)
@given(items=subscripts())
def test_the_gradient_of_reading_counts_how_often_each_element_was_read(items: list[Any]) -> None:
    assume(broadcasts(items))
    x = tensor().requires_grad_()
    x[tuple(items)].sum().backward()
    view, rest = read_with_numpy(np.arange(24).reshape(SHAPE), items)
    counts = np.bincount(view[rest].reshape(-1), minlength=24).reshape(SHAPE)
    np.testing.assert_array_equal(x.grad.numpy(), counts)


def test_values_written_to_one_place_are_added_by_accumulation() -> None:
    x = flambeau.zeros(3)
    values = flambeau.tensor([1.0, 2.0, 4.0], requires_grad=True)
    index = flambeau.tensor([0, 2, 0])
    y = x.index_put((index,), values, accumulate=True)
    assert y.tolist() == [5.0, 0.0, 2.0]
    (y * flambeau.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert values.grad.tolist() == [1.0, 100.0, 1.0]


def test_the_second_gradient_of_writing_by_index() -> None:
    x = flambeau.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x * 1).index_put((flambeau.tensor([0]),), x[1:2] * x[1:2])
    (first,) = flambeau.autograd.grad((y * y).sum(), x, create_graph=True)
    (second,) = flambeau.autograd.grad(first.sum(), x)
    # The elements of y are x1², x1, x2, so the sum of squares is x1⁴ + x1² + x2².
    assert first.tolist() == [0.0, 36.0, 6.0]
    assert second.tolist() == [0.0, 50.0, 2.0]


ERRORS = {
    "out of bounds": (5, IndexError, r"index 5 is out of bounds for dimension 0 with size 2"),
    "out of bounds behind": ((0, -4), IndexError, r"index -4 .* dimension 1 with size 3"),
    "out of bounds in a list": ([0, 7], IndexError, r"index 7 .* dimension 0 with size 2"),
    "too many": ((0, 0, 0, 0), IndexError, r"4 for a tensor with 3 dimensions"),
    "backwards": (slice(None, None, -1), ValueError, r"-1; use flip"),
    "a float": (1.5, IndexError, r"float: 1.5"),
    "a string": ("name", IndexError, r"str: 'name'"),
    "a mask": (np.ones(3, bool), IndexError, r"\[3\] does not fit .*\[2, 3, 4\].*3 differs from 2"),
    "lists": (([0, 1], [0, 1, 2]), IndexError, r"\[2\], \[3\] do not broadcast"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_state_their_facts(name: str) -> None:
    subscript, kind, facts = ERRORS[name]
    with pytest.raises(kind, match=facts):
        tensor()[subscript]
    x = tensor()
    with pytest.raises(kind, match=facts):
        x[subscript] = 0.0
    assert (x.numpy() == ARRAY).all()


def test_values_that_do_not_fit_are_refused_with_their_shapes_and_dtypes() -> None:
    x = tensor()
    with pytest.raises(RuntimeError, match=r"shape \[5\] does not broadcast to the shape \[3, 4\]"):
        x[0] = flambeau.zeros(5)
    with pytest.raises(RuntimeError, match=r"\[5\] does not broadcast to the shape \[1, 3, 4\]"):
        x[[0]] = flambeau.zeros(5)
    with pytest.raises(RuntimeError, match=r"float64 cannot go into a tensor of flambeau\.float32"):
        x[[0]] = flambeau.zeros(4, dtype=flambeau.float64)
    with pytest.raises(TypeError, match="list"):
        x[0] = [0.0] * 4
    with pytest.raises(RuntimeError, match="300 cannot be converted"):
        flambeau.zeros(2, dtype=flambeau.uint8)[0] = 300
    assert (x.numpy() == ARRAY).all()


def test_lists_that_stand_for_tuples_warn() -> None:
    with pytest.warns(UserWarning, match="tuple") as caught:
        assert tensor()[[slice(0, 1), slice(0, 2)]].shape == (1, 2, 4)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="uint8") as caught:
        assert tensor()[flambeau.tensor([1, 0], dtype=flambeau.uint8)].shape == (1, 3, 4)
    assert caught[0].filename == __file__


def test_a_0d_tensor_has_nothing_to_index() -> None:
    x = flambeau.tensor(1.0)
    with pytest.raises(IndexError, match="item"):
        x[0]
    with pytest.raises(IndexError, match="fill_"):
        x[0] = 2.0
    x[()] = 3.0
    assert x[None].tolist() == [3.0]


def test_writing_to_a_leaf_that_requires_grad_is_refused() -> None:
    x = tensor().requires_grad_()
    for subscript in (0, [0], ..., flambeau.tensor(True)):
        with pytest.raises(RuntimeError, match="leaf"):
            x[subscript] = 0.0
    with flambeau.no_grad():
        x[0] = 0.0
    assert x[0].sum().item() == 0


# Compiled programs


def test_an_index_tensor_is_data_of_a_compiled_program() -> None:
    @flambeau.compile
    def picked(x: Any, row: Any, rows: Any) -> Any:
        y = x.clone()
        y[row] = y[row] * 10
        y[row][0].add_(1)
        return y[rows], x[row]

    for row in (0, 1, -1):
        x = flambeau.arange(6.0).view(2, 3)
        rows, one = picked(x, flambeau.tensor(row), flambeau.tensor([row, row]))
        expected = x.numpy()[row] * 10
        expected[0] += 1
        np.testing.assert_array_equal(rows.numpy(), [expected, expected])
        np.testing.assert_array_equal(one.numpy(), x.numpy()[row])
    assert picked.program_count == 1


def test_a_compiled_program_writes_to_masks_but_cannot_return_what_they_pick() -> None:
    outside = flambeau.tensor([True, False])

    @flambeau.compile(fullgraph=True)
    def written(x: Any, mask: Any, values: Any) -> Any:
        y, z = x.clone(), x.clone()
        y[mask] = 0.5
        z[mask] = values
        return y, z, x.masked_fill(outside, -1.0)

    y, z, w = written(
        flambeau.tensor([1.0, 2.0]), flambeau.tensor([False, True]), flambeau.tensor([7.0])
    )
    assert (y.tolist(), z.tolist(), w.tolist()) == ([1.0, 0.5], [1.0, 7.0], [-1.0, 2.0])
    for read in (
        lambda x: x[x > 1],
        lambda x: x[outside],
        lambda x: x.masked_select(x > 1),
        lambda x: x.nonzero(),
    ):
        with pytest.raises(RuntimeError, match=r"flambeau\.where"):
            flambeau.compile(read, fullgraph=True)(flambeau.tensor([1.0, 2.0]))


def test_positions_out_of_range_read_nan_in_a_compiled_program_and_are_not_written() -> None:
    @flambeau.compile
    def beyond(x: Any, index: Any) -> Any:
        return x[index], x.index_put((index,), flambeau.tensor(9.0)), x.index_select(0, index)

    read, written, selected = beyond(flambeau.tensor([1.0, 2.0]), flambeau.tensor([0, 5]))
    np.testing.assert_array_equal(read.numpy(), [1.0, np.nan])
    assert written.tolist() == [9.0, 2.0]
    np.testing.assert_array_equal(selected.numpy(), [1.0, np.nan])


def test_repeats_are_known_or_their_sum_is_given() -> None:
    repeats = flambeau.tensor([1, 2])
    with pytest.raises(RuntimeError, match="output_size"):
        flambeau.compile(lambda x, n: x.repeat_interleave(n), fullgraph=True)(
            flambeau.ones(2), repeats
        )
    given = flambeau.compile(lambda x, n: x.repeat_interleave(n, 0, output_size=3), fullgraph=True)
    assert given(flambeau.tensor([5.0, 6.0]), repeats).tolist() == [5.0, 6.0, 6.0]


def test_gradients_of_gradients_by_index_are_the_same_in_a_compiled_program() -> None:
    def penalty(x: Any) -> Any:
        y = x * 1
        y[[0, 1]] = x[[1, 2]] ** 2
        y[0] = x.roll(1, 0)[0] ** 3
        (first,) = flambeau.autograd.grad((y**2).sum(), x, create_graph=True)
        total = (first**2).sum()
        total.backward()
        return total

    eager = flambeau.tensor([[0.5, 1.0], [1.5, -1.0], [2.0, 0.25]], requires_grad=True)
    traced = eager.detach().clone().requires_grad_()
    expected, found = penalty(eager), flambeau.compile(penalty)(traced)
    np.testing.assert_allclose(found.item(), expected.item(), rtol=1e-5)
    np.testing.assert_allclose(traced.grad.numpy(), eager.grad.numpy(), rtol=1e-5)
