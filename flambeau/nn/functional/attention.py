"""Attention."""

from __future__ import annotations

from flambeau.core.operators.overrides import asks
from flambeau.core.support.dtype import bool as BOOL
from flambeau.core.support.tracebacks import trim
from flambeau.core.values.tensor import Tensor
from flambeau.ops.draws.sampling import keep_mask
from flambeau.ops.neural import attention as ops
from flambeau.ops.neural.multihead import multi_head_attention

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


@asks
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

    The memory is linear in the length of long sequences, unless ``dropout_p`` is set.

    Args:
        query: ``(..., Hq, L, E)``.
        key: ``(..., H, S, E)``.
        value: ``(..., H, S, Ev)``.
        attn_mask: Broadcasts to ``(..., Hq, L, S)``: true where a query attends to a key, or
            numbers to add to the scores. A query without keys gives zeros.
        dropout_p: The probability of dropping a weight, also in evaluation: pass 0 there.
        is_causal: A query attends to the keys up to its own position.
        scale: By default ``1 / sqrt(E)``.
        enable_gqa: Each head of ``key`` and ``value`` serves ``Hq / H`` heads of ``query``.

    Returns:
        ``(..., Hq, L, Ev)``.

    Raises:
        RuntimeError: Shapes or dtypes do not match, there are both a mask and ``is_causal``, or
            ``dropout_p`` is not from 0 to 1.

    >>> import flambeau
    >>> import flambeau.nn.functional as F
    >>> query, key = flambeau.ones(1, 2, 5, 8), flambeau.ones(1, 2, 7, 8)
    >>> F.scaled_dot_product_attention(query, key, key).shape
    flambeau.Size([1, 2, 5, 8])
    """
    kept = None
    try:
        if dropout_p != 0.0:
            if not 0.0 <= dropout_p <= 1.0:
                raise RuntimeError(
                    "scaled_dot_product_attention(): dropout_p must be from 0 to 1, got "
                    f"{dropout_p}"
                )
            kept = keep_mask((*query.shape[:-1], key.size(-2)), dropout_p, device=query.device)
        return ops.scaled_dot_product_attention(
            query, key, value, attn_mask, kept, dropout_p, is_causal, scale, enable_gqa
        )
    except Exception as error:
        trim(error)
        raise


@asks
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Multi-head attention, each head on a share of the features; see `nn.MultiheadAttention`.

    Args:
        query: ``(L, N, E)`` or ``(L, E)``.
        key: ``(S, N, kdim)`` or ``(S, kdim)``.
        value: ``(S, N, vdim)`` or ``(S, vdim)``.
        embed_dim_to_check: The size that E must have.
        num_heads: The number of heads; a divisor of E.
        in_proj_weight: ``(3 * E, E)``, the projections of query, key and value.
        in_proj_bias: ``(3 * E,)``.
        bias_k: ``(1, 1, E)``, an extra key.
        bias_v: ``(1, 1, E)``, an extra value.
        add_zero_attn: Add an extra key and value of zeros.
        dropout_p: The probability of dropping a weight, in training.
        out_proj_weight: ``(E, E)``.
        out_proj_bias: ``(E,)``.
        training: Whether to drop weights.
        key_padding_mask: ``(N, S)`` or ``(S,)``: true where a key is masked, or numbers to add.
        need_weights: Return the attention weights too.
        attn_mask: ``(L, S)`` or ``(N * num_heads, L, S)``: true where a key is masked for a query,
            or numbers to add.
        use_separate_proj_weight: Use the next three weights instead of ``in_proj_weight``.
        q_proj_weight: ``(E, E)``.
        k_proj_weight: ``(E, kdim)``.
        v_proj_weight: ``(E, vdim)``.
        static_k: ``(N * num_heads, S, E / num_heads)``, used instead of the keys.
        static_v: Of the same shape, used instead of the values.
        average_attn_weights: Return the mean of the weights over the heads.
        is_causal: ``attn_mask``, which must be given, is the causal mask.

    Returns:
        The output, of the shape of ``query``, and the weights, ``(N, L, S)`` or ``(N, num_heads, L,
        S)``, or ``None``.

    Raises:
        AssertionError: Sizes do not match, or a mask is neither bool nor floating point.
        RuntimeError: ``attn_mask`` has another shape, or ``is_causal`` comes without mask.
    """
    unbatched = query.dim() == 2
    _check_heads(
        query, key, value, key_padding_mask, attn_mask, embed_dim_to_check, num_heads, is_causal
    )
    first, second, third = query, key, value
    if unbatched:
        first = query.unsqueeze(1)
        second = first if key is query else key.unsqueeze(1)
        third = second if value is key else value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, batch, _ = first.shape
    count = second.size(0) if static_k is None else static_k.size(1)
    count_added = count + (bias_k is not None) + bool(add_zero_attn)
    _check_weights(
        second, third, batch, num_heads, count, embed_dim_to_check, use_separate_proj_weight,
        in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, bias_k, bias_v, static_k,
        static_v,
    )  # fmt: skip
    _check_masks(key_padding_mask, attn_mask, batch, num_heads, length, count)
    causal = is_causal and key_padding_mask is None and not need_weights
    causal = causal and count_added == count
    dropout_p = dropout_p if training else 0.0
    kept = None
    if dropout_p > 0.0:
        kept = keep_mask((batch * num_heads, length, count_added), dropout_p, device=query.device)
    packed = not use_separate_proj_weight
    result = multi_head_attention(
        first,
        None if second is first else second,
        None if third is second else third,
        in_proj_weight if packed else None,
        in_proj_bias,
        None if packed else q_proj_weight,
        None if packed else k_proj_weight,
        None if packed else v_proj_weight,
        bias_k,
        bias_v,
        out_proj_weight,
        out_proj_bias,
        static_k,
        static_v,
        key_padding_mask,
        None if causal else attn_mask,
        kept,
        dropout_p,
        num_heads,
        bool(add_zero_attn),
        causal,
        need_weights,
        average_attn_weights,
    )
    output, weights = result if need_weights else (result, None)
    if unbatched:
        output = output.squeeze(1)
        weights = None if weights is None else weights.squeeze(0)
    return output, weights


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(f"multi_head_attention_forward(): {message}")


