"""Choices, loops and segments give what PyTorch's give."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from tests.conformance.operators import Row, compare, table

RANDOM = np.random.default_rng(0)
A = RANDOM.standard_normal((3, 2))
# Without equal extremes, of which PyTorch shares positive gradients only.
ROWS = np.array([[1.0, 2.0], [0.0, 6.0], [4.0, 5.0], [3.0, 0.0]])
SQUARE = RANDOM.standard_normal((9, 9))
SYMMETRIC = SQUARE @ SQUARE.T


@pytest.fixture(autouse=True)
def validation():
    """PyTorch's loops by values turn the validation of distributions off for the whole process."""
    of_all = import_module("torch").distributions.Distribution
    before = of_all._validate_args
    yield
    of_all.set_default_validate_args(before)


def of_higher_order(lib: Any, name: str) -> Any:
    home = "torch._higher_order_ops" if lib.__name__ == "torch" else "flambeau.func.control_flow"
    return getattr(import_module(home), name)


def choices() -> Iterator[Row]:
    for sign in (1.0, -1.0):

        def choose(lib: Any, x: Any, sign: float = sign) -> Any:
            pred = (x.sum() * 0 + sign) > 0
            return lib.cond(pred, lambda x: x.sin(), lambda x: x * x, (x,))

        yield Row(f"cond by a tensor, {sign}", choose, (A,), node=False)
        yield Row(
            f"cond by a bool, {sign}",
            lambda lib, x, sign=sign: lib.cond(sign > 0, lib.sin, lib.exp, (x,)),
            (A,),
            node=False,
        )
    yield Row("cond with a wrong condition", lambda lib, x: lib.cond(x, abs, abs, (x,)), (A,))
    yield Row("cond without functions", lambda lib, x: lib.cond(x[0, 0] > 0, 1, 2, (x,)), (A,))


def loops() -> Iterator[Row]:
    def loop(lib: Any, x: Any) -> Any:
        return of_higher_order(lib, "while_loop")(
            lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (lib.zeros((), dtype=lib.int64), x)
        )

    yield Row("while_loop", loop, (A,), gradient=False, node=False)
    for reverse in (False, True):

        def scan(lib: Any, x: Any, xs: Any, reverse: bool = reverse) -> Any:
            return of_higher_order(lib, "scan")(
                lambda carry, x: (carry * x, carry + x), x, xs, dim=1, reverse=reverse
            )

        yield Row(f"scan, reversed: {reverse}", scan, (A[:, 0], A), gradient=False, node=False)
    yield Row(
        "map",
        lambda lib, xs, factor: of_higher_order(lib, "map")(lambda x, f: x * f, xs, factor),
        (A, A[0]),
        gradient=False,
        node=False,
    )


def segments() -> Iterator[Row]:
    for reduce in ("sum", "mean", "max", "min", "prod"):
        for initial in (None, 3.0):

            def by_lengths(
                lib: Any, x: Any, reduce: str = reduce, initial: float | None = initial
            ) -> Any:
                # The second segment is empty.
                lengths = lib.tensor([1, 0, 3])
                found = lib.segment_reduce(x, reduce, lengths=lengths, initial=initial)
                return found[[0, 2]], found.detach()[1]

            yield Row(f"{reduce}, initial {initial}", by_lengths, (ROWS,), node=False)
    calls: dict[str, dict[str, Any]] = {
        "offsets": {"offsets": [1, 1, 4]}, "rows": {"lengths": [[1, 1]] * 4, "axis": 1},
        "too short": {"lengths": [1, 1]}, "unsafe": {"lengths": [1, 1], "unsafe": True},
        "negative": {"lengths": [-1, 5]}, "nothing": {}, "floats": {"lengths": [1.0, 3.0]},
        "another axis": {"lengths": [1, 3], "axis": 1},
    }  # fmt: skip
    for name, arguments in calls.items():

        def call(lib: Any, x: Any, arguments: dict[str, Any] = arguments) -> Any:
            made = {
                key: lib.tensor(each) if isinstance(each, list) else each
                for key, each in arguments.items()
            }
            return lib.segment_reduce(x, "sum", **made)

        yield Row(name, call, (ROWS,), node=False)
    yield Row(
        "integers",
        lambda lib, x: lib.segment_reduce(x.long(), "sum", lengths=lib.tensor([4])),
        (ROWS,),
    )


def pairs() -> Iterator[Row]:
    for largest in (True, False):

        def values(lib: Any, x: Any, largest: bool = largest) -> Any:
            options = {"niter": 3000, "tol": 1e-12} if lib.__name__ == "torch" else {}
            found, vectors = lib.lobpcg(x, k=2, largest=largest, **options)
            return found, vectors.detach().abs()

        yield Row(f"lobpcg, largest: {largest}", values, (SYMMETRIC,), 1e-6, node=False)
    yield Row("lobpcg of a small matrix", lambda lib, x: lib.lobpcg(x[:4, :4], k=2), (SYMMETRIC,))


@table(choices())
def test_choices(row: Row) -> None:
    compare(row)


@pytest.mark.filterwarnings("ignore")
@table(loops())
def test_loops(row: Row) -> None:
    compare(row)


@table(segments())
def test_segments(row: Row) -> None:
    compare(row)


@table(pairs())
def test_few_eigenpairs(row: Row) -> None:
    compare(row)
