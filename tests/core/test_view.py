"""Views read and write through to their base, as NumPy's views do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau
from flambeau.core.values.steps import Cut, Diagonal, Expand, Permute, Reshape, Slice, Windows
from flambeau.core.values.view import result_of

SHAPE = (2, 3, 4)


def fresh() -> Any:
    return flambeau.arange(24.0).view(SHAPE)


# Each operation on a tensor of any shape, and the same one on a NumPy array


def swap(x: Any, a: int, b: int) -> Any:
    axes = list(range(x.ndim))
    first, second = a % x.ndim, b % x.ndim
    axes[first], axes[second] = axes[second], axes[first]
    return x.permute(axes) if isinstance(x, flambeau.Tensor) else x.transpose(axes)


def part(x: Any, dim: int, start: int, step: int) -> Any:
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, None, step),)]


def pick(x: Any, dim: int, index: int) -> Any:
    dim = dim % x.ndim
    # With an ellipsis NumPy gives a view of a single element, too.
    return x[(slice(None),) * dim + (index % x.shape[dim], ...)] if x.shape[dim] else x


def add_dimension(x: Any, dim: int, _: int) -> Any:
    return x[(slice(None),) * (dim % x.ndim) + (None,)]


def flat(x: Any, _: int, __: int) -> Any:
    return x.reshape(-1) if x.shape != (0,) else x


def halves(x: Any, dim: int, _: int) -> Any:
    dim = dim % x.ndim
    if x.shape[dim] % 2:
        return x
    return x.reshape((*x.shape[:dim], 2, x.shape[dim] // 2, *x.shape[dim + 1 :]))


def diagonal(x: Any, offset: int, _: int) -> Any:
    if x.ndim < 2:
        return x
    if isinstance(x, flambeau.Tensor):
        return x.diagonal(offset - 1, 0, -1)
    found = x.diagonal(offset - 1, 0, -1)
    found.flags.writeable = True
    return found


VIEWS = st.one_of(
    st.tuples(st.just(swap), st.integers(0, 2), st.integers(0, 2)),
    st.tuples(st.just(part), st.integers(0, 2), st.integers(0, 2), st.integers(1, 2)),
    st.tuples(st.just(pick), st.integers(0, 2), st.integers(0, 3)),
    st.tuples(st.just(add_dimension), st.integers(0, 2), st.just(0)),
    st.tuples(st.just(flat), st.just(0), st.just(0)),
    st.tuples(st.just(halves), st.integers(0, 2), st.just(0)),
    st.tuples(st.just(diagonal), st.integers(0, 2), st.just(0)),
)


def look(x: Any, view: tuple[Any, ...]) -> Any:
    function, *arguments = view
    return function(x, *arguments) if x.ndim else x


@settings(max_examples=60)
@given(
    chain=st.lists(st.tuples(VIEWS, st.booleans()), min_size=1, max_size=4),
    base_first=st.booleans(),
)
def test_writes_through_any_chain_of_views_reach_what_numpys_reach(
    chain: list[tuple[tuple[Any, ...], bool]], base_first: bool
) -> None:
    tensors = [fresh()]
    arrays = [np.arange(24.0, dtype=np.float32).reshape(SHAPE)]
    for number, (view, written) in enumerate(chain):
        tensors.append(look(tensors[-1], view))
        arrays.append(look(arrays[-1], view))
        assert tensors[-1].shape == arrays[-1].shape
        if written:
            tensors[-1].copy_(tensors[-1] * 10 + number)
            arrays[-1][...] = arrays[-1] * 10 + number
    # Reading one view must not fix what another one shows.
    for tensor, array in sorted(
        zip(tensors, arrays, strict=True),
        key=lambda pair: pair[0] is tensors[0],
        reverse=base_first,
    ):
        np.testing.assert_array_equal(tensor.numpy(), array)
    tensors[0].copy_(tensors[0] + 1)
    arrays[0] += 1
    for tensor, array in zip(tensors, arrays, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), array)


STEPS: list[tuple[Any, tuple[int, ...] | None]] = [
    (Reshape((4, 6)), None),
    (Permute((2, 0, 1)), None),
    (Expand((2, 3, 4)), None),
    (Slice((Cut(1, 2, 1, False), Cut(2, 2, 2, False))), (1, 1)),
    (Slice((Cut(0, 1, 1, True),)), (1,)),
    (Diagonal(1, 1, 2), None),
    (Diagonal(-1, 0, 2), None),
    (Windows(2, 2, 2), None),
]


@pytest.mark.parametrize(("step", "starts"), STEPS, ids=str)
def test_a_step_reads_what_it_wrote_and_leaves_the_rest(step: Any, starts: Any) -> None:
    array = fresh().jax()
    part = step.read(array, starts)
    assert (part.shape, part.dtype) == result_of((step,), array.shape, array.dtype)
    written = step.write(array, starts, part + 100)
    np.testing.assert_array_equal(step.read(written, starts), part + 100)
    changed = np.asarray(written != array)
    np.testing.assert_array_equal(np.sort(np.asarray(array)[changed]), np.sort(part, axis=None))


def test_steps_of_different_kinds_differ_though_their_fields_are_equal() -> None:
    x = flambeau.arange(3.0).view(1, 3)
    assert Reshape((3, 3)) != Expand((3, 3))
    assert x.expand(2, 3).numpy().tolist() == [[0, 1, 2], [0, 1, 2]]
    y = flambeau.arange(6.0).view(3, 2)
    assert y.permute(1, 0).view(2, 3).numpy().tolist() == [[0, 2, 4], [1, 3, 5]]


def test_where_a_part_starts_is_no_new_program(all_compiled: None) -> None:
    from flambeau.core.values.view import reader

    x = flambeau.arange(50.0)
    step = (Slice((Cut(0, 1, 1, True),)),)
    x[0].tolist()
    before = reader(step)._cache_size()  # type: ignore[attr-defined]
    assert [x[i].item() for i in range(50)] == list(range(50))
    assert reader(step)._cache_size() == before  # type: ignore[attr-defined]


def test_an_expanded_view_refuses_writes_with_the_shapes() -> None:
    x = flambeau.zeros(2, 1)
    with pytest.raises(RuntimeError, match=r"\[2, 1\] to \[2, 3\].*clone"):
        x.expand(2, 3).fill_(1.0)
    assert x.tolist() == [[0.0], [0.0]]
    x.expand(4, 2, 1)[0]  # looking is fine


def test_overlapping_windows_refuse_writes() -> None:
    x = flambeau.zeros(5)
    with pytest.raises(RuntimeError, match="overlapping"):
        x.unfold(0, 3, 1).fill_(1.0)
    x.unfold(0, 2, 3).fill_(1.0)
    assert x.tolist() == [1, 1, 0, 1, 1]


def test_a_dtype_view_shares_bits() -> None:
    x = flambeau.zeros(2)
    bits = x.view(flambeau.int32)
    bits[0] = 0x3F800000
    assert x.tolist() == [1.0, 0.0]
    x.copy_(flambeau.tensor([0.0, 2.0]))
    assert bits.tolist() == [0, 0x40000000]
    assert x.view(flambeau.int16).shape == (4,)
    assert x.view(flambeau.float64).shape == (1,)


BITS = [
    ("int16", "int32"), ("float32", "int64"), ("float64", "int16"), ("bool", "float16"),
    ("bfloat16", "float32"), ("float16", "bfloat16"), ("complex64", "float64"),
    ("complex128", "int32"), ("float32", "complex64"), ("float32", "complex128"),
    ("complex64", "complex128"), ("int64", "complex64"), ("uint8", "bool"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), BITS)
def test_dtype_views_read_and_write_the_bits_that_numpys_do(first: str, second: str) -> None:
    bits = np.tile(np.array([0, 1, 1, 0], np.uint8), (2, 8))
    base = flambeau.from_numpy(bits.copy())
    dtypes = [getattr(flambeau, name) for name in (first, second)]
    once = base.view(dtypes[0])
    twice = once.view(dtypes[1])
    expected = bits.view(dtypes[0].numpy).view(dtypes[1].numpy)
    assert twice.shape == expected.shape
    np.testing.assert_array_equal(twice.numpy().view(np.uint8), bits)
    twice[1] = twice[0] * 0
    np.testing.assert_array_equal(base.numpy(), bits * [[1], [0]])


def test_views_of_complex_numbers_share_their_parts() -> None:
    z = flambeau.tensor([1 + 2j, 3 + 4j])
    z.imag.copy_(flambeau.zeros(2))
    assert z.tolist() == [1 + 0j, 3 + 0j]
    z.real = flambeau.tensor([5.0, 6.0])
    flambeau.view_as_real(z)[1, 1] = 7.0
    assert z.tolist() == [5 + 0j, 6 + 7j]
    pairs = flambeau.zeros(2, 2)
    flambeau.view_as_complex(pairs)[0] = 1 + 2j
    assert pairs.tolist() == [[1, 2], [0, 0]]


def test_views_work_on_the_meta_device() -> None:
    x = flambeau.empty(4, 6, device="meta")
    y = x.view(2, 12)[:, ::5].t()
    assert y.shape == (3, 2)
    assert y.is_meta
    y.copy_(flambeau.empty(3, 2, device="meta"))
    x[0] = 1.0
    assert x[[0, 1]].shape == (2, 6)
