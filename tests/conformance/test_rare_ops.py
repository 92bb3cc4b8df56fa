"""Operators that are imported when asked for, against PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import flambeau
from tests.conformance.operators import Row, compare, table
from tests.conformance.test_pointwise_ops import call

RANDOM = np.random.default_rng(0)
A = RANDOM.standard_normal((2, 3)).astype(np.float32)
B = RANDOM.standard_normal((2, 3)).astype(np.float32)
SQUARE = RANDOM.standard_normal((3, 3)).astype(np.float64)
SYMMETRIC = SQUARE + SQUARE.T
COMPLEX = (SQUARE + 1j * SQUARE.T).astype(np.complex128)
TALL = RANDOM.standard_normal((4, 3))
BATCH = RANDOM.standard_normal((2, 3, 3))
WHOLE = np.arange(6).reshape(2, 3)
PAIRS = RANDOM.standard_normal((3, 2)).astype(np.float32)


def method(name: str, *args: Any, **options: Any) -> Any:
    return lambda lib, *tensors: getattr(tensors[0], name)(*tensors[1:], *args, **options)


def rows(cases: Iterator[Row]) -> Any:
    return table(cases)


def copies() -> Iterator[Row]:
    cases: dict[str, tuple[Any, ...]] = {
        "alias": (), "as_strided": ((2, 2), (1, 2)), "detach": (), "diagonal": (1,),
        "expand": ((2, 2, 3),), "narrow": (1, 1, 2), "permute": ((1, 0),), "select": (1, 2),
        "slice": (1, 0, 3, 2), "split": (2, 1), "split_with_sizes": ((1, 2), 1), "squeeze": (),
        "t": (), "transpose": (0, 1), "unbind": (), "unfold": (1, 2, 1), "unsqueeze": (1,),
        "view_as_real": (), "view": ((3, 2),),
    }  # fmt: skip
    for name, args in cases.items():
        input = COMPLEX if name == "view_as_real" else A
        # PyTorch's nodes are those of the view with "_copy" behind their names.
        gradient = name != "detach"
        yield Row(name, call(f"{name}_copy", *args), (input,), None, gradient, node=False)
    yield Row("view_as_complex", call("view_as_complex_copy"), (PAIRS,), gradient=False)
    yield Row("squeeze of a dim", call("squeeze_copy", 0), (A[:1],), node=False)
    yield Row("view as integers", lambda lib, x: lib.view_copy(x, dtype=lib.int32), (A,))
    yield Row("narrow, the method", method("narrow_copy", 1, 0, 2), (A,), node=False)
    yield Row("slice with no step", call("slice_copy", 1, 0, 3, 0), (A,))
    yield Row("view of another size", call("view_copy", (4, 2)), (A,))


@rows(copies())
def test_copies_of_views(row: Row) -> None:
    compare(row)


def test_a_copy_shares_nothing_with_its_input() -> None:
    x = flambeau.zeros(2, 3)
    flambeau.permute_copy(x, (1, 0)).fill_(1)
    assert not x.any()


def differences() -> Iterator[Row]:
    places = np.array([0, 1, 3, 3.5], np.float32)
    line = RANDOM.standard_normal(4).astype(np.float32)

    def gradient(**options: Any) -> Any:
        return lambda lib, *tensors: lib.gradient(tensors[0], **options)

    yield Row("of all dimensions", gradient(), (A,), node=False)
    yield Row("of one dimension", gradient(dim=1), (A,), node=False)
    yield Row("with a spacing", gradient(spacing=2.0), (A,), node=False)
    yield Row("with spacings", gradient(spacing=(2.0, 0.5)), (A,), node=False)
    yield Row("of second order at the ends", gradient(edge_order=2, dim=1), (A,), 1e-5, node=False)
    yield Row("of integers", gradient(), (WHOLE,))
    yield Row("of complex numbers", gradient(), (COMPLEX,), node=False)
    for order in (1, 2):
        yield Row(
            f"at places, {order}",
            lambda lib, x, at, order=order: lib.gradient(x, spacing=(at,), edge_order=order),
            (line, places),
            1e-5,
            node=False,
        )
    yield Row("of too few", gradient(edge_order=2), (A,))
    yield Row("of third order", gradient(edge_order=3), (A,))
    yield Row("with too many spacings", gradient(spacing=(1.0, 2.0, 3.0)), (A,))
    yield Row("along no dimension", gradient(dim=3), (A,))


@rows(differences())
def test_finite_differences(row: Row) -> None:
    compare(row)


def counts() -> Iterator[Row]:
    numbers = np.array([[1.0, 2, 2], [3, 0.5, 2.5]], np.float32)
    edges, weights = np.array([0.5, 2, 2.5, 4], np.float32), np.abs(A)
    points = RANDOM.standard_normal((6, 2)).astype(np.float32)
    options = {"gradient": False}

    def histogram(*args: Any, **keywords: Any) -> Any:
        return lambda lib, x, *rest: tuple(lib.histogram(x, *rest, *args, **keywords))

    def several(*args: Any, **keywords: Any) -> Any:
        def compute(lib: Any, x: Any) -> Any:
            found = lib.histogramdd(x, *args, **keywords)
            return (found[0], *found[1])

        return compute

    yield Row("of equal bins", histogram(3), (numbers,), 1e-6, **options)
    yield Row("within a range", histogram(4, range=(1.0, 2.5)), (numbers,), 1e-6, **options)
    yield Row("of given edges", histogram(), (numbers, edges), 1e-6, **options)
    yield Row("density", histogram(3, density=True), (numbers,), 1e-6, **options)
    yield Row("weighted", lambda lib, x, w: tuple(lib.histogram(x, 3, weight=w)),
              (numbers, weights), 1e-6, **options)  # fmt: skip
    yield Row("of equal numbers", histogram(2), (np.ones(3, np.float32),), 1e-6, **options)
    yield Row("of none", histogram(2), (np.ones(0, np.float32),), 1e-6, **options)
    yield Row("of no bins", histogram(0), (numbers,), **options)
    yield Row("of a turned range", histogram(2, range=(2.0, 1.0)), (numbers,), **options)
    yield Row("of NaN", histogram(2), (np.array([1, np.nan], np.float32),), **options)
    yield Row("of integers", histogram(2), (WHOLE,))
    yield Row("wrong weights", lambda lib, x, w: tuple(lib.histogram(x, 3, weight=w)),
              (numbers, edges), **options)  # fmt: skip
    yield Row("the method", lambda lib, x: tuple(x.histogram(2)), (numbers,), 1e-6, **options)
    yield Row("of points", several([2, 3]), (points,), 1e-5, **options)
    yield Row("of points, one number", several(2), (points,), 1e-5, **options)
    yield Row("of points, density", several([2, 3], density=True), (points,), 1e-5, **options)
    yield Row("of points, range", several([2, 3], range=[-1.0, 1.0, -2.0, 2.0]), (points,), 1e-5,
              **options)  # fmt: skip
    yield Row("of points, too many bins", several([2, 3, 4]), (points,), **options)


@rows(counts())
def test_histograms(row: Row) -> None:
    compare(row)


def coordinates() -> Iterator[Row]:
    flat = np.array([[5, 3], [0, 7]])
    for shape in ((2, 3), (8,), 6, (2, 2, 2)):
        yield Row(f"of {shape}", call("unravel_index", shape), (flat,))
    yield Row("of int32", call("unravel_index", (2, 4)), (flat.astype(np.int32),))
    yield Row("of floats", call("unravel_index", (2, 4)), (A,))
    yield Row("of a negative size", call("unravel_index", (-2, 4)), (flat,))


@rows(coordinates())
def test_coordinates(row: Row) -> None:
    compare(row)


def sizes() -> Iterator[Row]:
    no = {"gradient": False}
    yield Row("smaller", lambda lib, x: x.clone().resize_(2, 2), (A,), **no)
    yield Row("of a sequence", lambda lib, x: x.clone().resize_((3, 1)), (A,), **no)
    yield Row("the same", lambda lib, x: x.clone().resize_(2, 3), (A,))
    yield Row("as another", lambda lib, x, y: x.clone().resize_as_(y), (A, PAIRS), **no)
    yield Row("of a leaf", lambda lib, x: x.resize_(3), (A,))
    yield Row("negative", lambda lib, x: x.resize_(-3), (A,), **no)
    yield Row("larger, where it was", lambda lib, x: x.clone().resize_(3, 3).flatten()[:6], (A,),
              **no)  # fmt: skip
    yield Row("as_strided, the first of a view", lambda lib, x: x[1:].T.as_strided((), ()), (A,))
    yield Row(
        "as_strided, the first repeated", lambda lib, x: x[1].as_strided((2, 2), (0, 0)), (A,)
    )
    yield Row("as_strided_", lambda lib, x: x.clone().as_strided_((2, 2), (1, 1)), (A,), **no)
    # PyTorch sends the gradient to the elements that are written over.
    yield Row("as_strided_scatter", call("as_strided_scatter", (2, 2), (2, 1)),
              (A, np.ones((2, 2), np.float32)), **no)  # fmt: skip
    yield Row("as_strided_scatter of another size", call("as_strided_scatter", (2, 2), (2, 1)),
              (A, A))  # fmt: skip
    yield Row("new of a size", lambda lib, x: lib.zeros_like(x.new(2, 2)), (A,))
    yield Row("new of data", lambda lib, x: x.new([1, 2]), (A,), node=False)
    yield Row("new of integers", lambda lib, x: x.new([1, 2]), (WHOLE,))
    yield Row("new of nothing", lambda lib, x: x.new(), (A,))
    yield Row("empty_strided", lambda lib: lib.zeros_like(lib.empty_strided((2, 3), (1, 2))), (),
              **no)  # fmt: skip
    yield Row("empty_permuted", lambda lib: lib.zeros_like(lib.empty_permuted((2, 3), (1, 0))), (),
              **no)  # fmt: skip
    yield Row("empty_strided, wrong", lambda lib: lib.empty_strided((2, 3), (1,)), (), **no)
    yield Row("empty_permuted, wrong", lambda lib: lib.empty_permuted((2, 3), (1, 1)), (), **no)


@rows(sizes())
def test_sizes(row: Row) -> None:
    compare(row)


def test_a_view_cannot_be_resized() -> None:
    with pytest.raises(RuntimeError, match="view of shape"):
        flambeau.ones(2, 3)[0].resize_(5)


def factorizations() -> Iterator[Row]:
    no = {"gradient": False}
    unpacked = lambda lib, x, **o: tuple(lib.lu_unpack(*lib.linalg.lu_factor(x), **o))  # noqa: E731
    yield Row("lu", lambda lib, x: tuple(lib.lu(x)), (SQUARE,), node=False)
    yield Row("lu with infos", lambda lib, x: tuple(lib.lu(x, get_infos=True)), (BATCH,),
              node=False)  # fmt: skip
    yield Row("lu_solve", lambda lib, x, b: b.lu_solve(*lib.linalg.lu_factor(x)), (SQUARE, SQUARE),
              1e-9, node=False)  # fmt: skip
    for name, input in {"square": SQUARE, "tall": TALL, "wide": TALL.T.copy()}.items():
        yield Row(f"lu_unpack, {name}", unpacked, (input,), 1e-9, node=False)
    yield Row("lu_unpack, batch", unpacked, (BATCH,), 1e-9, node=False)
    yield Row("lu_unpack, no data", lambda lib, x: unpacked(lib, x, unpack_data=False)[0],
              (SQUARE,), **no)  # fmt: skip
    yield Row("lu_unpack of long pivots", lambda lib, x: lib.lu_unpack(x, lib.tensor([1, 2, 3])),
              (SQUARE,), **no)  # fmt: skip
    yield Row("geqrf", lambda lib, x: tuple(lib.geqrf(x)), (TALL,), 1e-9, **no)
    yield Row("geqrf of a vector", lambda lib, x: tuple(lib.geqrf(x)), (TALL[0],), **no)
    yield Row("orgqr", lambda lib, x: lib.orgqr(*lib.geqrf(x)), (TALL,), 1e-9, **no)
    for left in (True, False):
        for transpose in (True, False):
            yield Row(
                f"ormqr, {left}, {transpose}",
                lambda lib, x, b, left=left, transpose=transpose: lib.ormqr(
                    *lib.geqrf(x), b if left else b.mT, left, transpose
                ),
                (TALL, TALL),
                1e-9,
                **no,
            )
    for name, input in {"one": SYMMETRIC, "batch": BATCH + BATCH.swapaxes(1, 2)}.items():
        yield Row(f"ldl_factor, {name}", lambda lib, x: tuple(lib.linalg.ldl_factor(x)), (input,),
                  1e-9, **no)  # fmt: skip
    hermitian = COMPLEX + COMPLEX.conj().T
    yield Row("ldl_factor, Hermitian", lambda lib, x: tuple(
        lib.linalg.ldl_factor(x, hermitian=True)), (hermitian,), 1e-9, **no)  # fmt: skip
    yield Row("ldl_factor_ex", lambda lib, x: tuple(lib.linalg.ldl_factor_ex(x)), (SYMMETRIC,),
              1e-9, **no)  # fmt: skip
    yield Row("ldl_factor of zeros", lambda lib, x: tuple(lib.linalg.ldl_factor(x)),
              (np.zeros((2, 2)),), **no)  # fmt: skip
    yield Row("ldl_solve", lambda lib, x, b: lib.linalg.ldl_solve(*lib.linalg.ldl_factor(x), b),
              (SYMMETRIC, TALL.T[:, :2].copy()), 1e-9, **no)  # fmt: skip
    yield Row("ldl_solve of a batch", lambda lib, x, b: lib.linalg.ldl_solve(
        *lib.linalg.ldl_factor(x), b), (SYMMETRIC, BATCH), 1e-9, **no)  # fmt: skip
    yield Row("ldl_solve, wrong", lambda lib, x, b: lib.linalg.ldl_solve(
        *lib.linalg.ldl_factor(x), b), (SYMMETRIC, TALL), **no)  # fmt: skip


@rows(factorizations())
def test_factorizations(row: Row) -> None:
    compare(row)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4)])
def test_low_rank_factors_of_a_matrix_of_low_rank(shape: tuple[int, int]) -> None:
    for lib in (torch, flambeau):
        lib.manual_seed(0)
        left, right = lib.randn(shape[0], 2), lib.randn(2, shape[1])
        matrix = left @ right
        u, s, v = lib.svd_lowrank(matrix, q=2)
        np.testing.assert_allclose((u * s @ v.mT).numpy(), matrix.numpy(), atol=1e-5)
        u, s, v = lib.pca_lowrank(matrix)
        centered = matrix - matrix.mean(0, keepdim=True)
        np.testing.assert_allclose((u * s @ v.mT).numpy(), centered.numpy(), atol=1e-5)
        assert v.shape == (shape[1], 3)
        with pytest.raises(ValueError, match="q"):
            lib.pca_lowrank(matrix, q=9)


def others() -> Iterator[Row]:
    yield Row("fill", call("fill", 2.0), (A,))
    yield Row("fill with a tensor", lambda lib, x, y: lib.fill(x, y[0, 0]), (A, B), node=False)
    yield Row("frobenius_norm", call("frobenius_norm", 1), (A,), node=False)
    yield Row("frobenius_norm, kept", call("frobenius_norm", (0, 1), True), (A,), node=False)
    yield Row("nuclear_norm", call("nuclear_norm"), (A,), 1e-5, node=False)
    yield Row("nuclear_norm of dims", call("nuclear_norm", (1, 0), True), (A,), 1e-5, node=False)
    for dim in (-1, 0, 1):
        yield Row(f"norm_except_dim {dim}", call("norm_except_dim", 2, dim), (A,), node=False)
    yield Row("norm_except_dim of a vector", call("norm_except_dim"), (A[0],), node=False)
    for args in ((1, 3), (0, 2, 0.5), (3, 0, -1), (0.0, 0.3, 0.1)):
        yield Row(f"range{args}", call("range", *args), (), 1e-6, gradient=False)
    yield Row("range of integers", lambda lib: lib.range(0, 3, dtype=lib.int64), (), gradient=False)
    yield Row("range the other way", call("range", 3, 0), (), gradient=False)
    yield Row("range without a step", call("range", 3, 0, 0), (), gradient=False)
    for name in ("abs_", "exp_", "neg_", "relu_", "sqrt_", "zero_"):
        yield Row(name, lambda lib, x, name=name: getattr(lib, name)(x * x), (A,))
    yield Row("clamp_", lambda lib, x: lib.clamp_(x * 2, 0, 1), (A,))
    yield Row("apply_", lambda lib, x: x.detach().clone().apply_(lambda v: v * 2), (A,))
    yield Row("apply_ of a leaf", lambda lib, x: x.apply_(lambda v: v * 2), (A,))
    yield Row("map_", lambda lib, x, y: x.clone().map_(y, lambda a, b: a + b), (A, B[0]),
              gradient=False)  # fmt: skip


@rows(others())
def test_older_names(row: Row) -> None:
    compare(row)


@pytest.mark.parametrize(
    "arguments",
    [
        {"buffer": b"abcd", "dtype": "uint8"},
        {"buffer": bytearray(range(8)), "dtype": "int32", "count": 1, "offset": 4},
        {"buffer": bytearray(range(8)), "dtype": "float32", "requires_grad": True},
        {"buffer": bytearray(7), "dtype": "float32"},
        {"buffer": bytearray(0), "dtype": "float32"},
        {"buffer": bytearray(8), "dtype": "float32", "count": 3},
        {"buffer": bytearray(8), "dtype": "float32", "count": 0},
        {"buffer": bytearray(8), "dtype": "float32", "offset": 9},
        {"buffer": [1], "dtype": "uint8"},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:The given buffer is not writable")
def test_frombuffer(arguments: dict[str, Any]) -> None:
    def compute(lib: Any) -> Any:
        return lib.frombuffer(**{**arguments, "dtype": getattr(lib, arguments["dtype"])})

    try:
        theirs = compute(torch)
    except ValueError:
        with pytest.raises(ValueError, match="frombuffer"):
            compute(flambeau)
        return
    ours = compute(flambeau)
    np.testing.assert_array_equal(ours.detach().numpy(), theirs.detach().numpy())
    assert ours.requires_grad == theirs.requires_grad


def test_typename() -> None:
    for lib in (torch, flambeau):
        name = lib.__name__
        assert lib.typename(lib.ones(2)) == f"{name}.FloatTensor"
        assert lib.typename(3) == "int"
        assert lib.typename(lib.nn.Linear(1, 1)) == f"{name}.nn.modules.linear.Linear"
