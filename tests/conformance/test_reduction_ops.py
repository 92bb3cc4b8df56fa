"""Reductions, running sums, sorting and counting against PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from tests.conformance.operators import Row, compare, table

NAN, INF = float("nan"), float("inf")
RANDOM = np.random.default_rng(0)
A = RANDOM.standard_normal((2, 3, 4)).astype(np.float32)
M = RANDOM.standard_normal((3, 4)).astype(np.float32)
# No two elements are equal, so that every index is determined.
WHOLE = RANDOM.permutation(12).reshape(3, 4) - 4
TIES = np.array([[0, 0, 0, 1], [1, 1, 2, 2], [3, 0, 3, -1]], np.float32)
HOLED = np.array([[1, NAN, 3, 2], [NAN, NAN, NAN, NAN], [4, 5, 6, -7]], np.float32)
FLAGS = np.array([[True, False], [True, True]])
SCALAR = np.array(2.5, np.float32)
EMPTY = np.zeros((2, 0), np.float32)
COMPLEX = (M + 1j * M[::-1]).astype(np.complex64)


def call(name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    return lambda lib, *tensors: getattr(lib, name)(*tensors, *args, **kwargs)


def both(name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """As a function and as a method."""
    return lambda lib, x: (
        *as_tuple(getattr(lib, name)(x, *args, **kwargs)),
        *as_tuple(getattr(x, name)(*args, **kwargs)),
    )


def as_tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple) else (result,)


def reduction_rows() -> Iterator[Row]:
    for name in ("sum", "mean", "nansum", "nanmean", "amax", "amin", "logsumexp", "var", "std"):
        for dim in (None, -1, (0, 2), []):
            # The one needs a dimension, the others have infinite gradients in PyTorch.
            if dim in ([], None) and name in ("logsumexp", "var", "std"):
                continue
            yield Row(f"{name} {dim}", both(name, *(() if dim is None else (dim,))), (A,))
        yield Row(f"{name} keepdim", call(name, dim=1, keepdim=True), (A,))
        yield Row(f"{name} axis", call(name, axis=1, keepdims=True), (A,))
        yield Row(f"{name} of a dimension that is not there", call(name, 3), (A,))
        yield Row(f"{name} of a dimension twice", call(name, (1, -2)), (A,))
        yield Row(f"{name} of no dimension", call(name, 1.5), (A,))
        yield Row(f"{name} 0-d", call(name, 0), (SCALAR,))
        yield Row(f"{name} 0-d beyond", call(name, 1), (SCALAR,))
        yield Row(f"{name} of nothing along 0", call(name, 0), (EMPTY,))
        yield Row(f"{name} of nothing along 1", call(name, 1), (EMPTY,))
        yield Row(f"{name} of integers", call(name, 0), (WHOLE,))
        yield Row(f"{name} of bools", call(name, 0), (FLAGS,))
        yield Row(f"{name} with NaN", call(name, 1), (HOLED,), gradient=name == "nansum")
        yield Row(f"{name} of halves", call(name, 0), (M.astype(np.float16),))
        yield Row(f"{name} of bfloat16", call(name, 0), (M.astype(ml_dtypes.bfloat16),))
        if name not in ("amax", "amin"):
            yield Row(f"{name} of ties", call(name, 1), (TIES,))
    for name in ("sum", "mean", "nansum", "nanmean", "var", "std", "prod"):
        yield Row(f"{name} of all of nothing", call(name), (EMPTY,))
        yield Row(f"{name} of complex numbers", call(name), (COMPLEX,))
    for name in ("sum", "mean", "prod", "nansum", "cumsum", "cumprod"):
        along = (0,) if name.startswith("cum") else ()
        yield Row(f"{name} dtype", call(name, *along, dtype=None), (A,))
        for kind in ("float64", "int32"):
            yield Row(
                f"{name} as {kind}", as_dtype(name, along, kind), (A * 3,), gradient=kind != "int32"
            )
            yield Row(f"{name} of integers as {kind}", as_dtype(name, along, kind), (WHOLE,))
    yield Row("prod", both("prod"), (M,))
    yield Row("prod 1", both("prod", 1), (M,))
    yield Row("prod keepdim", call("prod", 0, True), (M,))
    yield Row("prod of two dimensions", call("prod", (0, 1)), (M,))
    yield Row("prod with zeros", call("prod", 1), (TIES,))
    yield Row("prod with one zero", call("prod"), (np.array([2, 0, 3], np.float32),))
    yield Row("prod of integers", call("prod"), (WHOLE.astype(np.int8),))
    for name in ("all", "any"):
        for kind, values in {
            "floats": TIES,
            "bools": FLAGS,
            "bytes": FLAGS.astype(np.uint8),
        }.items():
            yield Row(f"{name} of {kind}", both(name), (values,))
            yield Row(f"{name} of {kind} along 1", call(name, 1, keepdim=True), (values,))
        yield Row(f"{name} of nothing", call(name), (EMPTY,))
        yield Row(f"{name} of no dimensions", call(name, dim=()), (TIES,))
    yield Row("count_nonzero", both("count_nonzero"), (TIES,))
    yield Row("count_nonzero 0", call("count_nonzero", dim=0), (TIES,))
    yield Row("count_nonzero of two", call("count_nonzero", dim=(0, 1)), (FLAGS,))


def as_dtype(name: str, along: tuple[int, ...], kind: str) -> Callable[..., Any]:
    return lambda lib, x: getattr(lib, name)(x, *along, dtype=getattr(lib, kind))


@table(reduction_rows())
def test_reductions(row: Row) -> None:
    compare(row._replace(tolerance=row.tolerance or 2e-5) if row.inputs[0].dtype == "f4" else row)


def spread_rows() -> Iterator[Row]:
    for name in ("var", "std", "var_mean", "std_mean"):
        forms = {
            "unbiased": ((False,), {}),
            "dim": ((1,), {}),
            "dim unbiased": ((1, False), {}),
            "dim unbiased keepdim": ((1, True, True), {}),
            "correction": ((), {"dim": 0, "correction": 2}),
            "correction 0": ((0,), {"correction": 0, "keepdim": True}),
            "correction of all": ((), {"correction": 3}),
            "correction and unbiased": ((0,), {"unbiased": True, "correction": 3}),
            "unknown argument": ((0,), {"biased": True}),
        }
        for form, (args, kwargs) in forms.items():
            yield Row(f"{name} {form}", call(name, *args, **kwargs), (M,), 2e-5)
        yield Row(f"{name} of equal elements", call(name, 1), (TIES,), 2e-5)
        yield Row(f"{name} of too few", call(name, 0, correction=3), (M,), gradient=False)
        yield Row(f"{name} of complex numbers", call(name, 0), (COMPLEX,), 2e-5)


@table(spread_rows())
def test_variances(row: Row) -> None:
    compare(row)


def norm_rows() -> Iterator[Row]:
    for p in (2, "fro", 1, 3, 1.5, 0.5, 0, INF, -INF, None):
        yield Row(f"norm {p}", both("norm", p), (M,), 2e-5)
        yield Row(f"norm {p} along 1", call("norm", p, 1, True), (M,), 2e-5)
        if p != -INF:
            yield Row(f"norm {p} of ties", call("norm", p, dim=1), (TIES,), 2e-5)
            yield Row(f"norm {p} of zeros", call("norm", p), (TIES[0, :3],), 2e-5)
    yield Row("norm", both("norm"), (A,), 2e-5)
    yield Row("norm -1", call("norm", -1, dim=1), (np.abs(M) + 0.1,), 2e-5)
    yield Row("norm nuc", call("norm", "nuc"), (M,), 2e-5, node=False)
    yield Row("norm nuc of a vector", call("norm", "nuc"), (M[0],))
    yield Row("norm abc", call("norm", "abc"), (M,))
    yield Row("norm of integers", call("norm"), (WHOLE,))
    yield Row("norm of complex numbers", call("norm"), (COMPLEX,), 2e-5)
    yield Row("norm 1 of complex numbers", call("norm", 1), (COMPLEX,), 2e-5)
    yield Row("norm of nothing", call("norm"), (EMPTY,))
    yield Row("norm inf of nothing", call("norm", INF), (EMPTY,))
    yield Row("norm dtype", lambda lib, x: lib.norm(x, dtype=lib.float64), (M,), 2e-5)
    yield Row("norm of halves", call("norm", 2, 0), (M.astype(np.float16),))


@table(norm_rows())
def test_norms(row: Row) -> None:
    compare(row)


def extremum_rows() -> Iterator[Row]:
    for name in ("max", "min", "median", "nanmedian"):
        yield Row(f"{name}", both(name), (M,))
        yield Row(f"{name} 1", both(name, 1), (M,))
        yield Row(f"{name} keepdim", call(name, -2, keepdim=True), (A,))
        yield Row(f"{name} of integers", both(name), (WHOLE,))
        yield Row(f"{name} of integers along 0", call(name, 0), (WHOLE,))
        yield Row(f"{name} of ties", both(name), (TIES,))
        yield Row(f"{name} of 0-d", both(name, 0), (SCALAR,))
        yield Row(f"{name} with NaN", call(name), (HOLED,), gradient=False)
        yield Row(
            f"{name} along with NaN",
            lambda lib, x, f=name: getattr(lib, f)(x, 1)[0],
            (HOLED,),
            gradient=False,
        )
        yield Row(f"{name} of nothing", call(name), (EMPTY,))
        yield Row(f"{name} of nothing along 0", call(name, 0), (EMPTY,))
        yield Row(f"{name} of nothing along 1", call(name, 1), (EMPTY,))
        yield Row(f"{name} of a dimension that is not there", call(name, 2), (M,))
        yield Row(f"{name} of complex numbers", call(name), (COMPLEX,))
    for name in ("max", "min"):
        yield Row(f"{name} of two", both(name, dim=1, keepdim=True), (M,))
        yield Row(f"{name} of tensors", call(name), (M, M[::-1].copy()))
        yield Row(f"{name} other", lambda lib, x, f=name: getattr(x, f)(other=x[0]), (M,))
        yield Row(f"{name} of a number", call(name, 1.5), (M,))
        yield Row(f"{name} of bools", call(name, 1), (FLAGS,))
        yield Row(f"{name} first of ties", call(name, 1), (TIES[:2, 2:],))
        yield Row(f"a{name} of ties", call(f"a{name}", 1), (TIES,))
        yield Row(f"a{name} of nothing", call(f"a{name}"), (EMPTY,))
        yield Row(f"arg{name}", both(f"arg{name}"), (M,))
        yield Row(f"arg{name} 1", both(f"arg{name}", 1), (M,))
        yield Row(f"arg{name} keepdim", call(f"arg{name}", None, True), (M,))
        yield Row(f"arg{name} dim keepdim", call(f"arg{name}", dim=0, keepdim=True), (M,))
        yield Row(f"arg{name} with NaN", call(f"arg{name}", 1), (HOLED,))
        yield Row(f"arg{name} of ties", call(f"arg{name}", 1), (TIES,))
        yield Row(f"arg{name} 0-d", call(f"arg{name}", 0), (SCALAR,))
        yield Row(f"arg{name} of bools", call(f"arg{name}"), (FLAGS,))
        yield Row(f"arg{name} of nothing", call(f"arg{name}"), (EMPTY,))
        yield Row(f"arg{name} of nothing along 1", call(f"arg{name}", 1), (EMPTY,))
    yield Row("aminmax", both("aminmax"), (TIES,))
    yield Row("aminmax dim", both("aminmax", dim=1, keepdim=True), (TIES,))
    yield Row("aminmax of nothing", call("aminmax"), (EMPTY,))
    yield Row("mode", both("mode"), (TIES,))
    yield Row("mode 0", call("mode", 0, True), (np.array([[3.0, 1], [1, 2], [3, 2]], np.float32),))
    yield Row("mode of integers", call("mode"), (np.array([[1, 2, 2, 1, 3], [3, 3, 3, 1, 1]]),))
    yield Row("mode 0-d", call("mode"), (SCALAR,))
    yield Row("mode of nothing", call("mode"), (EMPTY,))


@table(extremum_rows())
def test_extrema(row: Row) -> None:
    compare(row)


def cumulative_rows() -> Iterator[Row]:
    for name in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"):
        yield Row(f"{name}", both(name, 1), (M,), 2e-5)
        yield Row(f"{name} dim", call(name, dim=-2), (M,), 2e-5)
        yield Row(f"{name} of integers", call(name, 1), (WHOLE.astype(np.int32),))
        yield Row(f"{name} of bools", call(name, 1), (FLAGS,))
        yield Row(f"{name} of ties", call(name, 1), (TIES,), 2e-5)
        yield Row(f"{name} with NaN", call(name, 1), (HOLED,), 2e-5, gradient=False)
        yield Row(f"{name} 0-d", call(name, 0), (SCALAR,))
        yield Row(f"{name} of nothing", call(name, 0), (EMPTY,))
        yield Row(f"{name} of a dimension that is not there", call(name, 2), (M,))
        yield Row(f"{name} without dim", call(name), (M,))
    yield Row("cumsum of halves", call("cumsum", 0), (M.astype(np.float16),))
    yield Row("cumsum in place", lambda lib, x: (x * 1).cumsum_(0), (M,))
    infinite = np.array([-INF, -INF, 1, -INF, 2], np.float32)
    yield Row(
        "logcumsumexp from minus infinity",
        call("logcumsumexp", 0),
        (infinite,),
        2e-5,
        gradient=False,
    )


@table(cumulative_rows())
def test_running_sums(row: Row) -> None:
    compare(row)


def softmax_rows() -> Iterator[Row]:
    for name in ("softmax", "log_softmax"):
        yield Row(f"{name}", both(name, 1), (M,), 1e-5)
        yield Row(f"{name} of large numbers", call(name, 0), (M * 1e4,), 1e-5)
        yield Row(f"{name} dim", call(name, dim=-2), (A,), 1e-5)
        yield Row(f"{name} of halves", call(name, 1), (M.astype(np.float16),))
        yield Row(
            f"{name} as float64",
            lambda lib, x, f=name: getattr(lib, f)(x, 1, lib.float64),
            (M,),
            1e-6,
        )
        yield Row(f"{name} of integers", call(name, 1), (WHOLE,))
        yield Row(
            f"{name} of integers as float32",
            lambda lib, x, f=name: getattr(lib, f)(x, 1, dtype=lib.float32),
            (WHOLE,),
            1e-5,
        )
        yield Row(f"{name} 0-d", call(name, 0), (SCALAR,))
        yield Row(f"{name} of nothing", call(name, 0), (EMPTY,))
        yield Row(f"{name} of a dimension that is not there", call(name, 2), (M,))
        masked = np.where(M > 0, M, -INF).astype(np.float32)
        yield Row(f"{name} masked", call(name, 1), (masked[:2],), 1e-5, gradient=name == "softmax")
    yield Row(
        "logsumexp of minus infinity",
        call("logsumexp", 0),
        (np.full((2,), -INF, np.float32),),
        gradient=False,
    )
    yield Row(
        "logsumexp of infinity",
        call("logsumexp", 0),
        (np.array([INF, 1, -INF], np.float32),),
        gradient=False,
    )


@table(softmax_rows())
def test_softmax(row: Row) -> None:
    compare(row)


def sorting_rows() -> Iterator[Row]:
    yield Row("sort", both("sort"), (M,))
    yield Row("sort 0 descending", both("sort", 0, True), (M,))
    yield Row("sort stable", call("sort", stable=True, dim=1, descending=True), (TIES,), node=False)
    yield Row("sort with NaN", call("sort", stable=True), (HOLED,), gradient=False)
    yield Row(
        "sort with NaN descending",
        call("sort", stable=True, descending=True),
        (HOLED,),
        gradient=False,
    )
    yield Row("sort integers", call("sort"), (WHOLE,))
    yield Row("sort bools", call("sort", stable=True), (FLAGS,))
    yield Row("sort 0-d", call("sort"), (SCALAR,))
    yield Row("sort nothing", call("sort"), (EMPTY,))
    yield Row("sort complex numbers", call("sort"), (COMPLEX,))
    yield Row("sort a dimension that is not there", call("sort", 2), (M,))
    yield Row("argsort", both("argsort"), (M,))
    yield Row("argsort descending", both("argsort", 0, descending=True), (M,))
    yield Row("argsort stable", call("argsort", stable=True), (TIES,))
    yield Row("msort", both("msort"), (M,))
    for largest in (True, False):
        yield Row(f"topk {largest}", both("topk", 2, largest=largest), (M,))
        yield Row(f"topk 0 {largest}", call("topk", 2, 0, largest), (M,))
        yield Row(f"topk integers {largest}", call("topk", 3, largest=largest), (WHOLE,))
        yield Row(
            f"topk with NaN {largest}",
            lambda lib, x, k=largest: lib.topk(x, 2, largest=k)[0],
            (HOLED,),
            gradient=False,
        )
    yield Row("topk of none", call("topk", 0), (M,))
    yield Row("topk of too many", call("topk", 5), (M,))
    yield Row("topk 0-d", call("topk", 1), (SCALAR,))
    yield Row("kthvalue", both("kthvalue", 2), (M,))
    yield Row("kthvalue 0 keepdim", call("kthvalue", 3, 0, True), (M,))
    yield Row("kthvalue of too many", call("kthvalue", 5), (M,))
    yield Row("kthvalue 0", call("kthvalue", 0), (M,))
    borders = np.array([1, 3, 5], np.float32)
    values = np.array([[0, 1, 2], [3, 5, NAN]], np.float32)
    for right in (False, True):
        yield Row(f"searchsorted {right}", call("searchsorted", right=right), (borders, values))
        yield Row(
            f"bucketize {right}",
            lambda lib, x, y, r=right: lib.bucketize(y, x, right=r),
            (borders, values),
        )
    yield Row("searchsorted rows", call("searchsorted"), (np.sort(M), M[:, :2].copy()))
    yield Row("searchsorted rows that differ", call("searchsorted"), (np.sort(M), M[:2, :2].copy()))
    yield Row("searchsorted of a number", call("searchsorted", 2.5), (borders,))
    yield Row("searchsorted of integers", call("searchsorted", 2.5), (np.array([1, 2, 3]),))
    yield Row(
        "searchsorted int32", call("searchsorted", 3, out_int32=True, side="right"), (borders,)
    )
    yield Row(
        "searchsorted left and right", call("searchsorted", 3, side="left", right=True), (borders,)
    )
    yield Row("searchsorted middle", call("searchsorted", 3, side="middle"), (borders,))
    yield Row(
        "searchsorted sorter",
        lambda lib, x, y, z: lib.searchsorted(x, y, sorter=z),
        (np.array([3, 1, 2]), np.array([2, 3]), np.array([1, 2, 0])),
    )
    yield Row(
        "searchsorted sorter that is short",
        lambda lib, x, y, z: lib.searchsorted(x, y, sorter=z),
        (np.array([3, 1, 2]), np.array([2, 3]), np.array([1, 2])),
    )
    yield Row("bucketize by rows", lambda lib, x: lib.bucketize(x, x), (M,))


@table(sorting_rows())
def test_sorting(row: Row) -> None:
    compare(row)


def counting_rows() -> Iterator[Row]:
    counts = {"return_inverse": True, "return_counts": True}
    integers = np.array([[3, 1], [3, 1], [1, 2]])
    for name in ("unique", "unique_consecutive"):
        yield Row(f"{name}", both(name), (integers,))
        yield Row(f"{name} counts", call(name, return_counts=True), (integers,))
        yield Row(f"{name} all", both(name, **counts), (integers,))
        yield Row(f"{name} along 0", call(name, dim=0, **counts), (integers,))
        yield Row(f"{name} along 1", call(name, dim=1, **counts), (integers,))
        yield Row(f"{name} with NaN", call(name, **counts), (HOLED,), gradient=False)
        yield Row(f"{name} bools", call(name), (FLAGS,))
        yield Row(f"{name} 0-d", call(name), (np.array(3),))
        yield Row(f"{name} of nothing", call(name, **counts), (np.zeros(0, np.int64),))
        yield Row(f"{name} of a dimension that is not there", call(name, dim=2), (integers,))
    some = np.array([1, 2, 1, 4])
    weights = np.array([0.5, 1, 2, 4], np.float32)
    yield Row("bincount", both("bincount", minlength=7), (some,))
    yield Row("bincount weights", call("bincount"), (some, weights), gradient=False)
    yield Row("bincount of integer weights", call("bincount"), (some, some))
    yield Row("bincount of weights that do not fit", call("bincount"), (some, weights[:2]))
    yield Row("bincount of nothing", call("bincount"), (some[:0],))
    yield Row("bincount of negative", call("bincount"), (-some,))
    yield Row("bincount of a matrix", call("bincount"), (integers,))
    yield Row("bincount of floats", call("bincount"), (weights,))
    yield Row("bincount of a negative length", call("bincount", minlength=-1), (some,))
    yield Row("histc", both("histc", 5), (M,), gradient=False)
    yield Row("histc range", call("histc", bins=4, min=-1, max=1), (A,), gradient=False)
    yield Row("histc of equal elements", call("histc", 2), (np.full(2, 2.0, np.float32),))
    yield Row("histc of integers", call("histc", 2), (some,))
    yield Row("histc of no bins", call("histc", 0), (M,))
    yield Row("histc of nothing", call("histc", 2), (EMPTY,), gradient=False)


@table(counting_rows())
def test_counting(row: Row) -> None:
    compare(row)


def quantile_rows() -> Iterator[Row]:
    parts = np.array([0.1, 0.5, 1], np.float32)
    for name in ("quantile", "nanquantile"):
        for interpolation in ("linear", "lower", "higher", "midpoint", "nearest", "cubic"):
            yield Row(
                f"{name} {interpolation}",
                call(name, 0.3, 1, interpolation=interpolation),
                (M,),
                1e-5,
                node=False,
            )
        row = Row(f"{name} of all", both(name, 0.4), (A,), 1e-5, node=False)
        yield row
        yield row._replace(name=f"{name} keepdim", compute=call(name, 0.4, keepdim=True))
        yield row._replace(name=f"{name} dim keepdim", compute=call(name, 0.4, 1, True))
        for dim in (None, 0, 2):
            yield Row(
                f"{name} several {dim}",
                lambda lib, x, q, f=name, d=dim: getattr(lib, f)(x, q.detach(), d),
                (A, parts),
                1e-5,
                node=False,
            )
        yield Row(
            f"{name} several keepdim",
            lambda lib, x, q, f=name: getattr(lib, f)(x, q.detach(), 1, keepdim=True),
            (A, parts),
            1e-5,
            node=False,
        )
        yield Row(f"{name} with NaN", call(name, 0.4, 1), (HOLED,), 1e-5, gradient=False)
        yield Row(f"{name} outside", call(name, 1.5), (M,))
        yield Row(f"{name} several outside", call(name), (M, parts * 2))
        yield Row(f"{name} of a matrix of parts", call(name), (M, np.abs(np.tanh(M))))
        yield Row(f"{name} of integers", call(name, 0.5), (WHOLE,))
        yield Row(f"{name} of nothing", call(name, 0.5), (EMPTY,))
        yield Row(f"{name} of dtypes", call(name), (M, np.array(0.5)))


@table(quantile_rows())
def test_quantiles(row: Row) -> None:
    compare(row)
