"""One layer of the Transformer's encoder, and one of its decoder."""

from __future__ import annotations

from collections.abc import Callable

from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.common_types import DeviceLike, DTypeLike, Kwargs
from flambeau.nn.functional.masks import check_masks
from flambeau.nn.module import Module
from flambeau.nn.modules.activation import GELU, ReLU
from flambeau.nn.modules.dropout import Dropout
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.multihead_attention import MultiheadAttention
from flambeau.nn.modules.normalization import LayerNorm

__all__ = ["TransformerDecoderLayer", "TransformerEncoderLayer"]

_ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu}


def _get_activation_fn(
    activation: str | Callable[[Tensor], Tensor],
) -> Callable[[Tensor], Tensor]:
    """The function of a name; private, but packages use it."""
    if not isinstance(activation, str):
        return activation
    if activation not in _ACTIVATIONS:
        raise RuntimeError(f"the activation must be 'relu' or 'gelu', got {activation!r}")
    return _ACTIVATIONS[activation]


class TransformerEncoderLayer(Module):
    """Self-attention of a sequence, then two linear maps; each is added to its input.

    ``x = norm1(x + attention(x))``, then ``x = norm2(x + linear2(activation(linear1(x))))``. With
    ``norm_first``, ``x = x + attention(norm1(x))`` and so on, which trains more easily
    (https://arxiv.org/abs/2002.04745).

    Shapes: ``(S, N, d_model)`` to the same. With ``batch_first`` N comes first; N can also be
    omitted.

    Args:
        d_model: Features of the sequence.
        nhead: Heads of the attention; a divisor of ``d_model``.
        dim_feedforward: Features between the two linear maps.
        dropout: The probability of dropping, in training.
        activation: The function between the two linear maps: ``"relu"``, ``"gelu"`` or a callable.
        layer_norm_eps: The ``eps`` of the layer normalizations.
        batch_first: Whether batches are ``(N, S, d_model)``.
        norm_first: See above.
        bias: Whether linear maps and normalizations have biases.
        device: The device of the parameters.
        dtype: The dtype of the parameters.

    Raises:
        RuntimeError: There is no activation of that name.
    """

    __constants__: list[str] = ["norm_first"]

    activation: Callable[[Tensor], Tensor]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        options: Kwargs = {"bias": bias, "device": device, "dtype": dtype}
        super().__init__()
        self.self_attn: MultiheadAttention = MultiheadAttention(
            d_model, nhead, dropout=dropout, batch_first=batch_first, **options
        )
        self.linear1: Linear = Linear(d_model, dim_feedforward, **options)
        self.dropout: Dropout = Dropout(dropout)
        self.linear2: Linear = Linear(dim_feedforward, d_model, **options)
        self.norm_first = norm_first
        self.norm1: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.norm2: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.dropout1: Dropout = Dropout(dropout)
        self.dropout2: Dropout = Dropout(dropout)
        chosen = _get_activation_fn(activation)
        is_relu = chosen is F.relu or isinstance(chosen, ReLU)
        is_gelu = chosen is F.gelu or isinstance(chosen, GELU)
        self.activation_relu_or_gelu = 1 if is_relu else 2 if is_gelu else 0
        self.activation = chosen

    def __setstate__(self, state: Kwargs) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The sequence after attention and linear maps.

        Args:
            src: The sequence.
            src_mask: Masks positions for positions; see `Transformer.forward`.
            src_key_padding_mask: Masks positions; see there.
            is_causal: Whether ``src_mask`` is the causal mask.
        """
        padding, mask = check_masks(
            src_key_padding_mask, "src_key_padding_mask", src_mask, "src_mask", src.dtype
        )
        if self.norm_first:
            x = src + self._sa_block(self.norm1(src), mask, padding, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(src + self._sa_block(src, mask, padding, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(
        self,
        x: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        found, _ = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            is_causal=is_causal,
        )
        return self.dropout1(found)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(Module):
    """Self-attention of a sequence, then attention to another, then two linear maps.

    Each is added to its input, which is normalized before or after as in
    `TransformerEncoderLayer`.

    Shapes: ``(T, N, d_model)`` and the other sequence ``(S, N, d_model)`` to ``(T, N, d_model)``.
    With ``batch_first`` N comes first; N can also be omitted.

    Args:
        d_model: Features of the sequences.
        nhead: Heads of each attention; a divisor of ``d_model``.
        dim_feedforward: Features between the two linear maps.
        dropout: The probability of dropping, in training.
        activation: The function between the two linear maps: ``"relu"``, ``"gelu"`` or a callable.
        layer_norm_eps: The ``eps`` of the layer normalizations.
        batch_first: Whether batches are ``(N, T, d_model)``.
        norm_first: Whether to normalize before attention and linear maps rather than after them.
        bias: Whether linear maps and normalizations have biases.
        device: The device of the parameters.
        dtype: The dtype of the parameters.

    Raises:
        RuntimeError: There is no activation of that name.
    """

    __constants__: list[str] = ["norm_first"]

    activation: Callable[[Tensor], Tensor]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        options: Kwargs = {"bias": bias, "device": device, "dtype": dtype}
        super().__init__()
        self.self_attn: MultiheadAttention = MultiheadAttention(
            d_model, nhead, dropout=dropout, batch_first=batch_first, **options
        )
        self.multihead_attn: MultiheadAttention = MultiheadAttention(
            d_model, nhead, dropout=dropout, batch_first=batch_first, **options
        )
        self.linear1: Linear = Linear(d_model, dim_feedforward, **options)
        self.dropout: Dropout = Dropout(dropout)
        self.linear2: Linear = Linear(dim_feedforward, d_model, **options)
        self.norm_first = norm_first
        self.norm1: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.norm2: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.norm3: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.dropout1: Dropout = Dropout(dropout)
        self.dropout2: Dropout = Dropout(dropout)
        self.dropout3: Dropout = Dropout(dropout)
        self.activation = _get_activation_fn(activation)

    def __setstate__(self, state: Kwargs) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The sequence after both attentions and the linear maps.

        Args:
            tgt: The sequence.
            memory: The encoder's output for the other sequence.
            tgt_mask: Masks positions of ``tgt`` for each other; see `Transformer.forward`.
            memory_mask: Masks positions of ``memory`` for positions of ``tgt``; see there.
            tgt_key_padding_mask: Masks positions of ``tgt``; see there.
            memory_key_padding_mask: Masks positions of ``memory``; see there.
            tgt_is_causal: Whether ``tgt_mask`` is the causal mask.
            memory_is_causal: Whether ``memory_mask`` is the causal one.
        """
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = tgt + self._sa_block(self.norm1(tgt), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(tgt + self._sa_block(tgt, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(
        self,
        x: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        found, _ = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )
        return self.dropout1(found)

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        found, _ = self.multihead_attn(
            x,
            mem,
            mem,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )
        return self.dropout2(found)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))
