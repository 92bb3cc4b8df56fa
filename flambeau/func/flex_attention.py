"""Attention with a function that modifies the scores: `flex_attention`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from flambeau import ops
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.func.block_mask import (
    LARGE_BLOCK_SIZE,
    BlockMask,
    _sliced_mask_mod_error,
    noop_mask,
    over_positions,
    positions,
    whole_mask,
)

__all__ = ["AuxOutput", "AuxRequest", "flex_attention"]


class AuxRequest(NamedTuple):
    """The optional results of `flex_attention`.

    Attributes:
        lse: The logarithm of the sum of the scores' exponentials.
        max_scores: The greatest score.
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The results requested by `AuxRequest`, ``(B, H, L)`` each; None for the others."""

    lse: Any = None
    max_scores: Any = None


def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None, scale: float | None = None, enable_gqa: bool = False,
    return_lse: bool = False, kernel_options: Any = None, *, return_aux: AuxRequest | None = None,
) -> Any:  # fmt: skip
    """Attention with a function that modifies the scores, and a mask given by a function.

    All scores are computed, in single precision at least: the blocks of a mask save no work. The
    functions are called once, on single positions, and mapped over all positions by `func.vmap`;
    tensors that they capture take gradients.

    Args:
        query: ``(B, Hq, L, E)``.
        key: ``(B, Hkv, S, E)``.
        value: ``(B, Hkv, S, Ev)``.
        score_mod: ``score_mod(score, b, h, q_idx, kv_idx)`` returns the modified score.
        block_mask: The keys that each query attends to; see `create_block_mask`. A query without
            keys gives zeros.
        scale: The factor of the scores; ``1 / sqrt(E)`` by default.
        enable_gqa: Whether several query heads share one head of keys and values.
        return_lse: An older way to ask for ``return_aux=AuxRequest(lse=True)``.
        kernel_options: Accepted for compatibility.
        return_aux: The optional results to return.

    Returns:
        ``(B, Hq, L, Ev)``; with ``return_aux`` an `AuxOutput` too, whose ``max_scores`` take no
        gradient.

    Raises:
        ValueError: The shapes do not match each other, or do not match the mask.
        NotImplementedError: A tensor does not have four dimensions.
        RuntimeError: The mask is a slice of another one, or on another device.

    >>> import flambeau
    >>> from flambeau.nn.attention.flex_attention import flex_attention
    >>> x = flambeau.ones(1, 1, 4, 2)
    >>> flex_attention(x, x, x, lambda score, b, h, q, kv: score - (q - kv).abs()).shape
    flambeau.Size([1, 1, 4, 2])
    """
    _check(query, key, value, block_mask, enable_gqa)
    mask = whole_mask(query) if block_mask is None else block_mask
    _check_mask(query, key, mask)
    if return_lse and return_aux is not None:
        raise ValueError("Cannot specify both return_lse and return_aux; give return_aux alone")
    if return_lse:
        warn(
            "return_lse is deprecated; use return_aux=AuxRequest(lse=True) instead",
            FutureWarning,
        )
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (ops.repeat_interleave(each, groups, dim=1) for each in (key, value))
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = _scores(query, key, factor, score_mod, mask.mask_mod)
    greatest = scores.detach().amax(-1, keepdim=True)
    # A query without keys has no greatest score to subtract, and its gradients are zero.
    is_blind = ops.isneginf(greatest)
    safe = ops.where(is_blind, 0.0, scores)
    weights = ops.where(is_blind, 0.0, safe.softmax(-1))
    result = weights.to(query.dtype) @ value.to(query.dtype)
    wanted = AuxRequest(lse=return_lse) if return_aux is None else return_aux
    lse = None
    if wanted.lse:
        lse = ops.where(is_blind.squeeze(-1), -math.inf, safe.logsumexp(-1))
    if return_aux is not None:
        return result, AuxOutput(lse, greatest.squeeze(-1) if wanted.max_scores else None)
    return (result, lse) if return_lse else result


def _scores(
    query: Any, key: Any, scale: float, score_mod: Any, mask_mod: Callable[..., Any]
) -> Any:
    """The modified scores, and minus infinity where the mask hides a key."""
    working = dtypes.float64 if query.dtype is dtypes.float64 else dtypes.float32
    scores = (query.to(working) @ key.to(working).mT) * scale
    places = positions(scores.shape, scores.device)
    if score_mod is not None:
        scores = over_positions(score_mod, True)(scores, *places).to(working)
    if mask_mod is noop_mask:
        return scores
    visible = over_positions(mask_mod, False)(*places)
    return ops.where(visible, scores, -math.inf)


def _check(query: Any, key: Any, value: Any, block_mask: Any, enable_gqa: bool) -> None:
    if query.device != key.device or query.device != value.device:
        raise ValueError(
            "Expected query, key, and value to have the same device type, but got "
            f"{query.device}, {key.device} and {value.device}"
        )
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise ValueError("Expected query, key, and value to all be at least 2 dimensional")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            "Expect query and key/value to have the same embedding dimension but got "
            f"E={query.shape[-1]} and E={key.shape[-1]}"
        )
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    heads, others = query.shape[1], key.shape[1]
    if not enable_gqa and heads != others:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and "
            f"Hkv={others}. Try setting enable_gqa=True for GQA."
        )
    if heads % others:
        raise ValueError(
            "Expect number of query heads to be a multiple of kv heads for GQA but got "
            f"Hq={heads} and Hkv={others}"
        )
    if query.shape[0] != key.shape[0]:
        if block_mask is None or block_mask.kv_num_blocks.shape[0] != query.shape[0]:
            raise ValueError(
                "Expect query and key/value to have the same batch size, or a block_mask with the "
                f"batch size of query, but got Bq={query.shape[0]} and Bkv={key.shape[0]}"
            )
        if key.shape[0] != 1:
            raise RuntimeError(
                f"Bq and Bkv must broadcast. Got Bq={query.shape[0]} and Bkv={key.shape[0]}"
            )


def _check_mask(query: Any, key: Any, mask: BlockMask) -> None:
    if mask.mask_mod is _sliced_mask_mod_error:
        raise RuntimeError("Cannot use mask_mod from a sliced BlockMask; set a new one")
    lengths, given = (query.shape[-2], key.shape[-2]), mask.shape[-2:]
    if mask.BLOCK_SIZE[0] != LARGE_BLOCK_SIZE and lengths != tuple(given):
        raise ValueError(
            f"block_mask was created for block_mask.shape={mask.shape} but got "
            f"q_len={lengths[0]} and kv_len={lengths[1]}. Create a block mask for these lengths; "
            "block_mask._adjust(q_len, kv_len) is the upper left corner of a longer one"
        )
    if query.device != mask.kv_num_blocks.device:
        raise RuntimeError(
            "Expect q/k/v and block_mask to be on the same device but got "
            f"{query.device} and {mask.kv_num_blocks.device}; block_mask.to(device) moves it"
        )