def _check_heads(
    query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None,
    attn_mask: Tensor | None, size: int, num_heads: int, is_causal: bool,
) -> None:  # fmt: skip
    shapes = f"got query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}"
    _require(query.dim() in (2, 3), f"query must be (L, N, E) or (L, E), {shapes}")
    _require(
        key.dim() == query.dim() == value.dim(),
        f"query, key and value must have as many dimensions, {shapes}",
    )
    if key_padding_mask is not None:
        _require(
            key_padding_mask.dim() == query.dim() - 1,
            f"key_padding_mask must be {query.dim() - 1}-d for a {query.dim()}-d query, got shape "
            f"{list(key_padding_mask.shape)}",
        )
    if attn_mask is not None:
        _require(
            attn_mask.dim() in (2, 3),
            f"attn_mask must be (L, S) or (N * num_heads, L, S), got {list(attn_mask.shape)}",
        )
        if query.dim() == 2 == attn_mask.dim() - 1:
            expected = [num_heads, query.size(0), key.size(0)]
            _require(
                list(attn_mask.shape) == expected,
                f"attn_mask must have shape {expected}, got {list(attn_mask.shape)}",
            )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "multi_head_attention_forward(): is_causal says that attn_mask is the causal one; "
            "give attn_mask too, as Transformer.generate_square_subsequent_mask() makes it"
        )
    _require(query.size(-1) == size, f"the query's last dimension must be {size}, {shapes}")
    _require(
        size % num_heads == 0, f"num_heads={num_heads} does not divide the embedding size {size}"
    )


def _check_weights(
    key: Tensor, value: Tensor, batch: int, num_heads: int, count: int, size: int, separate: bool,
    in_proj_weight: Tensor | None, q_proj_weight: Tensor | None, k_proj_weight: Tensor | None,
    v_proj_weight: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None,
    static_k: Tensor | None, static_v: Tensor | None,
) -> None:  # fmt: skip
    shapes = f"got key {list(key.shape)}, value {list(value.shape)}"
    # Three separate maps have sizes of their own.
    if not separate and key.size(-1) != size:
        raise RuntimeError(
            "multi_head_attention_forward(): mat1 and mat2 shapes cannot be multiplied: the key's "
            f"last dimension must be {size}, {shapes}"
        )
    if separate:
        _require(key.shape[:2] == value.shape[:2], f"key and value must match, {shapes}")
        _require(q_proj_weight is not None, "use_separate_proj_weight needs q_proj_weight")
        _require(k_proj_weight is not None, "use_separate_proj_weight needs k_proj_weight")
        _require(v_proj_weight is not None, "use_separate_proj_weight needs v_proj_weight")
    else:
        _require(key.shape == value.shape, f"key and value must have one shape, {shapes}")
        _require(in_proj_weight is not None, "in_proj_weight is needed")
    _require((bias_k is None) == (bias_v is None), "give both bias_k and bias_v, or neither")
    if bias_k is not None:
        _require(static_k is None, "a bias cannot be added to static_k")
        _require(static_v is None, "a bias cannot be added to static_v")
    expected = [batch * num_heads, count, size // num_heads]
    for name, each in (("static_k", static_k), ("static_v", static_v)):
        if each is not None:
            _require(
                list(each.shape) == expected,
                f"{name} must have shape {expected}, got {list(each.shape)}",
            )


def _check_masks(
    key_padding_mask: Tensor | None, attn_mask: Tensor | None, batch: int, num_heads: int,
    length: int, count: int,
) -> None:  # fmt: skip
    for name, mask in (("key_padding_mask", key_padding_mask), ("attn_mask", attn_mask)):
        if mask is not None:
            _require(
                mask.dtype is BOOL or mask.is_floating_point(),
                f"{name} must be bool or floating point, got {mask.dtype}",
            )
    if key_padding_mask is not None:
        _require(
            list(key_padding_mask.shape) == [batch, count],
            f"key_padding_mask must have shape {[batch, count]}, got "
            f"{list(key_padding_mask.shape)}",
        )
    if attn_mask is None:
        return
    expected = [length, count] if attn_mask.dim() == 2 else [batch * num_heads, length, count]
    if list(attn_mask.shape) != expected:
        raise RuntimeError(
            f"multi_head_attention_forward(): attn_mask must have shape {expected}, "
            f"got {list(attn_mask.shape)}"
        )
