"""`flex_attention` and masks of blocks against PyTorch, eager and compiled.

On a CPU PyTorch's own has no backward, so gradients are those of the formula, whose values are
first compared with those of PyTorch's `flex_attention`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.attention import flex_attention as theirs

import flambeau
from flambeau.nn.attention import flex_attention as ours
from tests.conformance.operators import Row, compare, table

RANDOM = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


QUERY, KEY, VALUE = random(2, 4, 6, 8), random(2, 4, 6, 8), random(2, 4, 6, 3)
SHARED_KEY, SHARED_VALUE = random(2, 2, 6, 8), random(2, 2, 6, 3)
DOCUMENTS = np.array([0, 0, 1, 1, 1, 2])
RELATIVE = random(4, 11)

Make = Callable[..., tuple[Any, Any]]
# Each row: what makes (score_mod, mask_mod) of a library and the captured tensors, those tensors,
# and options of flex_attention.
CASES: dict[str, tuple[Make, tuple[np.ndarray, ...], dict[str, Any]]] = {
    "plain": (lambda lib: (None, None), (), {}),
    "scale": (lambda lib: (None, None), (), {"scale": 0.3}),
    "causal": (lambda lib: (None, lambda b, h, q, kv: q >= kv), (), {}),
    "sliding window": (lambda lib: (None, lambda b, h, q, kv: (q - kv).abs() <= 1), (), {}),
    "alibi": (
        lambda lib: (lambda score, b, h, q, kv: score + lib.exp2(-(h + 1.0)) * (kv - q), None),
        (),
        {},
    ),
    "documents": (
        lambda lib, ids: (None, lambda b, h, q, kv: (ids[q] == ids[kv]) & (q >= kv)),
        (DOCUMENTS,),
        {},
    ),
    "soft-capping": (
        lambda lib: (lambda score, b, h, q, kv: 2.0 * lib.tanh(score / 2.0), None),
        (),
        {},
    ),
    "relative bias": (
        lambda lib, bias: (
            lambda score, b, h, q, kv: score + bias[h, q - kv + 5],
            lambda b, h, q, kv: q >= kv,
        ),
        (RELATIVE,),
        {},
    ),
    "bias of each head": (
        lambda lib, bias: (lambda score, b, h, q, kv: score * bias[h], None),
        (random(4),),
        {},
    ),
    "depends on the batch": (
        lambda lib, lengths: (None, lambda b, h, q, kv: kv < lengths[b]),
        (np.array([3, 5]),),
        {},
    ),
    "a query that sees nothing": (lambda lib: (None, lambda b, h, q, kv: q > kv), (), {}),
    "a score that hides": (
        lambda lib: (lambda s, b, h, q, kv: lib.where(q > kv, s, -math.inf), None),
        (),
        {},
    ),
    "grouped": (
        lambda lib: (None, lambda b, h, q, kv: q >= kv + h - 2),
        (),
        {"enable_gqa": True},
    ),
}


def formula(query: Any, key: Any, value: Any, score_mod: Any, mask_mod: Any, options: Any) -> Any:
    """PyTorch's result, with gradients."""
    groups = query.shape[1] // key.shape[1]
    key, value = (each.repeat_interleave(groups, 1) for each in (key, value))
    scores = query @ key.mT * options.get("scale", 1 / math.sqrt(query.shape[-1]))
    places = [torch.arange(size) for size in scores.shape]
    if score_mod is not None:
        scores = theirs._vmap_for_bhqkv(score_mod, (0,))(scores, *places)
    if mask_mod is not None:
        seen = theirs._vmap_for_bhqkv(mask_mod, ())(*places)
        scores = scores.masked_fill(~seen, -math.inf)
    blind = (scores == -math.inf).all(-1, keepdim=True)
    safe = scores.masked_fill(blind, 0.0)
    weights = safe.softmax(-1).masked_fill(blind, 0.0)
    lse = safe.logsumexp(-1).masked_fill(blind[..., 0], -math.inf)
    return weights @ value, lse


def attend(make: Make, options: dict[str, Any], is_compiled: bool) -> Callable[..., Any]:
    def compute(lib: Any, query: Any, key: Any, value: Any, *captured: Any) -> Any:
        score_mod, mask_mod = make(lib, *captured)
        room = theirs if lib is torch else ours
        mask = None
        if mask_mod is not None:
            mask = room.create_block_mask(mask_mod, 2, 4, 6, 6, device="cpu", BLOCK_SIZE=2)
        request = room.AuxRequest(lse=True)
        if lib is not torch:
            attention = flambeau.compile(room.flex_attention) if is_compiled else (
                room.flex_attention
            )  # fmt: skip
            result, aux = attention(
                query, key, value, score_mod, mask, return_aux=request, **options
            )
            return result, aux.lse
        results = formula(query, key, value, score_mod, mask_mod, options)
        with torch.no_grad():
            plain = [each.detach() for each in (query, key, value)]
            result, aux = theirs.flex_attention(
                *plain, score_mod, mask, return_aux=request, **options
            )
            torch.testing.assert_close((result, aux.lse), tuple(each.detach() for each in results))
        return results

    return compute


def rows(is_compiled: bool) -> Iterator[Row]:
    for name, (make, captured, options) in CASES.items():
        keys = (SHARED_KEY, SHARED_VALUE) if "enable_gqa" in options else (KEY, VALUE)
        compute = attend(make, options, is_compiled)
        yield Row(name, compute, (QUERY, *keys, *captured), tolerance=1e-5, node=False)


