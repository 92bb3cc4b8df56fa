"""Activation functions of nn.functional against PyTorch, gradients at the kinks included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.conformance.operators import Row, compare, table

RANDOM = np.random.default_rng(0)
KINKS = np.array([-7, -6, -3, -1, -0.5, 0, 0.5, 1, 3, 6, 7, 25], np.float32)
STRANGE = np.array([np.nan, -0.0, np.inf, -np.inf], np.float32)
# At infinity PyTorch gives NaN for these two, which have a limit there.
LIMITED = ("gelu", "hardswish")
A = RANDOM.standard_normal((3, 4, 2)).astype(np.float32)
WHOLE = np.arange(6).reshape(2, 3)

ELEMENTWISE: dict[str, list[dict[str, Any]]] = {
    "relu": [{}],
    "relu6": [{}],
    "hardtanh": [{}, {"min_val": -0.5, "max_val": 3}, {"min_val": 2.0, "max_val": 1.0}],
    "leaky_relu": [{}, {"negative_slope": 0.3}],
    "elu": [{}, {"alpha": 0.3}],
    "selu": [{}],
    "celu": [{}, {"alpha": 0.3}, {"alpha": 0.0}],
    "gelu": [{}, {"approximate": "tanh"}, {"approximate": "sigmoid"}],
    "silu": [{}],
    "mish": [{}],
    "hardsigmoid": [{}],
    "hardswish": [{}],
    "softplus": [{}, {"beta": 2, "threshold": 3.0}],
    "softsign": [{}],
    "logsigmoid": [{}],
    "tanhshrink": [{}],
    "softshrink": [{}, {"lambd": 1.0}, {"lambd": -1.0}],
    "hardshrink": [{}, {"lambd": 1.0}],
    "threshold": [{"threshold": 0.5, "value": 3}],
    "sigmoid": [{}],
    "tanh": [{}],
}
IN_PLACE = (
    "relu", "relu6", "hardtanh", "leaky_relu", "elu", "selu", "celu", "silu", "mish",
    "hardsigmoid", "hardswish",
)  # fmt: skip
# PyTorch puts these together from several operators, or names the node after another function.
COMPOSITE = ("softsign", "tanhshrink", "relu6", "selu", "celu")


def call(name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    return lambda lib, *tensors: getattr(lib.nn.functional, name)(*tensors, *args, **kwargs)


def overwriting(name: str) -> Callable[..., Any]:
    """The function in place, on a tensor that is no leaf; the results show that it is the same."""

    def compute(lib: Any, x: Any) -> Any:
        y = x * 1
        z = getattr(lib.nn.functional, name)(y, inplace=True)
        assert z is y
        return z

    return compute


def rrelu_and_more(lib: Any, x: Any) -> Any:
    """Random slopes, and the numbers that the generator gives after them."""
    lib.manual_seed(3)
    return lib.nn.functional.rrelu(x, 0.1, 0.3, training=True), lib.rand(3)


def elementwise_rows() -> Iterator[Row]:
    for name, every in ELEMENTWISE.items():
        node = name not in COMPOSITE
        for options in every:
            yield Row(f"{name} {options}", call(name, **options), (KINKS,), 1e-5, node=node)
        first = every[0]
        strange = STRANGE[:2] if name in LIMITED else STRANGE
        yield Row(f"{name} of nan", call(name, **first), (strange,), 1e-5, node=False)
        yield Row(f"{name} of integers", call(name, **first), (WHOLE,), node=False)
        # PyTorch's hardsigmoid has a constant in single precision.
        exact = 1e-7 if name == "hardsigmoid" else 1e-11
        doubles = KINKS.astype(np.float64)
        yield Row(f"{name} float64", call(name, **first), (doubles,), exact, node=node)
    for name in IN_PLACE:
        yield Row(f"{name} in place", overwriting(name), (KINKS,), 1e-5, node=False)


def other_rows() -> Iterator[Row]:
    slopes = RANDOM.standard_normal(4).astype(np.float32)
    yield Row("prelu", call("prelu"), (A, slopes))
    yield Row("prelu of one slope", call("prelu"), (A, slopes[:1]))
    yield Row("prelu of a 0-d slope", call("prelu"), (A, slopes[0]))
    yield Row("prelu of a vector", call("prelu"), (KINKS, slopes[:1]))
    yield Row("prelu of other channels", call("prelu"), (A, slopes[:3]))
    yield Row("prelu of a matrix", call("prelu"), (A, slopes.reshape(2, 2)))
    for dim in (-1, 1, 0, 3):
        yield Row(f"glu {dim}", call("glu", dim), (A,))
    yield Row("rrelu outside training", call("rrelu"), (KINKS,), node=False)
    for dtype in (np.float32, np.float64):
        # Infinities and NaN among them; numbers are drawn for what is not positive only.
        for size, elements in (("few", STRANGE), ("many", np.tile(KINKS.reshape(-1), 9))):
            name = f"rrelu in training of {size} {dtype.__name__}"
            yield Row(name, rrelu_and_more, (elements.astype(dtype),), 1e-7)
    yield Row("rrelu of wrong bounds", call("rrelu", 0.5, 0.1), (KINKS,))
    for low, high in ((0.1, np.inf), (np.nan, 0.1), (-np.inf, 0.1)):
        yield Row(f"rrelu from {low} to {high}", call("rrelu", low, high), (KINKS,))
    for bound in (np.inf, np.nan, -1.0):
        yield Row(f"softshrink {bound}", call("softshrink", bound), (KINKS,))
    yield Row("hardtanh of bytes", call("hardtanh"), (np.arange(4, dtype=np.uint8),))
    ends = np.array([[np.inf, -np.inf, np.nan, 1.0], [2.0, -2.0, np.inf, -1.0]], np.float32)
    yield Row("prelu of infinities", call("prelu"), (ends, slopes), 1e-5)
    steep = np.array([np.inf, np.nan, -np.inf, 0.5], np.float32)
    yield Row("prelu of infinite slopes", call("prelu"), (np.ones((2, 4), np.float32), steep))


def softmax_rows() -> Iterator[Row]:
    for name in ("softmax", "log_softmax", "softmin"):
        for dim in (0, -1, 3):
            yield Row(f"{name} {dim}", call(name, dim), (A,), 1e-5)
        yield Row(f"{name} without dim", call(name), (A[0],), 1e-5)
        yield Row(f"{name} of integers", call(name, 0), (WHOLE,))
        yield Row(
            f"{name} to float64",
            lambda lib, x, name=name: getattr(lib.nn.functional, name)(x, 1, dtype=lib.float64),
            (A,),
            1e-6,
            node=False,
        )


def random_rows() -> Iterator[Row]:
    def seeded(name: str, *args: Any) -> Callable[..., Any]:
        def compute(lib: Any, *tensors: Any) -> Any:
            lib.manual_seed(3)
            return getattr(lib.nn.functional, name)(*tensors, *args)

        return compute

    yield Row("gumbel_softmax of a number", seeded("gumbel_softmax"), (A[0, 0, 0],), node=False)
    for hard in (False, True, None, 1):
        row = seeded("gumbel_softmax", 0.7, hard)
        yield Row(f"gumbel_softmax hard={hard}", row, (A[:, :, 0],), 1e-4, node=False)
    yield Row("gumbel_softmax beyond", seeded("gumbel_softmax", 0.7, True, 1e-10, 3), (A,))
    whole = np.arange(6).reshape(2, 3)
    for name in ("dropout", "alpha_dropout"):
        yield Row(f"{name} of integers", call(name, 0.5, True), (whole,))
    for name in ("relu6", "hardtanh", "tanhshrink", "relu"):
        yield Row(f"{name} of bools", call(name), (whole > 2,))
    for name in ("gelu", "glu"):
        yield Row(f"{name} of integers", call(name), (whole.T.copy(),))
    yield Row("gelu of complexes", call("gelu"), (whole * 1j,), gradient=False)
    for name in ("dropout", "alpha_dropout", "feature_alpha_dropout"):
        for p in (0.3, 0.0, 1.0, 1.5):
            yield Row(f"{name} {p}", seeded(name, p, True), (A,), node=False)
        yield Row(f"{name} outside training", seeded(name, 0.3, False), (A,), node=False)
    for name, ranks in (("dropout1d", (2, 3, 4)), ("dropout2d", (3, 4)), ("dropout3d", (4, 5))):
        for rank in ranks:
            shape = (3, 4, 2, 1, 1)[:rank]
            yield Row(f"{name} of {rank}-d", seeded(name, 0.4), (np.ones(shape),), node=False)


@table(elementwise_rows())
def test_elementwise(row: Row) -> None:
    compare(row)


@table(other_rows())
def test_gates_and_slopes(row: Row) -> None:
    compare(row)


@table(softmax_rows())
def test_softmax(row: Row) -> None:
    compare(row)


@table(random_rows())
def test_random_after_the_same_seed(row: Row) -> None:
    compare(row)
