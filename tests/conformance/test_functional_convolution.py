"""Convolutions and products of nn.functional against PyTorch."""

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


INPUTS = {1: random(2, 4, 9), 2: random(2, 4, 6, 7), 3: random(2, 4, 4, 5, 6)}
WEIGHTS = {1: random(6, 2, 3), 2: random(6, 2, 3, 2), 3: random(6, 2, 2, 1, 2)}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"stride": 2, "padding": 1},
    {"padding": "same", "dilation": 2},
    {"padding": "valid"},
    {"padding": "full"},
    {"padding": "same", "stride": 2},
    {"padding": -1},
    {"stride": 0},
    {"dilation": 9},
]
TRANSPOSED: list[dict[str, Any]] = [
    {},
    {"stride": 3, "padding": 1, "output_padding": 2, "dilation": 2},
    {"stride": 1, "output_padding": 1},
    {"padding": 9},
    {"stride": 2, "padding": 1},
]


def convolution_rows() -> Iterator[Row]:
    for n in (1, 2, 3):
        x, w, b = INPUTS[n], WEIGHTS[n], random(6)
        for options in OPTIONS:
            row = call(f"conv{n}d", groups=2, **options)
            yield Row(f"conv{n}d {options}", row, (x, w, b), 2e-4)
        yield Row(f"conv{n}d unbatched", call(f"conv{n}d", groups=2), (x[0], w), 2e-4, node=False)
        yield Row(f"conv{n}d ungrouped", call(f"conv{n}d"), (x[:, :2], w, b), 2e-4)
        yield Row(f"conv{n}d other channels", call(f"conv{n}d"), (x, w, b))
        yield Row(f"conv{n}d other bias", call(f"conv{n}d", groups=2), (x, w, b[:5]))
        yield Row(f"conv{n}d odd groups", call(f"conv{n}d", groups=4), (x, w, b))
        yield Row(f"conv{n}d other dtype", call(f"conv{n}d", groups=2), (x.astype(float), w, b))
        yield Row(f"conv{n}d to no channels", call(f"conv{n}d", groups=2), (x, w[:0], b[:0]))
        yield Row(f"conv{n}d of a half", call(f"conv{n}d", padding=(0.5,) * n), (x[:, :2], w))
        yield Row(f"conv{n}d of a vector", call(f"conv{n}d"), (random(4), w, b))
        for options in TRANSPOSED:
            row = call(f"conv_transpose{n}d", groups=2, **options)
            yield Row(f"conv_transpose{n}d {options}", row, (x, w[:4], b[:4]), 2e-4)
        transposed = call(f"conv_transpose{n}d")
        yield Row(f"conv_transpose{n}d unbatched", transposed, (x[0], w[:4]), 2e-4, node=False)
        yield Row(f"conv_transpose{n}d other channels", transposed, (x[:, :3], w[:4]))
    pairs = call("conv2d", stride=(2, 1), padding=(1, 2), dilation=(1, 2))
    yield Row("conv2d of pairs", pairs, (INPUTS[2][:, :2], WEIGHTS[2]), 2e-4)
    yield Row(
        "conv2d of three strides",
        call("conv2d", stride=(1, 1, 1)),
        (random(1, 2, 5, 5), WEIGHTS[2]),
    )
    depthwise = call("conv2d", groups=4, padding=1)
    yield Row("conv2d depthwise", depthwise, (INPUTS[2], random(8, 1, 3, 3)), 2e-4)
    pointwise = random(3, 4, 1, 1)
    yield Row("conv2d pointwise", call("conv2d"), (INPUTS[2], pointwise, random(3)), 2e-4)
    yield Row("conv_tbc", call("conv_tbc", 1), (random(7, 2, 3), random(3, 3, 4), random(4)), 1e-4)


def product_rows() -> Iterator[Row]:
    w, b = random(3, 5), random(3)
    yield Row("linear", call("linear"), (random(4, 5), w, b))
    yield Row("linear without bias", call("linear"), (random(4, 5), w), node=False)
    yield Row("linear of 3-d", call("linear"), (random(2, 4, 5), w, b), node=False)
    yield Row("linear of a vector", call("linear"), (random(5), w, b), node=False)
    yield Row("linear of one output", call("linear"), (random(4, 5), w[0]), node=False)
    yield Row("linear of nothing", call("linear"), (random(0, 5), w, b))
    yield Row("linear of other features", call("linear"), (random(4, 6), w, b))
    yield Row("linear of another bias", call("linear"), (random(4, 5), w, random(4)))
    yield Row("linear of another dtype", call("linear"), (random(4, 5).astype(float), w, b))
    yield Row("linear of integers", call("linear"), (np.ones((2, 3), np.int64),) * 2, node=False)
    w = random(6, 3, 4)
    yield Row("bilinear", call("bilinear"), (random(2, 5, 3), random(2, 5, 4), w, random(6)), 1e-5,
              node=False)  # fmt: skip
    yield Row("bilinear of other features", call("bilinear"), (random(5, 4), random(5, 3), w))
    yield Row("bilinear of other batches", call("bilinear"), (random(5, 3), random(4, 4), w))


@table(convolution_rows())
def test_convolutions(row: Row) -> None:
    compare(row)


@table(product_rows())
def test_products(row: Row) -> None:
    compare(row)
