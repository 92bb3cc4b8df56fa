"""Multi-head attention as a layer.

Vaswani et al., Attention Is All You Need, https://arxiv.org/abs/1706.03762
"""

from __future__ import annotations

from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.common_types import DeviceLike, DTypeLike, Kwargs
from flambeau.nn.functional.masks import check_masks
from flambeau.nn.module import Module
from flambeau.nn.modules.linear import NonDynamicallyQuantizableLinear
from flambeau.nn.parameter import Parameter
from flambeau.ops.factories.creation import empty

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Multi-head attention, each head on a share of the features.

    ``concat(head_1, ..., head_h) @ out_proj.weight.T``, where each head is
    ``softmax(q @ k.T / sqrt(head_dim) + mask) @ v`` of its part of the projections q, k and v of
    query, key and value.

    Shapes: query ``(L, N, embed_dim)``, key ``(S, N, kdim)`` and value ``(S, N, vdim)`` to ``(L, N,
    embed_dim)`` and weights ``(N, L, S)``. With ``batch_first`` N comes first; N can also be
    omitted.

    Args:
        embed_dim: Features of the query and of the output.
        num_heads: The number of heads; a divisor of ``embed_dim``.
        dropout: The probability of dropping an attention weight, in training.
        bias: Whether the projections have biases.
        add_bias_kv: Whether to add one learned key and value.
        add_zero_attn: Whether to add one key and value of zeros.
        kdim: Features of the key, by default ``embed_dim``.
        vdim: Features of the value, by default ``embed_dim``.
        batch_first: Whether batches are ``(N, L, features)``.
        device: The device of the parameters.
        dtype: The dtype of the parameters.

    Attributes:
        in_proj_weight: ``(3 * embed_dim, embed_dim)``, the projections of query, key and value;
            ``None`` if their features differ; there are then three separate weights:
        q_proj_weight: ``(embed_dim, embed_dim)``,
        k_proj_weight: ``(embed_dim, kdim)``,
        v_proj_weight: ``(embed_dim, vdim)``. All are initialized with `init.xavier_uniform_`.
        in_proj_bias: ``(3 * embed_dim,)``, zeros at first, or ``None``.
        out_proj: The map of the joined heads.
        bias_k: ``(1, 1, embed_dim)``, the learned key, or ``None``.
        bias_v: ``(1, 1, embed_dim)``, the learned value, or ``None``.

    Raises:
        ValueError: ``embed_dim`` or ``num_heads`` is not positive.
        AssertionError: ``num_heads`` does not divide ``embed_dim``.

    >>> import flambeau
    >>> from flambeau import nn
    >>> attention = nn.MultiheadAttention(8, num_heads=2, batch_first=True)
    >>> x = flambeau.zeros(3, 5, 8)
    >>> output, weights = attention(x, x, x)
    >>> output.shape, weights.shape
    (flambeau.Size([3, 5, 8]), flambeau.Size([3, 5, 5]))
    """

    __constants__: list[str] = ["batch_first"]

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be positive, got {embed_dim} and {num_heads}"
            )
        if embed_dim % num_heads:
            raise AssertionError(f"num_heads={num_heads} does not divide embed_dim={embed_dim}")
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim: int = embed_dim if kdim is None else kdim
        self.vdim: int = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim: int = embed_dim // num_heads
        same = self._qkv_same_embed_dim
        shapes = {
            "in_proj_weight": (3 * embed_dim, embed_dim) if same else None,
            "q_proj_weight": None if same else (embed_dim, embed_dim),
            "k_proj_weight": None if same else (embed_dim, self.kdim),
            "v_proj_weight": None if same else (embed_dim, self.vdim),
            "in_proj_bias": (3 * embed_dim,) if bias else None,
        }
        for name, shape in shapes.items():
            value = None if shape is None else Parameter(empty(shape, device=device, dtype=dtype))
            self.register_parameter(name, value)
        self.out_proj: NonDynamicallyQuantizableLinear = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        for name in ("bias_k", "bias_v"):
            shape = (1, 1, embed_dim)
            value = Parameter(empty(shape, device=device, dtype=dtype)) if add_bias_kv else None
            setattr(self, name, value)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            init.xavier_uniform_(self.q_proj_weight)
            init.xavier_uniform_(self.k_proj_weight)
            init.xavier_uniform_(self.v_proj_weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            init.xavier_normal_(self.bias_k)
        if self.bias_v is not None:
            init.xavier_normal_(self.bias_v)

    def __setstate__(self, state: Kwargs) -> None:
        super().__setstate__({"_qkv_same_embed_dim": True, **state})

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The attended values of each query, and the attention weights.

        Args:
            query: See the class.
            key: See the class.
            value: See the class.
            key_padding_mask: ``(N, S)``, or ``(S,)`` without N: true where a key is masked, or
                numbers to add to its scores.
            need_weights: Whether to return the weights too, which takes more time and memory.
            attn_mask: ``(L, S)`` or ``(N * num_heads, L, S)``: true where a key is masked for a
                query, or numbers to add to the scores.
            average_attn_weights: Whether to return the mean of the weights over the heads, rather
                than ``(N, num_heads, L, S)``.
            is_causal: Whether ``attn_mask``, which must be given, is the causal mask, whose values
                are then not read.

        Returns:
            The output, and the weights or ``None``.

        Raises:
            AssertionError: Sizes do not match, or a mask is neither bool nor floating point.
            RuntimeError: ``attn_mask`` has another shape, or ``is_causal`` comes without it.
        """
        key_padding_mask, attn_mask = check_masks(
            key_padding_mask, "key_padding_mask", attn_mask, "attn_mask", query.dtype
        )
        swaps = self.batch_first and query.dim() == 3
        if swaps:
            # Keep one tensor one object: a single projection then computes all three.
            own_key, own_value = key is query, value is key
            query = query.transpose(0, 1)
            key = query if own_key else key.transpose(0, 1)
            value = key if own_value else value.transpose(0, 1)
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return output.transpose(0, 1) if swaps else output, weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one.

        Args:
            attn_mask: ``(L, L)`` or ``(N * num_heads, L, L)``.
            key_padding_mask: ``(N, L)``.
            query: ``(N, L, embed_dim)``.

        Returns:
            The only mask, or their sum of shape ``(N, num_heads, L, L)``; and its kind: 1 for
            ``key_padding_mask`` alone, 2 if there is an ``attn_mask``, ``None`` for no mask.
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length, _ = query.shape
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            padding = key_padding_mask.view(batch, 1, 1, length)
            merged = merged + padding.expand(-1, self.num_heads, -1, -1)
        return merged, 2
