"""Type promotion and broadcasting of operands."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flambeau
from flambeau.core.kernels.promotion import check_broadcast, promote_types
from flambeau.core.support import dtype as dtypes

MIXABLE = [
    each
    for each in dtypes.ALL_DTYPES
    if each.itemsize > 1 and each not in (dtypes.uint16, dtypes.uint32, dtypes.uint64)
]
any_dtype = st.sampled_from(MIXABLE)


@given(any_dtype, any_dtype)
def test_promotion_is_symmetric(first: dtypes.dtype, second: dtypes.dtype) -> None:
    assert promote_types(first, second) is promote_types(second, first)


@given(any_dtype, any_dtype)
def test_promotion_never_lowers_the_category(first: dtypes.dtype, second: dtypes.dtype) -> None:
    common = promote_types(first, second)
    assert common.category == max(first.category, second.category)
    assert promote_types(common, first) is common


def meta(dtype: dtypes.dtype, *shape: int) -> flambeau.Tensor:
    return flambeau.ones(shape, dtype=dtype, device="meta")


def test_a_dimensioned_tensor_outweighs_a_0d_one_of_its_category() -> None:
    small, large = meta(dtypes.float16, 3), meta(dtypes.float64)
    assert (small + large).dtype is dtypes.float16
    assert (meta(dtypes.int8, 3) + meta(dtypes.int64)).dtype is dtypes.int8


def test_a_0d_tensor_of_a_higher_category_wins() -> None:
    assert (meta(dtypes.int64, 3) + meta(dtypes.float16)).dtype is dtypes.float16


def test_a_number_of_a_higher_category_gives_the_default_dtype() -> None:
    assert (meta(dtypes.int32, 3) + 1.5).dtype is dtypes.float32
    assert (meta(dtypes.int8, 3) + 1).dtype is dtypes.int8
    assert (meta(dtypes.bool, 3) + 1).dtype is dtypes.int64
    assert (meta(dtypes.float64, 3) + 1j).dtype is dtypes.complex128


def test_integers_divide_to_the_default_dtype() -> None:
    assert (meta(dtypes.int64, 3) / meta(dtypes.int64, 3)).dtype is dtypes.float32


def test_the_default_dtype_is_followed_at_once() -> None:
    integers = meta(dtypes.int64, 3)
    assert (integers / 2).dtype is dtypes.float32
    flambeau.set_default_dtype(dtypes.float64)
    try:
        assert (integers / 2).dtype is dtypes.float64
    finally:
        flambeau.set_default_dtype(dtypes.float32)


def test_unsigned_types_do_not_mix_with_signed_ones() -> None:
    with pytest.raises(TypeError, match=r"uint16.*int32"):
        promote_types(dtypes.uint16, dtypes.int32)


def test_shapes_that_do_not_broadcast_are_named_with_the_dimension() -> None:
    with pytest.raises(RuntimeError, match=r"\[2, 3\] and \[4\].* \(3\) .* \(4\) at .*dimension 1"):
        meta(dtypes.float32, 2, 3) + meta(dtypes.float32, 4)


shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@given(st.tuples(shapes, shapes, shapes))
def test_shapes_broadcast_as_in_numpy(given_shapes: tuple[tuple[int, ...], ...]) -> None:
    operands = [np.empty(shape) for shape in given_shapes]
    try:
        np.broadcast_shapes(*given_shapes)
    except ValueError:
        with pytest.raises(RuntimeError, match="do not broadcast"):
            check_broadcast(*operands)
    else:
        check_broadcast(*operands)


def test_an_operator_needs_a_tensor() -> None:
    with pytest.raises(TypeError, match="numbers only"):
        flambeau.pow(1, 2)
    with pytest.raises(TypeError, match="must be a Tensor"):
        flambeau.sum(3)
