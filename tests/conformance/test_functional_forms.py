"""Functions of layers at the top of the namespace, against PyTorch's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.conformance.operators import Row, compare, table
from tests.conformance.test_pointwise_ops import call

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.standard_normal((2, 4, 5)).astype(np.float32)
SCALE = RANDOM.standard_normal(4).astype(np.float32)
A, B, C = (RANDOM.standard_normal((3, 4)).astype(np.float32) for _ in range(3))
SIGNS = np.where(B > 0, 1, -1).astype(np.float32)
TOKENS = RANDOM.standard_normal((6, 8)).astype(np.float32)
EXPERTS = RANDOM.standard_normal((2, 8, 8)).astype(np.float32)
ENDS = np.array([2, 6], np.int32)


def in_place_of(name: str, *args: Any) -> Any:
    return lambda lib, x: getattr(lib, f"{name}_")(x * 1, *args)


def layers() -> Iterator[Row]:
    weights = RANDOM.standard_normal((3, 4, 2)).astype(np.float32)
    transposed = RANDOM.standard_normal((4, 3, 2)).astype(np.float32)
    table_of = RANDOM.standard_normal((5, 3)).astype(np.float32)
    places = np.array([[0, 4], [4, 2]])
    yield Row("batch_norm", lambda lib, x, w: lib.batch_norm(x, w, None, None, None, True, 0.1,
              1e-5, False), (IMAGES, SCALE), 2e-5, node=False)  # fmt: skip
    yield Row("instance_norm", lambda lib, x, w: lib.instance_norm(x, w, None, None, None, True,
              0.1, 1e-5, False), (IMAGES, SCALE), 2e-5, node=False)  # fmt: skip
    yield Row("layer_norm", call("layer_norm", (5,)), (IMAGES,), 2e-5)
    yield Row("group_norm", call("group_norm", 2), (IMAGES,), 2e-5, node=False)
    yield Row("embedding", call("embedding"), (table_of, places))
    yield Row("embedding, padding", call("embedding", 4), (table_of, places))
    yield Row("convolution", lambda lib, x, w: lib.convolution(x, w, None, (1,), (1,), (1,), False,
              (0,), 1), (IMAGES, weights), 2e-5)  # fmt: skip
    yield Row("transposed convolution", lambda lib, x, w: lib.convolution(x, w, None, (2,), (0,),
              (1,), True, (1,), 1), (IMAGES, transposed), 2e-5)  # fmt: skip
    yield Row("adaptive_avg_pool1d", call("adaptive_avg_pool1d", 2), (IMAGES,), node=False)
    yield Row("adaptive_max_pool1d", call("adaptive_max_pool1d", 2), (IMAGES,), node=False)
    yield Row("max_pool1d_with_indices", call("max_pool1d_with_indices", 2), (IMAGES,), node=False)
    for train in (False, True):
        for name in ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"):
            for p in (0.0, 1.0) if name == "dropout" else (0.0,):
                yield Row(f"{name} {p}, {train}", call(name, p, train), (IMAGES,), node=False)
                in_place = in_place_of(name, p, train)
                yield Row(f"{name}_ {p}, {train}", in_place, (IMAGES,), node=False)
    yield Row("feature_dropout of a vector", call("feature_dropout", 0.5, True), (SCALE,))
    yield Row("rrelu", call("rrelu"), (A,), node=False)
    for name in ("celu_", "selu_", "rrelu_"):
        yield Row(name, lambda lib, x, name=name: getattr(lib, name)(x * 1), (A,), node=False)
    yield Row("threshold_", lambda lib, x: lib.threshold_(x * 1, 0.0, 2.0), (A,), node=False)


@table(layers())
def test_layers(row: Row) -> None:
    compare(row)


def losses() -> Iterator[Row]:
    for reduction in (0, 1, 2):

        def named(name: str, *args: Any, reduction: int = reduction) -> Any:
            return lambda lib, *x: getattr(lib, name)(*x, *args, reduction=reduction)

        yield Row(f"kl_div {reduction}", named("kl_div"), (A, np.abs(B)), 1e-5, node=False)
        yield Row(f"poisson_nll_loss {reduction}", named("poisson_nll_loss", True, False, 1e-8),
                  (A, np.abs(B)), 1e-5, node=False)  # fmt: skip
        yield Row(f"hinge_embedding_loss {reduction}", named("hinge_embedding_loss"), (A, SIGNS),
                  1e-5, node=False)  # fmt: skip
        yield Row(f"margin_ranking_loss {reduction}", named("margin_ranking_loss", 0.5),
                  (A, B, SIGNS), 1e-5, node=False)  # fmt: skip
        yield Row(f"triplet_margin_loss {reduction}", named("triplet_margin_loss"), (A, B, C), 1e-5,
                  node=False)  # fmt: skip
        yield Row(f"cosine_embedding_loss {reduction}", named("cosine_embedding_loss"),
                  (A, B, SIGNS[:, 0].copy()), 1e-5, node=False)  # fmt: skip
        yield Row(f"binary_cross_entropy_with_logits {reduction}",
                  named("binary_cross_entropy_with_logits"), (A, np.abs(np.tanh(B))), 1e-5,
                  node=False)  # fmt: skip


@table(losses())
def test_losses(row: Row) -> None:
    compare(row)


def groups() -> Iterator[Row]:
    def grouped(lib: Any, a: Any, b: Any, offs: Any = None, **options: Any) -> Any:
        return lib.nn.functional.grouped_mm(a, b, offs=offs, **options)

    turned = EXPERTS.swapaxes(1, 2).copy()
    yield Row("rows", grouped, (TOKENS, EXPERTS, ENDS), 1e-5)
    yield Row("batches", grouped, (EXPERTS, turned), 1e-5)
    yield Row("inner sizes", grouped, (TOKENS.T.repeat(4, 1)[:, :8].copy(), EXPERTS[0], np.array(
        [3, 8], np.int32)), 1e-5)  # fmt: skip
    yield Row("columns", grouped, (EXPERTS, EXPERTS[0], np.array([3, 8], np.int32)), 1e-5)
    yield Row("no ends", grouped, (TOKENS, EXPERTS))
    yield Row("ends of batches", grouped, (EXPERTS, EXPERTS, ENDS))
    yield Row("long ends", grouped, (TOKENS, EXPERTS, ENDS.astype(np.int64)))
    yield Row("too few ends", grouped, (TOKENS, EXPERTS, ENDS[:1]))
    yield Row("doubles", grouped, (TOKENS.astype(np.float64), EXPERTS.astype(np.float64), ENDS))
    yield Row("other inner sizes", grouped, (TOKENS[:, :4].copy(), EXPERTS, ENDS))
    yield Row("vector", grouped, (TOKENS[0], EXPERTS, ENDS))
    yield Row("another dtype", lambda lib, *x: grouped(lib, *x, out_dtype=lib.float64),
              (TOKENS, EXPERTS, ENDS))  # fmt: skip
    yield Row("bias", lambda lib, *x: grouped(lib, *x, bias=x[0]), (TOKENS, EXPERTS, ENDS))


@table(groups())
def test_grouped_products(row: Row) -> None:
    compare(row)
