"""The Transformer: encoder, decoder, and their layers.

Vaswani et al., Attention Is All You Need, https://arxiv.org/abs/1706.03762
"""

from __future__ import annotations

from collections.abc import Callable

from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.common_types import DeviceLike, DTypeLike
from flambeau.nn.module import Module
from flambeau.nn.modules.normalization import LayerNorm
from flambeau.nn.modules.transformer_layers import (
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    _get_activation_fn,  # noqa: F401 (packages use it)
)
from flambeau.nn.modules.transformer_stacks import TransformerDecoder, TransformerEncoder
from flambeau.ops.factories.creation import full

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


class Transformer(Module):
    """An encoder of a source sequence, and a decoder that attends to it and to a target sequence.

    Shapes: source ``(S, N, d_model)`` and target ``(T, N, d_model)`` to ``(T, N, d_model)``. With
    ``batch_first`` N comes first; N can also be omitted.

    Args:
        d_model: Features of both sequences.
        nhead: Heads of each attention; a divisor of ``d_model``.
        num_encoder_layers: Layers of the encoder.
        num_decoder_layers: Layers of the decoder.
        dim_feedforward: Features between the two linear maps of each layer.
        dropout: The probability of dropping, in training.
        activation: The function between the two linear maps: ``"relu"``, ``"gelu"`` or a callable.
        custom_encoder: A module that replaces the encoder.
        custom_decoder: A module that replaces the decoder.
        layer_norm_eps: The ``eps`` of the layer normalizations.
        batch_first: Whether batches are ``(N, T, d_model)``.
        norm_first: Whether to normalize before attention and linear maps rather than after them.
        bias: Whether linear maps and normalizations have biases.
        device: The device of the parameters.
        dtype: The dtype of the parameters.

    >>> import flambeau
    >>> from flambeau import nn
    >>> model = nn.Transformer(16, nhead=2, num_encoder_layers=1, num_decoder_layers=1)
    >>> model(flambeau.zeros(10, 3, 16), flambeau.zeros(7, 3, 16)).shape
    flambeau.Size([7, 3, 16])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        layer_arguments = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, device, dtype,
        )  # fmt: skip
        norm_options = {"eps": layer_norm_eps, "bias": bias, "device": device, "dtype": dtype}
        if custom_encoder is None:
            layer = TransformerEncoderLayer(*layer_arguments)
            norm = LayerNorm(d_model, **norm_options)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm)
        self.encoder = custom_encoder
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*layer_arguments)
            norm = LayerNorm(d_model, **norm_options)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, norm)
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The decoder's output for the target sequence, given the source.

        Masks are true where attention is masked, or numbers to add to the scores.

        Args:
            src: The source; see the class.
            tgt: The target; see the class.
            src_mask: ``(S, S)`` or ``(N * nhead, S, S)``: masks source positions for source
                positions.
            tgt_mask: ``(T, T)`` or ``(N * nhead, T, T)``: masks target positions for target
                positions.
            memory_mask: ``(T, S)`` or ``(N * nhead, T, S)``: masks source positions for target
                positions.
            src_key_padding_mask: ``(N, S)``, or ``(S,)`` without N: masks source positions in the
                encoder.
            tgt_key_padding_mask: ``(N, T)``, or ``(T,)``: masks target positions.
            memory_key_padding_mask: ``(N, S)``, or ``(S,)``: masks source positions in the decoder.
            src_is_causal: Whether ``src_mask`` is the causal mask, whose values are then not read.
            tgt_is_causal: Likewise ``tgt_mask``.
            memory_is_causal: Likewise ``memory_mask``.

        Raises:
            RuntimeError: The batches differ, or the features are not ``d_model``.
        """
        shapes = f"got src {list(src.shape)} and tgt {list(tgt.shape)}"
        batch_dim = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch_dim) != tgt.size(batch_dim):
            raise RuntimeError(f"Transformer: src and tgt must be of one batch size, {shapes}")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError(
                f"Transformer: src and tgt must have d_model={self.d_model} features, {shapes}"
            )
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: DeviceLike = None, dtype: DTypeLike = None
    ) -> Tensor:
        """The causal mask ``(sz, sz)``: minus infinity for attention to a later position.

        >>> from flambeau import nn
        >>> nn.Transformer.generate_square_subsequent_mask(3)
        tensor([[0., -inf, -inf],
                [0., 0., -inf],
                [0., 0., 0.]])
        """
        return full((sz, sz), float("-inf"), device=device, dtype=dtype).triu(1)

    def _reset_parameters(self) -> None:
        for each in self.parameters():
            if each.dim() > 1:
                init.xavier_uniform_(each)
