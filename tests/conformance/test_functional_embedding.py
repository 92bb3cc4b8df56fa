"""Tables indexed by integers, and sequences, in nn.functional against PyTorch."""

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


INDEX = RANDOM.integers(0, 6, (3, 4))
FLAT = RANDOM.integers(0, 6, 10)
OFFSETS = np.array([0, 3, 3, 7])
WEIGHT = random(6, 4)


def renormalized(name: str) -> Callable[..., Any]:
    """The result, and the weight that was scaled down in place."""

    def compute(lib: Any, index: Any, weight: Any, *rest: Any) -> Any:
        weight = weight.detach().clone()
        return getattr(lib.nn.functional, name)(index, weight, *rest, max_norm=1.0), weight

    return compute


def embedding_rows() -> Iterator[Row]:
    for options in ({}, {"padding_idx": 2}, {"padding_idx": -2}, {"scale_grad_by_freq": True}):
        yield Row(f"embedding {options}", call("embedding", **options), (INDEX, WEIGHT))
    yield Row("embedding of int32", call("embedding"), (INDEX.astype(np.int32), WEIGHT))
    yield Row("embedding renormalized", renormalized("embedding"), (INDEX, WEIGHT), gradient=False)
    yield Row("embedding beyond", call("embedding"), (INDEX + 1, WEIGHT))
    yield Row("embedding of negative", call("embedding"), (INDEX - 1, WEIGHT))
    yield Row("embedding of floats", call("embedding"), (random(2), WEIGHT))
    yield Row("embedding of bytes", call("embedding"), (INDEX.astype(np.uint8), WEIGHT))
    yield Row("embedding of shorts", call("embedding"), (INDEX.astype(np.int16), WEIGHT))
    yield Row("embedding of nothing", call("embedding"), (INDEX[:0], WEIGHT))
    yield Row("embedding of whole rows renormalized", renormalized("embedding"),
              (INDEX, WEIGHT.astype(np.int64)))  # fmt: skip
    yield Row(
        "embedding of a vector renormalized", renormalized("embedding"), (INDEX[:0], WEIGHT[0])
    )
    yield Row("one_hot", call("one_hot"), (INDEX,))
    yield Row("one_hot of seven", call("one_hot", 7), (INDEX,))
    yield Row("one_hot of too few", call("one_hot", 3), (INDEX,))
    yield Row("one_hot of negative", call("one_hot"), (INDEX - 1,))
    yield Row("one_hot of nothing", call("one_hot"), (INDEX[:0],))
    yield Row("one_hot of int32", call("one_hot"), (INDEX.astype(np.int32),))


def bag(**options: Any) -> Callable[..., Any]:
    def compute(lib: Any, index: Any, weight: Any, offsets: Any = None, each: Any = None) -> Any:
        given = {} if each is None else {"per_sample_weights": each}
        return lib.nn.functional.embedding_bag(index, weight, offsets, **given, **options)

    return compute


