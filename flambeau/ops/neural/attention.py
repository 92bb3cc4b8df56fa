"""Scaled dot-product attention, in memory linear in the length.

On NVIDIA GPUs cuDNN computes it in half precision if possible.

Vaswani et al., Attention Is All You Need, https://arxiv.org/abs/1706.03762. Long sequences are
computed in blocks of queries, each recomputed for the gradient, after Rabe and Staats,
Self-attention Does Not Need O(n^2) Memory, https://arxiv.org/abs/2112.05682.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from flambeau.core.devices.compiler import has_unknown_size
from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import op
from flambeau.ops.common import loops
from flambeau.ops.common.checks import needs_floating, same_dtype
from flambeau.ops.native import attention as native
from flambeau.ops.neural import fused_attention
from flambeau.ops.neural.softmax import moved_weights

__all__: list[str] = []

# Above this many scores (16 MB in float32), blocks are faster too: they stay in the cache.
_SCORES_AT_ONCE = 2**22
_SCORES_IN_BLOCK = 2**19


@op
def scaled_dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Array | None = None,
    enable_gqa: bool = False,
) -> Array:
    """The operator of `nn.functional.scaled_dot_product_attention`; see there.

    Args:
        dropout_mask: ``(..., Hq, L, S)``, true where a weight is kept.
        dropout_p: The dropout probability of the mask.
    """
    _check(query, key, value, attn_mask, is_causal)
    if enable_gqa:
        key, value = _shared_heads(query, key), _shared_heads(query, value)
    _check_mask_shape(query, key, attn_mask)
    return attention(query, key, value, attn_mask, dropout_mask, dropout_p, is_causal, scale)


def attention(
    query: Any, key: Any, value: Any, attn_mask: Any, dropout_mask: Any, dropout_p: float,
    is_causal: bool, scale: Any = None,
) -> Any:  # fmt: skip
    """`scaled_dot_product_attention` on arrays that were checked."""
    if scale is None:
        scale = 1.0 / math.sqrt(max(query.shape[-1], 1))
    batch = jnp.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    # XLA has CPU products of half precision only for operands with the same batch.
    query, key, value = (
        jnp.broadcast_to(each, (*batch, *each.shape[-2:])) for each in (query, key, value)
    )

    def plain(query: Any, key: Any, value: Any, mask: Any) -> Any:
        return _by_size(query, key, value, Masks(mask, is_causal, dropout_mask, dropout_p), scale)

    if fused_attention.takes(query, key, value, attn_mask, dropout_mask, is_causal):
        return fused_attention.or_else(plain, query, key, value, attn_mask, scale, is_causal)
    if native.takes(query, dropout_mask):
        return native.attend(_plain, query, key, value, attn_mask, is_causal, scale)
    return plain(query, key, value, attn_mask)


def _plain(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float) -> Any:
    """Attention without dropout by XLA's operators."""
    return _by_size(query, key, value, Masks(mask, is_causal, None, 0.0), scale)


def _by_size(query: Any, key: Any, value: Any, masks: Masks, scale: Any) -> Any:
    """All scores at once, or one block of queries after the other for many scores."""
    count = math.prod(query.shape[:-1]) * key.shape[-2]
    if has_unknown_size((query, key)) or count <= _SCORES_AT_ONCE or query.shape[-2] == 1:
        return _attend(query, key, value, masks, scale, 0)
    return _attend_in_blocks(query, key, value, masks, scale, count)


class Masks(NamedTuple):
    """The keys that each query attends to, and the weights that dropout keeps."""

    seen: Any
    is_causal: bool
    kept: Any
    dropout_p: float

    def apply(self, scores: Any, first: Any) -> Any:
        """The scores of queries from position ``first`` on, minus infinity for masked keys."""
        if self.is_causal:
            queries, keys = scores.shape[-2:]
            visible = jnp.arange(keys) <= first + jnp.arange(queries)[:, None]
            return jnp.where(visible, scores, -jnp.inf)
        if self.seen is None:
            return scores
        if self.seen.dtype == jnp.bool_:
            return jnp.where(self.seen, scores, -jnp.inf)
        return scores + self.seen.astype(scores.dtype)

    def drop(self, weights: Any) -> Any:
        """The kept weights, scaled up, and zeros."""
        if self.kept is None:
            return weights
        factor = 0.0 if self.dropout_p == 1 else 1.0 / (1.0 - self.dropout_p)
        return weights * jnp.where(self.kept, factor, 0.0).astype(weights.dtype)


