"""Losses and distances of nn.functional against PyTorch, in every reduction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.conformance.operators import Row, compare, table

RANDOM = np.random.default_rng(0)
REDUCTIONS = ("mean", "sum", "none")


def random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def shares(*shape: int) -> np.ndarray:
    return RANDOM.uniform(0.05, 0.95, shape).astype(np.float32)


def signs(*shape: int) -> np.ndarray:
    return (RANDOM.integers(0, 2, shape) * 2 - 1).astype(np.float32)


def call(name: str, *args: Any, constants: int = 0, **kwargs: Any) -> Callable[..., Any]:
    """The function; the last ``constants`` tensors take no gradient, and may go by name."""

    def compute(lib: Any, *tensors: Any) -> Any:
        count = len(tensors) - constants
        detached = [each.detach() for each in tensors[count:]]
        return getattr(lib.nn.functional, name)(*tensors[:count], *detached, *args, **kwargs)

    return compute


A, B, C = random(6, 5), random(6, 5), random(6, 5)
ROUNDED = np.round(A * 2) / 2
CLASSES = RANDOM.integers(0, 5, 6)
WEIGHT = shares(5)
EDGES = np.array([[0, 1, 0, 1, 0.5]], np.float32)


def with_weight(name: str, **options: Any) -> Callable[..., Any]:
    """A loss of input, target and a constant weight, given by name."""

    def compute(lib: Any, x: Any, target: Any, weight: Any) -> Any:
        function = getattr(lib.nn.functional, name)
        return function(x, target, weight=weight.detach(), **options)

    return compute


def class_rows() -> Iterator[Row]:
    deep, targets = random(6, 5, 3), RANDOM.integers(0, 5, (6, 3))
    likelihoods = np.log(shares(6, 5))
    for reduction in REDUCTIONS:
        options: dict[str, Any] = {"reduction": reduction}
        for name, x in (("cross_entropy", A), ("nll_loss", likelihoods)):
            plain = reduction != "none" and name == "nll_loss"
            yield Row(f"{name} {reduction}", call(name, **options), (x, CLASSES), 1e-5, node=plain)
            row = call(name, **options)
            yield Row(f"{name} of 3-d {reduction}", row, (deep, targets), 1e-5, node=False)
            row = with_weight(name, ignore_index=2, **options)
            yield Row(f"{name} weighted {reduction}", row, (x, CLASSES, WEIGHT), 1e-5, node=False)
            row = call(name, **options)
            yield Row(f"{name} of one {reduction}", row, (x[0], CLASSES[0]), 1e-5, node=False)
        row = with_weight("cross_entropy", label_smoothing=0.2, ignore_index=2, **options)
        inputs = (deep, targets, WEIGHT)
        yield Row(f"cross_entropy smoothed {reduction}", row, inputs, 1e-5, node=False)
        row = with_weight("cross_entropy", label_smoothing=0.1, **options)
        inputs = (deep, shares(6, 5, 3), WEIGHT)
        yield Row(f"cross_entropy of shares {reduction}", row, inputs, 1e-5, node=False)
    function = call("cross_entropy")
    for kind in ("int32", "int8", "uint8", "bool"):
        targets = (CLASSES > 0 if kind == "bool" else CLASSES).astype(kind)
        for name in ("cross_entropy", "nll_loss", "multi_margin_loss"):
            if (kind, name) != ("uint8", "multi_margin_loss"):
                yield Row(f"{name} of {kind} classes", call(name), (A, targets), 1e-5, node=False)
    yield Row("cross_entropy of other batches", function, (A, CLASSES[:4]))
    yield Row("cross_entropy of other shapes", function, (deep, CLASSES))
    yield Row("cross_entropy of a class beyond", function, (A, CLASSES + 4))
    yield Row("cross_entropy of a negative class", function, (A, CLASSES - 4))
    yield Row("cross_entropy of another weight", call("cross_entropy"), (A, CLASSES, random(4)))
    yield Row(
        "cross_entropy oversmoothed", call("cross_entropy", label_smoothing=2.0), (A, CLASSES)
    )
    yield Row("cross_entropy ignoring all", call("cross_entropy"), (A, CLASSES * 0 - 100),
              node=False)  # fmt: skip
    yield Row("cross_entropy by another reduction", call("cross_entropy", reduction="all"),
              (A, CLASSES))  # fmt: skip
    for name in ("cross_entropy", "nll_loss"):
        for kind in (np.float64, np.float16, np.int64):
            inputs = (A, CLASSES, (WEIGHT * 5).astype(kind))
            yield Row(f"{name} weighted by {kind.__name__}", with_weight(name), inputs)
    yield Row("nll_loss of a class beyond", call("nll_loss"), (A, CLASSES + 4))


def projected(**options: Any) -> Callable[..., Any]:
    """The cross-entropy of a linear map; ``chunk`` computes so many samples at a time."""

    def compute(lib: Any, x: Any, rows: Any, target: Any, bias: Any, weight: Any) -> Any:
        given = {**options}
        if "chunk" in given:
            given["options"] = lib.nn.LinearCrossEntropyOptions(
                batch_chunk_size=given.pop("chunk"), allow_retain_graph=True
            )
        return lib.nn.functional.linear_cross_entropy(
            x, rows, target, linear_bias=bias, weight=weight.detach(), **given
        )

    return compute


def projected_rows() -> Iterator[Row]:
    x, rows, bias = random(7, 4), random(5, 4), random(5)
    classes = RANDOM.integers(0, 5, 7)
    classes[2] = -100
    for reduction in REDUCTIONS:
        for options in ({}, {"chunk": 3}, {"label_smoothing": 0.2}):
            row = projected(reduction=reduction, **options)
            yield Row(
                f"{reduction} {options}", row, (x, rows, classes, bias, WEIGHT), 1e-5, node=False
            )
        row = projected(reduction=reduction, ignore_index=1, chunk=2)
        inputs = (x, rows, classes.clip(0), bias, WEIGHT)
        yield Row(f"{reduction} ignoring", row, inputs, 1e-5, node=False)
    deep = (x, random(5, 3, 4), RANDOM.integers(0, 5, (7, 3)), random(5, 3), WEIGHT)
    yield Row("several outputs", projected(), deep, 1e-5, node=False)
    single = (x[0], rows, classes[0], bias, WEIGHT)
    yield Row("one sample", projected(), single, 1e-5, node=False)
    yield Row("one sample in chunks", projected(chunk=3), single, 1e-5, node=False)
    yield Row("shares", projected(), (x, rows, shares(7, 5), bias, WEIGHT), 1e-5, node=False)
    yield Row("shares ignoring", projected(ignore_index=1), (x, rows, shares(7, 5), bias, WEIGHT))
    yield Row("other features", projected(), (x[:, :3], rows, classes, bias, WEIGHT))
    yield Row("other bias", projected(), (x, rows, classes, bias[:4], WEIGHT))
    inputs = (x, rows, classes, bias, WEIGHT.astype(np.float64))
    yield Row("another weight", projected(), inputs)
    yield Row("class beyond", projected(), (x, rows, classes + 105, bias, WEIGHT))


@table(projected_rows())
def test_projected_classes(row: Row) -> None:
    compare(row)


def probability_rows() -> Iterator[Row]:
    x = np.concatenate([shares(4, 5), EDGES])
    target = np.concatenate([shares(4, 5), EDGES[:, ::-1]])
    counts = shares(4, 5) * 3
    for reduction in REDUCTIONS:
        options: dict[str, Any] = {"reduction": reduction}
        row = with_weight("binary_cross_entropy", **options)
        yield Row(f"binary_cross_entropy {reduction}", row, (x, target, shares(5, 5)), 1e-4,
                  node=False)  # fmt: skip
        name = "binary_cross_entropy_with_logits"

        def positive(lib: Any, x: Any, t: Any, w: Any, o: Any = options, n: str = name) -> Any:
            return getattr(lib.nn.functional, n)(x, t, pos_weight=w.detach(), **o)

        yield Row(f"{name} {reduction}", positive, (A * 3, shares(6, 5), WEIGHT), 1e-5, node=False)
        row = with_weight(name, **options)
        yield Row(f"{name} weighted {reduction}", row, (A, shares(6, 5), WEIGHT), 1e-5, node=False)
        row = call("kl_div", **options)
        yield Row(f"kl_div {reduction}", row, (A, shares(6, 5)), 1e-5, node=False)
        row = call("kl_div", log_target=True, **options)
        yield Row(f"kl_div of logarithms {reduction}", row, (A, B), 1e-5, node=False)
        for log_input in (True, False):
            row = call("poisson_nll_loss", log_input, True, constants=1, **options)
            inputs = (shares(4, 5), counts)
            yield Row(f"poisson_nll_loss {log_input} {reduction}", row, inputs, 1e-4, node=False)
        row = call("gaussian_nll_loss", True, 0.1, **options)
        inputs = (A, B, shares(6, 1) ** 2)
        yield Row(f"gaussian_nll_loss {reduction}", row, inputs, 1e-5, node=False)
    batch = call("kl_div", reduction="batchmean")
    yield Row("kl_div batchmean", batch, (A, shares(6, 5)), 1e-5, node=False)
    gaussian = call("gaussian_nll_loss")
    yield Row("gaussian_nll_loss of fewer variances", gaussian, (A, B, shares(6)), 1e-5, node=False)
    planes = (random(2, 3, 4), random(2, 3, 4), shares(2, 1, 4))
    yield Row("gaussian_nll_loss of a variance of channels", gaussian, planes, 1e-5, node=False)
    wide = np.array([[np.inf, 1.0, 2.0]], np.float32)
    inputs = (random(1, 3), random(1, 3), wide)
    yield Row("gaussian_nll_loss of an infinite variance", gaussian, inputs, 1e-5, node=False)
    yield Row("gaussian_nll_loss of whole variances", gaussian, (A, B, CLASSES[:, None]))
    yield Row("gaussian_nll_loss of odd variances", gaussian, (A, B, shares(5)))
    yield Row("gaussian_nll_loss of a negative variance", gaussian, (A, B, -shares(6, 5)))
    x, target = shares(4, 5), shares(4, 5)
    for name in ("binary_cross_entropy", "binary_cross_entropy_with_logits"):
        for kind in (np.float64, np.float16, np.complex64):
            inputs = (x, target, shares(4, 5).astype(kind))
            yield Row(f"{name} weighted by {kind.__name__}", with_weight(name), inputs, 2e-3,
                      node=False)  # fmt: skip
        yield Row(f"{name} weighted by more", with_weight(name), (x, target, shares(1, 4, 5)))
        yield Row(f"{name} of complex targets", call(name), (x, target * 1j))
    logits = call("binary_cross_entropy_with_logits")
    inputs = (x.astype(float), target)
    yield Row("binary_cross_entropy_with_logits of float64", logits, inputs, 1e-5, node=False)
    for wrong in (np.nan, np.inf, 1.5, -0.1):
        inputs = (x, np.where(target > 0.5, wrong, target).astype(np.float32))
        yield Row(f"binary_cross_entropy to {wrong}", call("binary_cross_entropy"), inputs)
    name = "binary_cross_entropy_with_logits"
    wide = (A[0], shares(5), shares(6, 5))
    whole = np.arange(30).reshape(6, 5) % 2
    yield Row(f"{name} to integers", call(name), (A, whole))
    yield Row("poisson_nll_loss of integers", call("poisson_nll_loss", full=True), (whole, whole),
              1e-5, node=False)  # fmt: skip
    for other in ("l1_loss", "kl_div", "soft_margin_loss"):
        yield Row(f"{other} of integers", call(other), (whole, whole))
    for other in ("cross_entropy", "nll_loss"):
        yield Row(f"{other} of another batch and of no classes", call(other), (A, CLASSES[:3] + 9))
    yield Row(f"{name} of wide weights", with_weight(name), wide)
    yield Row(f"{name} of wide positive weights", positive, wide)
    for name in ("binary_cross_entropy", "binary_cross_entropy_with_logits"):
        yield Row(f"{name} of other shapes", call(name), (shares(6, 5), shares(5)))


def regression_rows() -> Iterator[Row]:
    equal = A.copy()
    equal[::2] = B[::2]
    for reduction in REDUCTIONS:
        options: dict[str, Any] = {"reduction": reduction}
        for name, every in (
            ("mse_loss", [{}]),
            ("l1_loss", [{}]),
            ("smooth_l1_loss", [{}, {"beta": 0.5}, {"beta": 0}]),
            ("huber_loss", [{}, {"delta": 0.7}]),
        ):
            for more in every:
                row = call(name, **options, **more)
                node = name != "l1_loss" and more.get("beta") != 0 and reduction != "x"
                yield Row(f"{name} {reduction} {more}", row, (equal, B), node=node)
            if name != "smooth_l1_loss":
                row = with_weight(name, **options)
                yield Row(f"{name} weighted {reduction}", row, (A, B, shares(6, 5)), node=False)
    yield Row("mse_loss broadcast", call("mse_loss"), (A, B[0]), node=False)
    for name in ("mse_loss", "l1_loss", "huber_loss"):
        yield Row(f"{name} of a smaller weight", with_weight(name), (A, B, shares(5)))
        yield Row(f"{name} weighted", with_weight(name), (A, B, shares(6, 5)), 1e-5, node=False)
    ends = np.array([np.inf, -np.inf, 0.5, 2.0], np.float32)
    for name in ("smooth_l1_loss", "huber_loss"):
        yield Row(f"{name} of infinities", call(name), (ends, random(4)), node=False)
        yield Row(f"{name} to infinities", call(name), (random(4), ends), node=False)
    yield Row("huber_loss of an infinite delta", call("huber_loss", delta=np.inf), (A, B),
              node=False)  # fmt: skip
    whole = np.arange(6)
    inputs = (whole, whole[::-1].copy(), whole)
    yield Row("mse_loss weighted, of integers", with_weight("mse_loss"), inputs, node=False)
    yield Row("mse_loss of other shapes", call("mse_loss"), (A, random(4)))
    yield Row("mse_loss to integers", call("mse_loss"), (A[:, 0], CLASSES), node=False)
    yield Row("smooth_l1_loss of negative beta", call("smooth_l1_loss", beta=-1.0), (A, B))
    yield Row("smooth_l1_loss of beta nan", call("smooth_l1_loss", beta=np.nan), (A, B))
    yield Row("huber_loss of delta nan", call("huber_loss", delta=np.nan), (A, B))
    for flags in ((0, None), (None, 0), (1, 1), (None, None)):
        row = call("mse_loss", *flags)
        yield Row(f"mse_loss by flags {flags}", row, (A, B), node=False)
    yield Row("huber_loss of no delta", call("huber_loss", delta=0.0), (A, B))


def squared(u: Any, v: Any) -> Any:
    return ((u - v) ** 2).sum(-1)


def margin_rows() -> Iterator[Row]:
    labels = np.array([[3, 0, -1, 1], [-1, 0, 0, 0], [0, 1, 2, 3]])
    for reduction in REDUCTIONS:
        options: dict[str, Any] = {"reduction": reduction}
        rows: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
            "hinge_embedding_loss": (
                call("hinge_embedding_loss", 0.5, constants=1, **options), (ROUNDED, signs(6, 5)),
            ),
            "soft_margin_loss": (
                call("soft_margin_loss", constants=1, **options), (A, signs(6, 5)),
            ),
            "margin_ranking_loss": (
                call("margin_ranking_loss", 0.5, constants=1, **options),
                (ROUNDED[:, 0], ROUNDED[:, 1], signs(6)),
            ),
            "cosine_embedding_loss": (
                call("cosine_embedding_loss", 0.1, constants=1, **options), (A, B, signs(6)),
            ),
            "multi_margin_loss": (call("multi_margin_loss", **options), (ROUNDED, CLASSES)),
            "multi_margin_loss squared": (
                with_weight("multi_margin_loss", p=2, margin=0.7, **options), (A, CLASSES, WEIGHT),
            ),
            "multilabel_margin_loss": (
                call("multilabel_margin_loss", **options), (np.round(random(3, 4)), labels),
            ),
            "multilabel_soft_margin_loss": (
                call("multilabel_soft_margin_loss", constants=2, **options),
                (A, shares(6, 5), WEIGHT),
            ),
            "triplet_margin_loss": (call("triplet_margin_loss", **options), (A, B, C)),
            "triplet_margin_loss swapped": (
                call("triplet_margin_loss", p=3, swap=True, **options), (A, B, C),
            ),
            "triplet_margin_with_distance_loss": (
                call("triplet_margin_with_distance_loss", distance_function=squared, swap=True,
                     **options),
                (A, B, C),
            ),
        }  # fmt: skip
        for name, (row, inputs) in rows.items():
            yield Row(f"{name} {reduction}", row, inputs, 1e-5, node=False)
    for name in ("hinge_embedding_loss", "cosine_embedding_loss", "soft_margin_loss"):
        inputs = (A, B, signs(6)) if name.startswith("cosine") else (A, signs(6, 5))
        yield Row(f"{name} of targets that require grad", call(name), inputs, 1e-5, node=False)
    yield Row("multi_margin_loss of one", call("multi_margin_loss"), (A[0], CLASSES[0]), node=False)
    whole, other = np.arange(12).reshape(4, 3) % 5, np.arange(12).reshape(4, 3) % 7
    for name in ("margin_ranking_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss"):
        row = call(name, margin=0.5)
        yield Row(f"{name} of integers", row, (whole, other, whole - 2), 1e-5, node=False)
    row = call("cosine_embedding_loss", margin=0.5)
    inputs = (whole, other, np.array([1, -1, 1, -1]))
    yield Row("cosine_embedding_loss of integers", row, inputs, 1e-5, node=False)
    labelled = call("multilabel_soft_margin_loss")
    for shape in ((5,), (6, 1), ()):
        target = shares(6, 5)
        name = f"multilabel_soft_margin_loss of {shape} broadcast"
        yield Row(name, labelled, (random(*shape), target), 1e-5, node=False)
    yield Row(
        "multilabel_soft_margin_loss to more", labelled, (A, shares(2, 6, 5)), 1e-5, node=False
    )
    for p in (1.0, True, 2.0):
        row = call("multi_margin_loss", p)
        yield Row(f"multi_margin_loss of p={p!r}", row, (A, CLASSES), 1e-5, node=False)
    yield Row("multi_margin_loss of p=3", call("multi_margin_loss", 3), (A, CLASSES))
    yield Row("margin_ranking_loss of ranks", call("margin_ranking_loss"), (A, B, signs(6)))
    yield Row("cosine_embedding_loss of ranks", call("cosine_embedding_loss"), (A, B, signs(6, 5)))
    yield Row("triplet_margin_loss of no margin", call("triplet_margin_loss", -1.0), (A, B, C))


def distance_rows() -> Iterator[Row]:
    doubled = np.concatenate([A, A[:1]])
    for p in (0.5, 1.0, 2.0, 3.0, float("inf")):
        row = call("pairwise_distance", p, keepdim=True)
        yield Row(f"pairwise_distance {p}", row, (A, B), 1e-4, node=False)
    whole = np.arange(6).reshape(2, 3)
    yield Row("pairwise_distance of integers", call("pairwise_distance"), (whole, whole * 0),
              node=False)  # fmt: skip
    for keepdim in (False, True):
        row = call("pairwise_distance", keepdim=keepdim)
        yield Row(f"pairwise_distance of numbers {keepdim}", row, (A[0, 0], B[0, 0]), node=False)
    for p in (0.0, 1.0, 2.0, 3.0, float("inf")):
        yield Row(f"pdist {p}", call("pdist", p), (doubled,), 1e-4, node=False)

        def cdist(lib: Any, x: Any, y: Any, p: float = p) -> Any:
            return lib.cdist(x, y, p)

        yield Row(f"cdist {p}", cdist, (random(2, 4, 3), random(2, 5, 3)), 1e-4, node=False)
        yield Row(f"cdist {p} of many", cdist, (random(30, 3), random(5, 3)), 1e-4, node=False)
    yield Row("pdist of negative p", call("pdist", -1.0), (A,))
    yield Row("cdist of other sizes", lambda lib, x, y: lib.cdist(x, y), (A, random(4, 3)))
    yield Row("cosine_similarity", call("cosine_similarity"), (A, B), 1e-5, node=False)
    row = call("cosine_similarity", 0, 0.5)
    yield Row("cosine_similarity broadcast", row, (A, random(6, 1)), 1e-5, node=False)
    yield Row("cosine_similarity of zeros", call("cosine_similarity"), (A * 0, B), 1e-5, node=False)
    yield Row("cosine_similarity beyond", call("cosine_similarity", 2), (A, B))


@table(class_rows())
def test_classes(row: Row) -> None:
    compare(row)


@table(probability_rows())
def test_probabilities(row: Row) -> None:
    compare(row)


@table(regression_rows())
def test_regression(row: Row) -> None:
    compare(row)


@table(margin_rows())
def test_margins(row: Row) -> None:
    compare(row)


@table(distance_rows())
def test_distances(row: Row) -> None:
    compare(row)
