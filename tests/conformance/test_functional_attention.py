"""Attention of nn.functional against PyTorch, at once and in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from flambeau.core.operators.op import forget_kernels
from flambeau.ops.neural import attention
from tests.conformance.operators import Row, compare, table

RANDOM = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def call(*args: Any, **kwargs: Any) -> Callable[..., Any]:
    def compute(lib: Any, *tensors: Any) -> Any:
        lib.manual_seed(3)
        return lib.nn.functional.scaled_dot_product_attention(*tensors, *args, **kwargs)

    return compute


Q, K, V = random(2, 4, 6, 8), random(2, 4, 5, 8), random(2, 4, 5, 3)
SEEN = RANDOM.integers(0, 2, (6, 5)).astype(bool)
SEEN[2] = False
ADDED = np.where(SEEN, random(6, 5), -np.inf).astype(np.float32)


def masked(lib: Any, query: Any, key: Any, value: Any, mask: Any) -> Any:
    # PyTorch's gradient at the infinities of a mask is not compared.
    return lib.nn.functional.scaled_dot_product_attention(query, key, value, mask.detach())


def product_rows() -> Iterator[Row]:
    plain = call()
    rows: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
        "plain": (plain, (Q, K, V)),
        "causal": (call(is_causal=True, scale=0.3), (Q, K, V)),
        "bool mask": (plain, (Q, K, V, SEEN)),
        "mask of keys": (plain, (Q, K, V, SEEN[:1])),
        "mask per head": (plain, (Q, K, V, random(4, 6, 5))),
        "infinite mask": (masked, (Q, K, V, ADDED)),
        "grouped": (call(enable_gqa=True), (Q, K[:, :2], V[:, :2])),
        "2-d": (plain, (Q[0, 0], K[0, 0], V[0, 0])),
        "3-d": (plain, (Q[0], K[0], V[0])),
        "dropout": (call(dropout_p=0.3), (Q, K, V)),
        "double": (plain, (Q.astype(float), K.astype(float), V.astype(float))),
        "one query": (plain, (Q[:, :, :1], K, V)),
        "both masks": (call(is_causal=True), (Q, K, V, SEEN)),
        "another size": (plain, (Q, K[..., :7], V)),
        "another length": (plain, (Q, K, V[:, :, :4])),
        "another dtype": (plain, (Q, K.astype(float), V)),
        "mask of more queries": (plain, (Q[:, :, :1], K, V, SEEN)),
        "mask of more dimensions": (plain, (Q[0], K[0], V[0], SEEN[None, None])),
        "values of another batch": (plain, (Q[0, :3], K[0, :3], V[0])),
        "odd groups": (call(enable_gqa=True), (Q, K[:, :3], V[:, :3])),
        "dropout beyond": (call(dropout_p=1.5), (Q, K, V)),
    }
    for name, (row, inputs) in rows.items():
        yield Row(name, row, inputs, 1e-5, node=False)


@table(product_rows())
def test_dot_product(row: Row) -> None:
    compare(row)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every attention is worked off in blocks of two queries or so."""
    monkeypatch.setattr(attention, "_SCORES_AT_ONCE", 4)
    monkeypatch.setattr(attention, "_SCORES_IN_BLOCK", 60)
    forget_kernels()
    yield
    forget_kernels()


@table(product_rows())
@pytest.mark.usefixtures("small_blocks")
def test_dot_product_in_blocks(row: Row) -> None:
    compare(row)


# Several heads

HIDDEN = np.triu(np.ones((5, 6), bool), 2)
CAUSAL = np.triu(np.ones((5, 5), bool), 1)
PADDING = np.zeros((3, 6), bool)
PADDING[1, 4:] = True


