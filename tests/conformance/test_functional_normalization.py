"""Normalization of nn.functional against PyTorch, running statistics included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from tests.conformance.operators import Row, compare, table

RANDOM = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def call(name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    return lambda lib, *tensors: getattr(lib.nn.functional, name)(*tensors, *args, **kwargs)


X, W, B = random(2, 4, 3, 5), random(4), random(4)
MEAN, VAR = random(4), np.abs(random(4)) + 0.1


def batch_norm(*options: Any) -> Callable[..., Any]:
    """The output, and the running statistics afterwards."""

    def compute(lib: Any, x: Any, mean: Any, var: Any, *parameters: Any) -> Any:
        mean, var = mean.detach().clone(), var.detach().clone()
        output = lib.nn.functional.batch_norm(x, mean, var, *parameters, *options)
        return output, mean, var

    return compute


def instance_norm(*options: Any) -> Callable[..., Any]:
    def compute(lib: Any, x: Any, mean: Any, var: Any, *parameters: Any) -> Any:
        mean, var = mean.detach().clone(), var.detach().clone()
        output = lib.nn.functional.instance_norm(x, mean, var, *parameters, *options)
        return output, mean, var

    return compute


def channel_rows() -> Iterator[Row]:
    for training in (True, False):
        for momentum in (0.1, 0.7):
            row = batch_norm(training, momentum, 1e-3)
            inputs = (X, MEAN, VAR, W, B)
            yield Row(f"batch_norm {training} {momentum}", row, inputs, 2e-5)
        plain = batch_norm(None, None, training)
        yield Row(f"batch_norm plain {training}", plain, (X, MEAN, VAR), 2e-5)
        row = batch_norm(training)
        yield Row(f"batch_norm (N, C) {training}", row, (X[:, :, 0, 0], MEAN, VAR, W, B), 1e-4)
        row = instance_norm(training)
        yield Row(f"instance_norm {training}", row, (X, MEAN, VAR, W, B), 2e-5, node=False)
    yield Row("batch_norm of one value", batch_norm(True), (X[:1, :, 0, 0], MEAN, VAR, W, B))
    yield Row("batch_norm of other channels", batch_norm(True), (X, MEAN[:3], VAR[:3], W, B))
    yield Row("batch_norm of another weight", batch_norm(True), (X, MEAN, VAR, W[:3], B))
    without = call("batch_norm", None, None, training=True)
    yield Row("batch_norm without statistics", without, (X,), 2e-5)
    yield Row("batch_norm with neither", call("batch_norm", None, None), (X,))
    half = (X.astype(ml_dtypes.bfloat16), MEAN, VAR)
    row = batch_norm(None, None, True)
    yield Row("batch_norm of bfloat16", row, half, gradient=False, node=False)
    for training in (True, False):
        for eps in (0.0, -1.0):
            row = lambda lib, x, m, v, t=training, e=eps: lib.nn.functional.batch_norm(  # noqa: E731
                x, m.detach(), v.detach(), training=t, eps=e
            )
            yield Row(f"batch_norm {training} of eps {eps}", row, (X, MEAN, VAR), 2e-5)
    yield Row("instance_norm without statistics", call("instance_norm"), (X,), 2e-5, node=False)
    yield Row("instance_norm of one value", call("instance_norm"), (X[:, :, :1, :1],))


def feature_rows() -> Iterator[Row]:
    w, b = random(3, 5), random(3, 5)
    for shape in ((5,), (3, 5), [5]):
        size = len(shape)
        inputs = (X, w if size == 2 else w[0], b if size == 2 else b[0])
        row = lambda lib, x, w, b, s=shape: lib.nn.functional.layer_norm(x, s, w, b)  # noqa: E731
        yield Row(f"layer_norm {shape!r}", row, inputs, 2e-5)
        row = lambda lib, x, w, s=shape: lib.nn.functional.rms_norm(x, s, w)  # noqa: E731
        yield Row(f"rms_norm {shape!r}", row, inputs[:2], 2e-5, node=False)
    for kind in (np.float64, ml_dtypes.bfloat16):
        row = lambda lib, x, w: lib.nn.functional.layer_norm(x, (5,), w)  # noqa: E731
        yield Row(f"layer_norm of {kind.__name__}, weight of float32", row, (X.astype(kind), w[0]),
                  2e-2, node=False)  # fmt: skip
        yield Row(f"layer_norm of float32, weight of {kind.__name__}", row, (X, w[0].astype(kind)))
        row = lambda lib, x, w: lib.nn.functional.group_norm(x, 2, w)  # noqa: E731
        yield Row(f"group_norm of {kind.__name__}, weight of float32", row, (X.astype(kind), W),
                  2e-2, node=False)  # fmt: skip
        row = batch_norm(True)
        given = (X.astype(kind), MEAN, VAR, W, B)
        yield Row(f"batch_norm of {kind.__name__}, weight of float32", row, given, 5e-2, node=False)
    complexes = X + 1j * X[::-1]
    yield Row("rms_norm of complexes", call("rms_norm", (5,)), (complexes,), 2e-5, node=False)
    yield Row("layer_norm plain", call("layer_norm", (5,), eps=0.1), (X,), 2e-5)
    yield Row("rms_norm plain", call("rms_norm", (5,), eps=0.1), (X,), 2e-5, node=False)
    yield Row("layer_norm of another size", call("layer_norm", (4,)), (X,))
    yield Row("layer_norm of no dimension", call("layer_norm", ()), (X,))
    another = lambda lib, x, w: lib.nn.functional.layer_norm(x, (5,), w)  # noqa: E731
    yield Row("layer_norm of another weight", another, (X, W))
    yield Row("layer_norm of integers", call("layer_norm", (2,)), (np.ones((3, 2), np.int64),))
    half = X.astype(ml_dtypes.bfloat16)
    yield Row("layer_norm of bfloat16", call("layer_norm", (5,)), (half,), node=False)
    for groups in (1, 2, 4):
        row = lambda lib, x, w, b, g=groups: lib.nn.functional.group_norm(x, g, w, b)  # noqa: E731
        yield Row(f"group_norm {groups}", row, (X, W, B), 2e-5)
    yield Row("group_norm plain", call("group_norm", 2), (X,), 2e-5)
    yield Row("group_norm of odd groups", call("group_norm", 3), (X,))
    yield Row("group_norm of a vector", call("group_norm", 3), (W,))
    yield Row("group_norm of one value", call("group_norm", 4), (X[:1, :, 0, 0],))
    yield Row("group_norm of no batch", call("group_norm", 2), (X[:0],), node=False)
    yield Row("rms_norm of fewer dimensions", call("rms_norm", (3, 5)), (X[0, 0, 0],))
    yield Row("layer_norm of fewer dimensions", call("layer_norm", (3, 5)), (X[0, 0, 0],))


def other_rows() -> Iterator[Row]:
    for size in (1, 2, 3, 5):
        row = call("local_response_norm", size, alpha=0.1, k=2.0)
        yield Row(f"local_response_norm {size}", row, (X,), 2e-5, node=False)
    yield Row("local_response_norm 3-d", call("local_response_norm", 2), (X[0],), node=False)
    yield Row("local_response_norm 2-d", call("local_response_norm", 2), (X[0, 0],))
    for p in (1.0, 2.0, 3.0, float("inf")):
        yield Row(f"normalize {p}", call("normalize", p, -1), (X,), 2e-5, node=False)
    yield Row("normalize of two", call("normalize", 2.0, (1, 3)), (X,), 2e-5, node=False)
    whole = np.arange(12).reshape(1, 4, 3)

    def by_complexes(lib: Any, x: Any, weight: Any) -> Any:
        return lib.nn.functional.rms_norm(x, (3,), weight.detach())

    inputs = (random(4, 3), (random(3) + 1j).astype(np.complex64))
    yield Row("rms_norm weighted by complexes", by_complexes, inputs, 1e-5, node=False)
    yield Row("normalize of integers", call("normalize"), (whole,))
    yield Row("normalize of zeros", call("normalize"), (X * 0,), node=False)
    yield Row("normalize beyond", call("normalize", dim=4), (X,))


@table(channel_rows())
def test_over_channels(row: Row) -> None:
    compare(row)


@table(feature_rows())
def test_over_features(row: Row) -> None:
    compare(row)


@table(other_rows())
def test_others(row: Row) -> None:
    compare(row)