@pytest.fixture(autouse=True)
def plain_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let PyTorch run its formula as it is instead of compiling it."""
    monkeypatch.setattr(theirs, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)


@table(rows(False))
def test_attention_is_pytorchs(row: Row) -> None:
    compare(row)


@table(rows(True))
def test_compiled_attention_is_pytorchs(row: Row) -> None:
    compare(row)


MASKS: dict[str, Callable[[Any], Any]] = {
    "causal": lambda room: lambda b, h, q, kv: q >= kv,
    "window": lambda room: lambda b, h, q, kv: (q - kv).abs() < 5,
    "both": lambda room: room.and_masks(
        lambda b, h, q, kv: q >= kv, lambda b, h, q, kv: q - kv < 5
    ),
    "either": lambda room: room.or_masks(
        lambda b, h, q, kv: q == kv, lambda b, h, q, kv: kv < h + b
    ),
    "none": lambda room: room.noop_mask,
}
USES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda mask: mask,
    "_adjust": lambda mask: mask._adjust(9, 11),
    "int": lambda mask: mask[1],
    "negative int": lambda mask: mask[-1, 0],
    "slices": lambda mask: mask[:, 1:, 2:4],
    "to": lambda mask: mask.to("cpu"),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", MASKS)
def test_masks_of_blocks_are_pytorchs(name: str, use: str) -> None:
    facts = []
    for room in (theirs, ours):
        mask = room.create_block_mask(
            MASKS[name](room), 2, 3, 14, 12, device="cpu", BLOCK_SIZE=(4, 3)
        )
        mask = USES[use](mask)
        dense = [np.asarray(mask.to_dense().numpy())]
        for prefix in ("kv", "full_kv", "q", "full_q"):
            counts = getattr(mask, f"{prefix}_num_blocks")
            dense.append(np.asarray(counts.numpy()))
            columns = np.asarray(getattr(mask, f"{prefix}_indices").numpy())
            # What follows the blocks of a row is undefined.
            is_block = np.arange(columns.shape[-1]) < dense[-1][..., None]
            dense.append(np.where(is_block, columns, -1))
        facts.append((dense, mask))
    (expected, one), (found, other) = facts
    for each, like in zip(found, expected, strict=True):
        np.testing.assert_array_equal(each, like)
        assert each.dtype == like.dtype
    assert other.shape == one.shape
    assert other.numel() == one.numel()
    assert other.BLOCK_SIZE == one.BLOCK_SIZE
    assert other.sparsity() == pytest.approx(one.sparsity())
    assert other.to_string(limit=6) == one.to_string(limit=6)
    assert other.to_string((2, 2), limit=6) == one.to_string((2, 2), limit=6)


def test_create_mask_is_pytorchs() -> None:
    found = []
    for room in (theirs, ours):
        whole = room.create_mask(lambda b, h, q, kv: q + h >= kv, None, 2, 3, 4, device="cpu")
        hidden = room.create_mask(
            lambda score, b, h, q, kv: score.masked_fill(q + b < kv, -math.inf), 2, 1, 3, 4,
            device="cpu",
        )  # fmt: skip
        found.append([np.asarray(each.numpy()) for each in (whole, hidden)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype == bool


def arguments(lib: Any, *shapes: tuple[int, ...]) -> list[Any]:
    return [lib.ones(shape) for shape in shapes]


def causal(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return q >= kv


def block_mask(room: Any, length: int) -> Any:
    return room.create_block_mask(causal, 1, 1, length, length, device="cpu", BLOCK_SIZE=2)


BAD: dict[str, Callable[[Any, Any], Any]] = {
    "3-d": lambda lib, room: room.flex_attention(*arguments(lib, *[(2, 6, 8)] * 3)),
    "embedding": lambda lib, room: room.flex_attention(
        *arguments(lib, (1, 2, 6, 8), (1, 2, 6, 4), (1, 2, 6, 8))
    ),
    "heads": lambda lib, room: room.flex_attention(
        *arguments(lib, (1, 4, 6, 8), (1, 2, 6, 8), (1, 2, 6, 8))
    ),
    "groups": lambda lib, room: room.flex_attention(
        *arguments(lib, (1, 4, 6, 8), (1, 3, 6, 8), (1, 3, 6, 8)), enable_gqa=True
    ),
    "batch": lambda lib, room: room.flex_attention(
        *arguments(lib, (2, 2, 6, 8), (1, 2, 6, 8), (1, 2, 6, 8))
    ),
    "a longer mask": lambda lib, room: room.flex_attention(
        *arguments(lib, *[(1, 1, 6, 8)] * 3), block_mask=block_mask(room, 8)
    ),
    "a shorter mask": lambda lib, room: room.flex_attention(
        *arguments(lib, *[(1, 1, 6, 8)] * 3), block_mask=block_mask(room, 4)
    ),
    "a sliced mask": lambda lib, room: room.flex_attention(
        *arguments(lib, *[(1, 1, 6, 8)] * 3), block_mask=block_mask(room, 6)[:, :, :2]
    ),
    "both requests": lambda lib, room: room.flex_attention(
        *arguments(lib, *[(1, 1, 6, 8)] * 3), return_lse=True, return_aux=room.AuxRequest()
    ),
    "no function": lambda lib, room: room.and_masks(causal, 3),
    "three arguments": lambda lib, room: room.create_mask(lambda b, h, q: q, 1, 1, 2, 2, "cpu"),
    "a score_mod": lambda lib, room: room.create_block_mask(
        lambda score, b, h, q, kv: score, 1, 1, 4, 4, device="cpu"
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_calls_raise_pytorchs_errors(name: str) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011
        BAD[name](torch, theirs)
    with pytest.raises(expected.type):
        BAD[name](flambeau, ours)
