"""Laws of splitting, joining, repeating and turning, and the facts in their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau

ARRAY = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)


def tensor() -> Any:
    return flambeau.from_numpy(ARRAY.copy())


def same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(found.numpy(), expected)


DIMS = st.integers(-3, 2)


@settings(max_examples=20)
@given(size=st.integers(1, 5), dim=DIMS)
def test_cat_puts_together_what_split_took_apart(size: int, dim: int) -> None:
    parts = tensor().split(size, dim)
    assert [each.shape[dim] for each in parts[:-1]] == [size] * (len(parts) - 1)
    same(flambeau.cat(parts, dim), ARRAY)
    same(flambeau.cat(tensor().chunk(size, dim), dim), ARRAY)


@pytest.mark.parametrize("dim", range(-3, 3))
def test_stack_puts_together_what_unbind_took_apart(dim: int) -> None:
    same(flambeau.stack(tensor().unbind(dim), dim), ARRAY)


@settings(max_examples=20)
@given(cuts=st.lists(st.integers(-5, 6), max_size=3), dim=DIMS)
def test_tensor_split_cuts_where_numpy_cuts(cuts: list[int], dim: int) -> None:
    for found, expected in zip(
        tensor().tensor_split(cuts, dim), np.array_split(ARRAY, cuts, dim), strict=True
    ):
        same(found, expected)


@settings(max_examples=20)
@given(shifts=st.tuples(st.integers(-9, 9), st.integers(-9, 9)), dims=st.tuples(DIMS, DIMS))
def test_roll_moves_as_numpys_roll(shifts: tuple[int, int], dims: tuple[int, int]) -> None:
    same(tensor().roll(shifts, dims), np.roll(ARRAY, shifts, dims))
    same(tensor().roll(shifts[0]), np.roll(ARRAY, shifts[0]))


@pytest.mark.parametrize("k", range(-2, 4))
def test_rot90_turns_as_numpys_rot90(k: int) -> None:
    same(tensor().rot90(k, (2, 0)), np.rot90(ARRAY, k, (2, 0)))


@pytest.mark.parametrize("dims", [(0,), (1, 2), (-1, 0), ()])
def test_flipping_twice_gives_the_tensor_back(dims: tuple[int, ...]) -> None:
    same(tensor().flip(dims), np.flip(ARRAY, dims))
    same(tensor().flip(dims).flip(dims), ARRAY)


@pytest.mark.parametrize("offset", range(-3, 5))
def test_triangles_and_diagonals_are_numpys(offset: int) -> None:
    matrix = ARRAY[0]
    x = tensor()[0]
    same(x.tril(offset), np.tril(matrix, offset))
    same(x.triu(offset), np.triu(matrix, offset))
    same(x.diagonal(offset), np.diagonal(matrix, offset))
    same(x[0].diag(offset), np.diag(matrix[0], offset))
    same(x.tril(offset) + x.triu(offset + 1), matrix)


def test_the_diagonal_of_a_triangle_is_no_new_program(all_compiled: None) -> None:
    x = flambeau.ones(3, 3)
    x.tril(0)
    kernel = flambeau.tril.op.kernel(())
    before = kernel.forward._cache_size()
    assert [x.tril(k).sum().item() for k in range(-3, 3)] == [0, 1, 3, 6, 8, 9]
    assert kernel.forward._cache_size() == before


@pytest.mark.parametrize("reps", [(2,), (1, 2, 1), (2, 1, 1, 3), (0, 1, 1)])
def test_tile_is_numpys_tile(reps: tuple[int, ...]) -> None:
    same(tensor().tile(reps), np.tile(ARRAY, reps))


def test_repeat_interleave_is_numpys_repeat() -> None:
    same(tensor().repeat_interleave(2, 1), np.repeat(ARRAY, 2, 1))
    same(tensor().repeat_interleave(flambeau.tensor([3, 0, 1]), 1), np.repeat(ARRAY, [3, 0, 1], 1))
    same(flambeau.repeat_interleave(flambeau.tensor([2, 0, 1])), [0, 0, 2])


def test_movedim_and_swapaxes_are_numpys() -> None:
    same(tensor().movedim((0, 2), (1, 0)), np.moveaxis(ARRAY, (0, 2), (1, 0)))
    same(tensor().swapaxes(0, -1), np.swapaxes(ARRAY, 0, -1))


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_meshgrid_is_numpys(indexing: Any) -> None:
    vectors = [np.arange(2.0), np.arange(3.0), np.arange(4.0)]
    grids = flambeau.meshgrid(*map(flambeau.from_numpy, vectors), indexing=indexing)
    for found, expected in zip(grids, np.meshgrid(*vectors, indexing=indexing), strict=True):
        same(found, expected)


def test_meshgrid_asks_for_its_indexing() -> None:
    with pytest.warns(UserWarning, match="indexing"):
        assert flambeau.meshgrid(flambeau.ones(2), flambeau.ones(3))[0].shape == (2, 3)


def test_broadcast_shapes() -> None:
    assert flambeau.broadcast_shapes((2, 1), 3, ()) == (2, 3)
    with pytest.raises(RuntimeError, match=r"\[2\] and \[3\] do not broadcast"):
        flambeau.broadcast_shapes((2,), (3,))


def test_windows_are_numpys_sliding_windows() -> None:
    expected = np.lib.stride_tricks.sliding_window_view(ARRAY, 2, 2)[:, :, ::2]
    same(tensor().unfold(2, 2, 2), expected)


def test_joining_promotes_dtypes() -> None:
    whole, half = flambeau.ones(2, dtype=flambeau.int64), flambeau.ones(2, dtype=flambeau.float16)
    assert flambeau.cat([whole, half]).dtype is flambeau.float16
    assert flambeau.stack([whole, whole.bool()]).dtype is flambeau.int64


def test_views_share_and_joins_copy() -> None:
    x = tensor()
    parts = x.split(2, -1)
    parts[0].zero_()
    assert x[..., :2].sum().item() == 0
    flambeau.cat(parts, -1).fill_(1.0)
    assert x[..., :2].sum().item() == 0


ERRORS = {
    "cat of nothing": (lambda x: flambeau.cat([]), ValueError, "non-empty"),
    "cat of sizes": (
        lambda x: flambeau.cat([x, x[:, :2]]),
        RuntimeError,
        r"dimension 0; got \[2, 3, 4\] and, at number 1, \[2, 2, 4\]",
    ),
    "stack of shapes": (
        lambda x: flambeau.stack([x, x[0]]),
        RuntimeError,
        r"\[2, 3, 4\] at number 0 and \[3, 4\] at number 1",
    ),
    "view": (lambda x: x.view(5, 5), RuntimeError, r"\[5, 5\] is invalid .* 24 elements"),
    "view, unknown": (lambda x: x.view(-1, 5), RuntimeError, r"\[-1, 5\] is invalid .* 24"),
    "view, two unknown": (lambda x: x.view(-1, -1), RuntimeError, r"only one .* \[-1, -1\]"),
    "view of a dtype": (
        lambda x: x[..., :3].view(flambeau.float64),
        RuntimeError,
        "3 elements of flambeau.float32",
    ),
    "expand": (
        lambda x: x.expand(2, 5, 4),
        RuntimeError,
        r"dimension 1 of size 3 cannot expand to 5: target sizes \[2, 5, 4\]",
    ),
    "permute": (lambda x: x.permute(0, 1), RuntimeError, r"2 dimensions \[0, 1\] .* with 3"),
    "permute twice": (lambda x: x.permute(0, 1, 1), RuntimeError, r"more than once in \[0, 1, 1\]"),
    "transpose": (lambda x: x.transpose(0, 3), IndexError, r"range of \[-3, 2\], but got 3"),
    "narrow": (
        lambda x: x.narrow(1, 2, 2),
        RuntimeError,
        "2 plus length 2 .* dimension 1 of size 3",
    ),
    "select": (lambda x: x.select(1, 3), IndexError, "index 3 .* dimension 1 with size 3"),
    "split": (lambda x: x.split([1, 1], 2), RuntimeError, r"\[1, 1\] sum to 2, .* 2 has size 4"),
    "hsplit": (lambda x: x.hsplit(2), RuntimeError, "dimension 1 of size 3 into 2 equal"),
    "unfold": (lambda x: x.unfold(1, 4, 1), RuntimeError, "size 4 .* 3, the size of dimension 1"),
    "unflatten": (lambda x: x.unflatten(2, (3, 2)), RuntimeError, r"dimension 2: .* \[3, 2\].* 4"),
    "repeat": (lambda x: x.repeat(2, 2), RuntimeError, r"2 repeats \[2, 2\] .* 3 dimensions"),
    "roll": (lambda x: x.roll((1, 1), 0), RuntimeError, "2 shifts do not fit 1 dimensions"),
    "flip": (lambda x: x.flip(0, 0), RuntimeError, r"more than once in \[0, 0\]"),
    "diag": (lambda x: x.diag(), RuntimeError, "got 3 dimensions"),
    "mT": (lambda x: x[0, 0].mT, RuntimeError, "1 dimension"),
    "a size": (lambda x: x.view(2.0, 12), TypeError, "size must be an integer, got float"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_state_their_facts(name: str) -> None:
    compute, kind, facts = ERRORS[name]
    with pytest.raises(kind, match=facts):
        compute(tensor())


def test_the_transpose_of_other_than_matrices_is_deprecated() -> None:
    with pytest.warns(UserWarning, match="mT"):
        assert tensor().T.shape == (4, 3, 2)


def test_ravel_copies_elements_with_gaps_between_them():
    x = flambeau.zeros(2, 3)
    x[:, 2].ravel().add_(1)
    assert not x.any()
    x[1].ravel().add_(1)
    assert x.tolist() == [[0, 0, 0], [1, 1, 1]]