def bag_rows() -> Iterator[Row]:
    ends = np.array([0, 3, 3, 7, 10])
    for mode in ("sum", "mean", "max"):
        yield Row(f"rows {mode}", bag(mode=mode), (INDEX, WEIGHT), 1e-5, node=False)
        yield Row(f"bags {mode}", bag(mode=mode), (FLAT, WEIGHT, OFFSETS), 1e-5, node=False)
        row = bag(mode=mode, include_last_offset=True)
        yield Row(f"ends {mode}", row, (FLAT, WEIGHT, ends), 1e-5, node=False)
        row = bag(mode=mode, padding_idx=2)
        yield Row(f"padding {mode}", row, (FLAT, WEIGHT, OFFSETS), 1e-5, node=False)
        row = bag(mode=mode)
        yield Row(f"weighted {mode}", row, (FLAT, WEIGHT, OFFSETS, random(10)), 1e-5, node=False)
    yield Row("renormalized", renormalized("embedding_bag"), (FLAT, WEIGHT, OFFSETS), 1e-5, False,
              False)  # fmt: skip
    row = bag(mode="max", scale_grad_by_freq=True)
    yield Row("maxima by frequency", row, (INDEX, WEIGHT))
    yield Row("another mode", bag(mode="min"), (INDEX, WEIGHT))
    for mode in ("sum", "mean"):
        yield Row(f"too few weights {mode}", bag(mode=mode), (FLAT, WEIGHT, OFFSETS, random(2)))
    yield Row("bags of bytes", bag(), (FLAT.astype(np.uint8), WEIGHT, OFFSETS))
    for kind in (np.float64, np.float16, np.int64):
        row = (FLAT, WEIGHT, OFFSETS, random(10).astype(kind))
        yield Row(f"weighted by {kind.__name__}", bag(mode="sum"), row)
        if kind is not np.float64:
            row = (FLAT, (WEIGHT * 5).astype(kind), OFFSETS)
            yield Row(f"bags of {kind.__name__} rows", bag(), row, 2e-2, node=False)
    yield Row("bags of complex rows", bag(), (FLAT, WEIGHT * 1j, OFFSETS))
    yield Row("no bags", bag(), (INDEX[:0], WEIGHT), node=False)
    yield Row("bags without offsets", bag(), (FLAT, WEIGHT))
    yield Row("rows with offsets", bag(), (INDEX, WEIGHT, OFFSETS))
    yield Row("offsets from 1", bag(), (FLAT, WEIGHT, OFFSETS + 1))
    yield Row("offsets beyond", bag(), (FLAT, WEIGHT, OFFSETS * 2))


def alignment(*args: Any, normalized: bool = True, **options: Any) -> Callable[..., Any]:
    def compute(lib: Any, x: Any, targets: Any, *lengths: Any) -> Any:
        functional = lib.nn.functional
        x = functional.log_softmax(x, -1) if normalized else x
        return functional.ctc_loss(x, targets, *(lengths or args), **options)

    return compute


def ctc_rows() -> Iterator[Row]:
    x = random(9, 2, 5)
    targets = RANDOM.integers(0, 4, (2, 8)) + 1
    targets[0, :3] = [1, 1, 2]
    ends = (np.array([9, 8]), np.array([3, 4]))
    for reduction in ("mean", "sum", "none"):
        for zero in (False, True):
            row = alignment((9, 7), (4, 3), reduction=reduction, zero_infinity=zero)
            yield Row(f"{reduction} {zero}", row, (x, targets), 1e-4, node=False)
    too_long = alignment((4, 7), (5, 3), zero_infinity=True)
    yield Row("too long", too_long, (x, targets), 1e-4, node=False)
    empty = alignment((9, 7), (4, 0), normalized=False)
    yield Row("empty, of no log-softmax", empty, (x, targets), 1e-4, node=False)
    joined = alignment(reduction="none")
    yield Row("one after the other", joined, (x, targets.reshape(-1)[:7], *ends), 1e-4)
    row = alignment((9, 7), (5, 3), blank=4)
    yield Row("another blank", row, (x, targets - 1), 1e-4, node=False)
    for reduction in ("mean", "sum", "none"):
        row = alignment((9, 7), (0, 0), reduction=reduction)
        yield Row(f"no labels {reduction}", row, (x, targets[0, :0]), 1e-4, node=False)
        yield Row(f"no columns {reduction}", row, (x, targets[:, :0]), 1e-4, node=False)
    row = alignment((9,), (5,), reduction="none")
    yield Row("unbatched", row, (x[:, 0], targets[0, :5]), 1e-4, node=False)
    yield Row("unbatched, too many", row, (x[:, 0], targets[0]))
    yield Row("blank beyond", alignment((9, 7), (5, 3), blank=5), (x, targets))
    for kind in (np.float32, np.bool_):
        lengths = (np.array([9, 8]).astype(kind), np.array([3, 4]).astype(kind))
        yield Row(f"lengths of {kind.__name__}", alignment(), (x, targets, *lengths))
    yield Row("inputs beyond", alignment((10, 7), (5, 3)), (x, targets))
    yield Row("lengths of another batch", alignment((9,), (5, 3)), (x, targets))


@table(embedding_rows())
def test_embedding(row: Row) -> None:
    compare(row)


@table(bag_rows())
def test_bags(row: Row) -> None:
    compare(row)


@table(ctc_rows())
def test_alignments(row: Row) -> None:
    compare(row)
