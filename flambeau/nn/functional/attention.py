"""Attention."""

from __future__ import annotations

from flambeau.core.tensor import Tensor
from flambeau.ops import attention as ops
from flambeau.ops.sampling import keep_mask

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``softmax(query @ key.mT * scale + mask) @ value``.

    Long sequences take memory in proportion to their length, unless ``dropout_p`` is set.

    Args:
        query: ``(..., Hq, L, E)``.
        key: ``(..., H, S, E)``.
        value: ``(..., H, S, Ev)``.
        attn_mask: Broadcasts to ``(..., Hq, L, S)``: true where a query may see a key, or a number
            to add to its score. A query that sees nothing gives zeros.
        dropout_p: The probability to drop a weight, in evaluation too: give 0 there.
        is_causal: A query sees the keys up to its own position.
        scale: By default ``1 / sqrt(E)``.
        enable_gqa: Each head of ``key`` and ``value`` serves ``Hq / H`` heads of ``query``.

    Returns:
        ``(..., Hq, L, Ev)``.

    Raises:
        RuntimeError: Shapes or dtypes do not match, or there are both a mask and ``is_causal``.
        ValueError: ``dropout_p`` is not from 0 to 1.

    >>> import flambeau
    >>> import flambeau.nn.functional as F
    >>> query, key = flambeau.ones(1, 2, 5, 8), flambeau.ones(1, 2, 7, 8)
    >>> F.scaled_dot_product_attention(query, key, key).shape
    flambeau.Size([1, 2, 5, 8])
    """
    kept = None
    if dropout_p != 0.0:
        if not 0.0 <= dropout_p <= 1.0:
            raise ValueError(
                f"scaled_dot_product_attention(): dropout_p must be from 0 to 1, got {dropout_p}"
            )
        kept = keep_mask((*query.shape[:-1], key.size(-2)), dropout_p, device=query.device)
    return ops.scaled_dot_product_attention(
        query, key, value, attn_mask, kept, dropout_p, is_causal, scale, enable_gqa
    )