def _check(query: Any, key: Any, value: Any, attn_mask: Any, is_causal: bool) -> None:
    name = "scaled_dot_product_attention"
    needs_floating(name, query)
    same_dtype(name, query, key, value)
    shapes = f"query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}"
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(f"{name}() takes tensors of at least 2 dimensions, got {shapes}")
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise RuntimeError(
            f"{name}(): query and key must agree in their last dimension, and key and value in "
            f"their length, got {shapes}"
        )
    if attn_mask is None:
        return
    if is_causal:
        raise RuntimeError(f"{name}(): give either attn_mask or is_causal=True, not both")
    if attn_mask.dtype not in (jnp.bool_, jnp.float32, query.dtype):
        raise RuntimeError(
            f"{name}(): attn_mask must be bool or {query.dtype}, as the query, "
            f"got {attn_mask.dtype}"
        )


def _check_mask_shape(query: Any, key: Any, attn_mask: Any) -> None:
    if attn_mask is None:
        return
    batch = jnp.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    scores = (*batch, query.shape[-2], key.shape[-2])
    if jnp.broadcast_shapes(attn_mask.shape, scores) != scores:
        raise RuntimeError(
            f"scaled_dot_product_attention(): attn_mask of shape {list(attn_mask.shape)} does not "
            f"broadcast to the shape of the scores, {list(scores)}"
        )


def _shared_heads(query: Any, array: Any) -> Any:
    """``array`` with each head repeated for the query heads that share it."""
    if query.ndim < 3 or array.ndim < 3 or query.shape[-3] % array.shape[-3]:
        raise RuntimeError(
            "scaled_dot_product_attention(): with enable_gqa the number of query heads must be a "
            f"multiple of that of key and value, got shapes {list(query.shape)} and "
            f"{list(array.shape)}"
        )
    return jnp.repeat(array, query.shape[-3] // array.shape[-3], -3)


def _attend(query: Any, key: Any, value: Any, masks: Masks, scale: Any, first: Any) -> Any:
    """Attention of the queries from position ``first`` on, all scores at once."""
    wide = jnp.promote_types(query.dtype, jnp.float32)
    scores = jnp.einsum("...le,...se->...ls", query, key, preferred_element_type=wide)
    weights = masks.drop(softmax_of_scores(masks.apply(scores * scale, first)))
    weights = weights.astype(query.dtype)
    found = jnp.einsum("...ls,...se->...le", weights, value, preferred_element_type=wide)
    return found.astype(query.dtype)


@jax.custom_jvp
def softmax_of_scores(scores: Any) -> Any:
    """The softmax over the last dimension, zeros if every score is minus infinity."""
    greatest = lax.stop_gradient(jnp.max(scores, -1, keepdims=True, initial=-jnp.inf))
    greatest = jnp.where(jnp.isneginf(greatest), jnp.zeros_like(greatest), greatest)
    exponentials = jnp.exp(scores - greatest)
    total = jnp.sum(exponentials, -1, keepdims=True)
    return exponentials / jnp.where(total == 0, jnp.ones_like(total), total)


@softmax_of_scores.defjvp
def _softmax_of_scores_jvp(primals: Any, tangents: Any) -> Any:
    weights = softmax_of_scores(*primals)
    return weights, moved_weights(weights, tangents[0], -1)


def _attend_in_blocks(
    query: Any, key: Any, value: Any, masks: Masks, scale: Any, count: int
) -> Any:
    """Attention one block of queries after the other."""
    length = query.shape[-2]
    size = -(-length // min(length, -(-count // _SCORES_IN_BLOCK)))
    blocks = -(-length // size)

    def cut(array: Any) -> Any:
        """Blocks of queries as a leading dimension; ``None`` if all blocks share the array."""
        if array is None or array.ndim < 2 or array.shape[-2] == 1:
            return None
        padding = [(0, 0)] * array.ndim
        padding[-2] = (0, blocks * size - length)
        split = jnp.pad(array, padding)
        split = split.reshape((*array.shape[:-2], blocks, size, array.shape[-1]))
        return jnp.moveaxis(split, -3, 0)

    @jax.checkpoint
    def attend(block: Any) -> Any:
        queries, seen, kept, first = block
        own = masks._replace(
            seen=masks.seen if seen is None else seen, kept=masks.kept if kept is None else kept
        )
        return _attend(queries, key, value, own, scale, first)

    starts = jnp.arange(blocks) * size
    found = loops.map(attend, (cut(query), cut(masks.seen), cut(masks.kept), starts))
    joined = jnp.moveaxis(found, 0, -3)
    joined = joined.reshape((*joined.shape[:-3], blocks * size, joined.shape[-1]))
    return joined[..., :length, :]
