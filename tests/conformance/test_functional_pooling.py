"""Pooling and its reverse of nn.functional against PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.conformance.operators import Row, compare, table

RANDOM = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def call(name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    return lambda lib, *tensors: getattr(lib.nn.functional, name)(*tensors, *args, **kwargs)


INPUTS = {1: random(2, 3, 9), 2: random(2, 3, 7, 6), 3: random(2, 3, 4, 5, 6)}
WHOLE = {n: np.arange(x.size).reshape(x.shape) % 7 for n, x in INPUTS.items()}

MAX: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    {"kernel_size": 2, "stride": 2, "padding": 1, "ceil_mode": True, "dilation": 2},
    {"kernel_size": 3, "padding": 2},
    {"kernel_size": 3, "stride": 0},
    {"kernel_size": 20},
]
AVERAGE: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False},
    {"kernel_size": 2, "padding": 2},
    {"kernel_size": 20},
]


def window_rows() -> Iterator[Row]:
    for n, x in INPUTS.items():
        for options in MAX:
            row = call(f"max_pool{n}d", **options)
            yield Row(f"max_pool{n}d {options}", row, (x,), node=n > 1)
            row = call(f"max_pool{n}d", return_indices=True, **options)
            yield Row(f"max_pool{n}d with indices {options}", row, (x,), node=False)
        ties = call(f"max_pool{n}d", 3, 1, 1)
        yield Row(f"max_pool{n}d of equals", ties, (np.round(x),), node=n > 1)
        large = call(f"max_pool{n}d", 4 if n == 3 else 7, 1, 2)
        yield Row(f"max_pool{n}d of large windows", large, (np.round(x),), node=False)
        large = call(f"max_pool{n}d", 4 if n == 3 else 7, 1, 2, return_indices=True)
        yield Row(f"max_pool{n}d of large windows with indices", large, (np.round(x),), node=False)
        yield Row(f"max_pool{n}d unbatched", call(f"max_pool{n}d", 2), (x[0],), node=False)
        yield Row(f"max_pool{n}d of a vector", call(f"max_pool{n}d", 2), (random(3),))
        for options in AVERAGE:
            row = call(f"avg_pool{n}d", **options)
            yield Row(f"avg_pool{n}d {options}", row, (x,), node=n > 1)
        low = np.where(x > -0.5, -np.inf, x)
        for lowest in (low, np.zeros(x.shape, np.uint8)):
            for size in (3, 4 if n == 3 else 7):
                row = call(f"max_pool{n}d", size, 2, 1, return_indices=True)
                yield Row(f"max_pool{n}d of {size} lowest {lowest.dtype}", row, (lowest,),
                          node=False)  # fmt: skip
        large = call(f"avg_pool{n}d", 4 if n == 3 else 7, 1, 2)
        yield Row(f"avg_pool{n}d of large windows", large, (x,), 1e-5, node=False)
        yield Row(f"avg_pool{n}d unbatched", call(f"avg_pool{n}d", 2), (x[0],), node=False)
        for p in (1, 2, 3.0):
            row = call(f"lp_pool{n}d", p, 2, ceil_mode=True)
            yield Row(f"lp_pool{n}d {p}", row, (np.abs(x) + 0.1,), 1e-3, node=False)
        for p in (np.inf, -np.inf):
            yield Row(f"lp_pool{n}d {p}", call(f"lp_pool{n}d", p, 2), (x,), node=False)
        yield Row(f"lp_pool{n}d of integers", call(f"lp_pool{n}d", 2.0, 2), (WHOLE[n],), 1e-5,
                  node=False)  # fmt: skip
        for p in (0, "a"):
            yield Row(f"lp_pool{n}d {p!r}", call(f"lp_pool{n}d", p, 2), (x[:, :1],))
    for name in ("max_pool2d", "adaptive_max_pool2d"):
        yield Row(f"{name} of complexes", call(name, 2), (INPUTS[2] * 1j,))
    for divisor in (5, 0):
        row = call("avg_pool2d", 3, 2, 1, divisor_override=divisor)
        yield Row(f"avg_pool2d divided by {divisor}", row, (INPUTS[2],))
    holes = INPUTS[2].copy()
    holes[0, 0, 2, 3] = np.nan
    yield Row("max_pool2d of nan", call("max_pool2d", 3, 2, return_indices=True), (holes,),
              gradient=False, node=False)  # fmt: skip


def adaptive_rows() -> Iterator[Row]:
    sizes: dict[int, list[Any]] = {
        1: [1, 4, 9, 12],
        2: [1, (5, 3), (None, 4), (7, 3), (2, 0)],
        3: [1, (3, 2, 4), (None, 2, None)],
    }
    for n, x in INPUTS.items():
        for size in sizes[n]:
            average = call(f"adaptive_avg_pool{n}d", size)
            empty = size == (2, 0)
            yield Row(f"adaptive_avg_pool{n}d {size}", average, (x,), 1e-5, not empty, False)
            if empty:
                continue
            greatest = call(f"adaptive_max_pool{n}d", size, return_indices=True)
            yield Row(f"adaptive_max_pool{n}d {size}", greatest, (x,), node=False)
        yield Row(f"adaptive_avg_pool{n}d unbatched", call(f"adaptive_avg_pool{n}d", 2), (x[0],),
                  node=False)  # fmt: skip
        for kind in ("avg", "max"):
            row = call(f"adaptive_{kind}_pool{n}d", 2)
            yield Row(f"adaptive_{kind}_pool{n}d of no batch", row, (x[:0],), node=False)
            row = call(f"adaptive_{kind}_pool{n}d", (2,) * n)
            yield Row(f"adaptive_{kind}_pool{n}d of too few", row, (x[0, 0],))
        holes = x.copy()
        holes.reshape(-1)[[3, 40]] = np.inf, np.nan
        row = call(f"adaptive_avg_pool{n}d", 4)
        yield Row(f"adaptive_avg_pool{n}d of nan", row, (holes,), 1e-5, node=False)
        if n < 3:
            row = call(f"adaptive_avg_pool{n}d", 2)
            yield Row(f"adaptive_avg_pool{n}d of no channels", row, (x[:, :0],), gradient=False)
        row = call(f"adaptive_max_pool{n}d", 2)
        yield Row(f"adaptive_max_pool{n}d of no channels", row, (x[:, :0],))
        yield Row(f"adaptive_avg_pool{n}d of a vector", call(f"adaptive_avg_pool{n}d", 2),
                  (random(3),))  # fmt: skip


def unpooled(n: int, *window: Any, **options: Any) -> Callable[..., Any]:
    def compute(lib: Any, x: Any) -> Any:
        functional = lib.nn.functional
        pooled = getattr(functional, f"max_pool{n}d")(x, *window, return_indices=True)
        return getattr(functional, f"max_unpool{n}d")(*pooled, *window, **options)

    return compute


def unpooling_rows() -> Iterator[Row]:
    for n, x in INPUTS.items():
        size = x.shape[2:]
        yield Row(f"max_unpool{n}d", unpooled(n, 2, output_size=size), (x,), node=False)
        shared = unpooled(n, 3, 2, 1, output_size=x.shape)
        yield Row(f"max_unpool{n}d of no batch", unpooled(n, 2), (x[:0],), node=False)
        yield Row(f"max_unpool{n}d of shared maxima", shared, (x,), node=False)
        ends = x.copy()
        ends.reshape(-1)[[3, 40]] = np.inf, -np.inf
        row = unpooled(n, 2, output_size=size)
        yield Row(f"max_unpool{n}d of infinities", row, (ends,), node=False)
        row = unpooled(n, 2, output_size=(*size, size[-1]))
        yield Row(f"max_unpool{n}d to too many sizes", row, (x,))
        wrong = unpooled(n, 2, output_size=(50,) * n)
        yield Row(f"max_unpool{n}d to a wrong size", wrong, (x,))
    yield Row("max_unpool1d to the usual size", unpooled(1, 3), (INPUTS[1],), node=False)


def seeded(compute: Callable[..., Any]) -> Callable[..., Any]:
    def with_seed(lib: Any, *tensors: Any) -> Any:
        lib.manual_seed(3)
        return compute(lib, *tensors)

    return with_seed


def at_places(name: str, *args: Any) -> Callable[..., Any]:
    def compute(lib: Any, x: Any, places: Any) -> Any:
        pool = getattr(lib.nn.functional, name)
        return pool(x, *args, return_indices=True, _random_samples=places.detach())

    return compute


def fractional_rows() -> Iterator[Row]:
    for n in (2, 3):
        name, x = f"fractional_max_pool{n}d", INPUTS[n]
        size = (2, 3, 3)[-n:]
        row = seeded(call(name, 2, size, return_indices=True))
        yield Row(f"{name} {size}", row, (x,), node=False)
        row = seeded(call(name, 2, output_ratio=(0.5,) * n))
        yield Row(f"{name} by ratio", row, (x,), node=False)
        yield Row(f"{name} unbatched", seeded(call(name, 2, 1)), (x[0],), node=False)
        yield Row(f"{name} too large", seeded(call(name, 2, 7)), (x,))
        yield Row(f"{name} of no size", seeded(call(name, 2)), (x,))
        yield Row(f"{name} of no batch", seeded(call(name, 2, 2)), (x[:0],), node=False)
    inputs = {2: random(2, 3, 9, 8), 3: random(2, 3, 7, 8, 9)}
    for n, x in inputs.items():
        name, kernel, size = f"fractional_max_pool{n}d", (2, 3, 2)[:n], (3, 4, 5)[:n]
        places = RANDOM.uniform(size=(3, 3, n)).astype(np.float32)
        for count in (1, 2, 3):
            row = at_places(name, kernel, size)
            yield Row(f"{name} at {count} places", row, (x, places[:count]), node=False)
        row = at_places(name, kernel, size)
        yield Row(f"{name} at places unbatched", row, (x[0], places), node=False)
        yield Row(f"{name} at places of others", row, (x, places[:, :2]))
        yield Row(f"{name} at places of another dtype", row, (x.astype(float), places))


@table(window_rows())
def test_windows(row: Row) -> None:
    compare(row)


@table(adaptive_rows())
def test_adaptive(row: Row) -> None:
    compare(row)


@table(unpooling_rows())
def test_unpooling(row: Row) -> None:
    compare(row)


@table(fractional_rows())
def test_fractional(row: Row) -> None:
    compare(row)
