"""Multi-head attention in one operator: projections, heads, masks and weights.

Vaswani et al., Attention Is All You Need, https://arxiv.org/abs/1706.03762
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array
from flambeau.core.kernels.single_precision import spread
from flambeau.core.operators.op import op
from flambeau.ops.common.checks import needs_floating, same_dtype
from flambeau.ops.neural.attention import attention, softmax_of_scores

__all__: list[str] = []


class Projections(NamedTuple):
    """The weights of a multi-head attention; see `multi_head_attention`."""

    in_weight: Any
    in_bias: Any
    q_weight: Any
    k_weight: Any
    v_weight: Any

    def apply(self, query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
        """Queries, keys and values; ``None`` for a key or value that equals the one before it."""
        size = query.shape[-1]
        if self.in_weight is not None and key is None and value is None:
            q, k, v = jnp.split(_affine(query, self.in_weight, self.in_bias), 3, -1)
            return q, k, v
        key = query if key is None else key
        value = key if value is None else value
        if self.in_weight is None:
            weights = [self.q_weight, self.k_weight, self.v_weight]
        else:
            weights = jnp.split(self.in_weight, (size, 2 * size))
        biases = [None] * 3 if self.in_bias is None else jnp.split(self.in_bias, 3)
        inputs = (query, key, value)
        q, k, v = (_affine(*each) for each in zip(inputs, weights, biases, strict=True))
        return q, k, v


def _affine(input: Any, weight: Any, bias: Any) -> Any:
    product = jnp.matmul(input, weight.T)
    return product if bias is None else product + spread(bias, product.shape)


@op
def multi_head_attention(
    query: Array,
    key: Array | None,
    value: Array | None,
    in_proj_weight: Array | None,
    in_proj_bias: Array | None,
    q_proj_weight: Array | None,
    k_proj_weight: Array | None,
    v_proj_weight: Array | None,
    bias_k: Array | None,
    bias_v: Array | None,
    out_proj_weight: Array,
    out_proj_bias: Array | None,
    static_k: Array | None,
    static_v: Array | None,
    key_padding_mask: Array | None,
    attn_mask: Array | None,
    dropout_mask: Array | None,
    dropout_p: float,
    num_heads: int,
    add_zero_attn: bool,
    is_causal: bool,
    need_weights: bool,
    average_attn_weights: bool,
) -> Array:
    """Multi-head attention, each head on a share of the features.

    Args:
        query: ``(L, N, E)``.
        key: ``(S, N, kdim)``; ``None`` for the query.
        value: ``(S, N, vdim)``; ``None`` for the key.
        in_proj_weight: ``(3 * E, E)``, or ``None`` for three separate ones.
        in_proj_bias: ``(3 * E,)``.
        q_proj_weight: ``(E, E)``.
        k_proj_weight: ``(E, kdim)``.
        v_proj_weight: ``(E, vdim)``.
        bias_k: ``(1, 1, E)``, an extra key.
        bias_v: ``(1, 1, E)``, an extra value.
        out_proj_weight: ``(E, E)``.
        out_proj_bias: ``(E,)``.
        static_k: ``(N * num_heads, S, E / num_heads)``, used instead of the keys.
        static_v: Of the same shape, used instead of the values.
        key_padding_mask: ``(N, S)``: true where a key is masked, or numbers to add.
        attn_mask: ``(L, S)`` or ``(N * num_heads, L, S)``: true where a key is masked for a query,
            or numbers to add.
        dropout_mask: ``(N * num_heads, L, S')``, true where a weight is kept.
        dropout_p: The dropout probability of the mask.
        num_heads: The number of heads.
        add_zero_attn: Add an extra key and value of zeros.
        is_causal: A query attends to the keys up to its own position; without masks.
        need_weights: Return the attention weights too.
        average_attn_weights: Return their mean over the heads.

    Returns:
        ``(L, N, E)``, and with ``need_weights`` the weights: ``(N, L, S')``, or
        ``(N, num_heads, L, S')`` of each head.

    Raises:
        RuntimeError: The dtypes differ, or shapes do not match.
    """
    projected = (
        query, key, value, in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight,
        in_proj_bias, out_proj_weight, out_proj_bias,
    )  # fmt: skip
    same_dtype("multi_head_attention_forward", *(each for each in projected if each is not None))
    needs_floating("multi_head_attention_forward", query)
    length, batch, size = query.shape
    _check_map("in_proj", in_proj_weight, in_proj_bias, size)
    _check_map("out_proj", out_proj_weight, out_proj_bias, size)
    head = size // num_heads
    weights = Projections(in_proj_weight, in_proj_bias, q_proj_weight, k_proj_weight, v_proj_weight)
    q, k, v = weights.apply(query, key, value)
    if bias_k is not None and bias_v is not None:
        k = jnp.concatenate([k, jnp.broadcast_to(bias_k, (1, batch, size))])
        v = jnp.concatenate([v, jnp.broadcast_to(bias_v, (1, batch, size))])

    def heads_of(array: Any) -> Any:
        return array.reshape(array.shape[0], batch, num_heads, head).transpose(1, 2, 0, 3)

    queries = heads_of(q)
    keys = heads_of(k) if static_k is None else static_k.reshape(batch, num_heads, -1, head)
    values = heads_of(v) if static_v is None else static_v.reshape(batch, num_heads, -1, head)
    if add_zero_attn:
        keys, values = (jnp.pad(each, ((0, 0), (0, 0), (0, 1), (0, 0))) for each in (keys, values))
    added = _added_scores(key_padding_mask, attn_mask, keys.shape, length, query.dtype)
    if dropout_mask is not None:
        dropout_mask = dropout_mask.reshape(batch, num_heads, length, -1)
    if need_weights:
        found, shown = _with_weights(queries, keys, values, added, dropout_mask, dropout_p)
    else:
        found = attention(queries, keys, values, added, dropout_mask, dropout_p, is_causal)
        shown = None
    joined = found.transpose(2, 0, 1, 3).reshape(length, batch, size)
    output = _affine(joined, out_proj_weight, out_proj_bias)
    if shown is None:
        return output
    return output, jnp.mean(shown, 1) if average_attn_weights else shown


def _check_map(name: str, weight: Any, bias: Any, size: int) -> None:
    if weight is None:
        return
    if weight.ndim != 2 or weight.shape[1] != size:
        raise RuntimeError(
            f"multi_head_attention_forward(): {name}_weight must have {size} columns, got shape "
            f"{list(weight.shape)}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise RuntimeError(
            f"multi_head_attention_forward(): {name}_bias must have shape {[weight.shape[0]]}, "
            f"got {list(bias.shape)}"
        )


def _added_scores(
    key_padding_mask: Any, attn_mask: Any, keys: tuple[int, ...], length: int, dtype: Any
) -> Any:
    """Both masks as numbers to add to the scores; ``None`` without masks."""
    batch, heads, count, _ = keys
    total = None
    if attn_mask is not None:
        shape = (1, 1) if attn_mask.ndim == 2 or attn_mask.shape[0] == 1 else (batch, heads)
        total = _as_scores(attn_mask, count, dtype).reshape(*shape, length, count)
    if key_padding_mask is not None:
        padding = _as_scores(key_padding_mask, count, dtype)[:, None, None, :]
        total = padding if total is None else total + padding
    return total


def _as_scores(mask: Any, count: int, dtype: Any) -> Any:
    if mask.dtype == jnp.bool_:
        mask = jnp.where(mask, -jnp.inf, 0.0)
    # Keys appended to the given ones are never masked.
    behind = [(0, 0)] * (mask.ndim - 1) + [(0, count - mask.shape[-1])]
    return jnp.pad(mask.astype(dtype), behind)


def _with_weights(
    queries: Any, keys: Any, values: Any, added: Any, dropout_mask: Any, dropout_p: float
) -> tuple[Any, Any]:
    scores = jnp.einsum("nhle,nhse->nhls", queries * math.sqrt(1.0 / queries.shape[-1]), keys)
    if added is not None:
        scores = scores + added
    weights = softmax_of_scores(scores)
    if dropout_mask is not None:
        factor = 0.0 if dropout_p == 1 else 1.0 / (1.0 - dropout_p)
        weights = weights * jnp.where(dropout_mask, factor, 0.0).astype(weights.dtype)
    return jnp.einsum("nhls,nhse->nhle", weights, values), weights