def forward(shared: str = "none", p: float = 0.0, zero: bool = False, biased: bool = False,
            **options: Any) -> Callable[..., Any]:  # fmt: skip
    """Attention of two heads of a query, a key and a value of 8 features."""

    def compute(lib: Any, q: Any, k: Any, v: Any, *weights: Any) -> Any:
        lib.manual_seed(3)
        k = q if shared == "all" else k
        v = k if shared != "none" else v
        to = torch.from_numpy if lib is torch else lib.tensor
        given = {n: to(x) if isinstance(x, np.ndarray) else x for n, x in options.items()}
        in_weight, in_bias, out_weight, out_bias, *extra = weights
        added = extra if biased else (None, None)
        output, shown = lib.nn.functional.multi_head_attention_forward(
            q, k, v, 8, 2, in_weight, in_bias, *added, zero, p, out_weight, out_bias, **given
        )
        return output if shown is None else (output, shown)

    return compute


def head_rows() -> Iterator[Row]:
    inputs = (random(5, 3, 8), random(6, 3, 8), random(6, 3, 8))
    weights = (random(24, 8) / 2, random(24), random(8, 8), random(8))
    biases = (random(1, 1, 8), random(1, 1, 8))
    separate = {"q_proj_weight": random(8, 8), "k_proj_weight": random(8, 4)}
    masks = {"attn_mask": HIDDEN, "key_padding_mask": PADDING}
    for need_weights in (True, False):
        for name, options in {
            "plain": {},
            "self": {"shared": "all"},
            "memory": {"shared": "kv"},
            "padding": {"key_padding_mask": PADDING},
            "mask": {"attn_mask": HIDDEN},
            "both masks": masks,
            "added mask": {"attn_mask": random(6, 5, 6), "key_padding_mask": random(3, 6)},
            "zero": {"zero": True, **masks},
            "causal": {"shared": "all", "attn_mask": CAUSAL, "is_causal": True},
            "causal without mask": {"shared": "all", "is_causal": True},
            "dropout": {"p": 0.3},
            "each head": {"average_attn_weights": False},
            "odd mask": {"attn_mask": HIDDEN[:, :4]},
            "odd padding": {"key_padding_mask": PADDING[:2]},
            "integer mask": {"attn_mask": HIDDEN.astype(np.int64)},
        }.items():
            row = forward(need_weights=need_weights, **options)
            yield Row(f"{name} {need_weights}", row, (*inputs, *weights), 1e-4, node=False)
        row = forward(need_weights=need_weights, biased=True, **masks)
        yield Row(f"bias {need_weights}", row, (*inputs, *weights, *biases), 1e-4, node=False)
        row = forward(
            need_weights=need_weights, use_separate_proj_weight=True,
            v_proj_weight=random(8, 7), **separate,
        )  # fmt: skip
        apart = (inputs[0], inputs[1][..., :4], inputs[2][..., :7])
        yield Row(f"separate {need_weights}", row, (*apart, *weights), 1e-4, node=False)
        row = forward(
            need_weights=need_weights, attn_mask=random(2, 5, 6), key_padding_mask=PADDING[1]
        )
        single = tuple(each[:, 0] for each in inputs)
        yield Row(f"unbatched {need_weights}", row, (*single, *weights), 1e-4, node=False)
    wider = forward(shared="all")
    yield Row("a wider query", wider, (inputs[0].astype(np.float64), *inputs[1:], *weights))
    odd = forward(attn_mask=random(3, 5, 6))
    yield Row("unbatched, mask of another number of heads", odd, (*single, *weights))
    for place, name in enumerate(("in weight", "in bias", "out weight", "out bias")):
        doubled = [w.astype(np.float64) if i == place else w for i, w in enumerate(weights)]
        yield Row(f"{name} of another dtype", forward(), (*inputs, *doubled))
        deeper = [w[..., None] if i == place else w for i, w in enumerate(weights)]
        yield Row(f"{name} of another shape", forward(), (*inputs, *deeper))
    yield Row("other ranks", forward(), (inputs[0], *single[1:], *weights))
    yield Row("other embedding", forward(), (inputs[0][..., :6], *inputs[1:], *weights))


@table(head_rows())
def test_heads(row: Row) -> None:
    compare(row)
