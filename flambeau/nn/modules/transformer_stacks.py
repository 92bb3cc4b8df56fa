"""Stacks of Transformer layers."""

from __future__ import annotations

import copy

from flambeau.core.values.tensor import Tensor
from flambeau.nn.functional.masks import check_masks
from flambeau.nn.module import Module
from flambeau.nn.modules.container import ModuleList

__all__ = ["TransformerDecoder", "TransformerEncoder"]


class TransformerEncoder(Module):
    """A stack of encoder layers.

    Shapes: as for its layers.

    Args:
        encoder_layer: The layer; the stack holds copies of it, which all start with its values.
        num_layers: The number of layers.
        norm: A module for the output of the last layer, or ``None``.
        enable_nested_tensor: Accepted for compatibility, which may then skip masked positions in
            evaluation. Their output has no meaning; here the layers compute it as usual.
        mask_check: Accepted for PyTorch's sake.

    >>> import flambeau
    >>> from flambeau import nn
    >>> layer = nn.TransformerEncoderLayer(16, nhead=2, batch_first=True)
    >>> nn.TransformerEncoder(layer, num_layers=2)(flambeau.zeros(3, 10, 16)).shape
    flambeau.Size([3, 10, 16])
    """

    __constants__: list[str] = ["norm"]

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers: ModuleList = ModuleList(
            [copy.deepcopy(encoder_layer) for _ in range(num_layers)]
        )
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = False
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """The output of the last layer.

        Args:
            src: The sequence.
            mask: Masks positions for positions; see `Transformer.forward`.
            src_key_padding_mask: Masks positions; see there.
            is_causal: Whether ``mask`` is the causal mask; ``None`` if not known.
        """
        src_key_padding_mask, mask = check_masks(
            src_key_padding_mask, "src_key_padding_mask", mask, "mask", src.dtype
        )
        output = src
        for layer in self.layers:
            output = layer(
                output,
                src_mask=mask,
                is_causal=is_causal is True,
                src_key_padding_mask=src_key_padding_mask,
            )
        return output if self.norm is None else self.norm(output)


class TransformerDecoder(Module):
    """A stack of decoder layers.

    Shapes: as for its layers.

    Args:
        decoder_layer: The layer; the stack holds copies of it, which all start with its values.
        num_layers: The number of layers.
        norm: A module for the output of the last layer, or ``None``.
    """

    __constants__: list[str] = ["norm"]

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers: ModuleList = ModuleList(
            [copy.deepcopy(decoder_layer) for _ in range(num_layers)]
        )
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The output of the last layer.

        Args:
            tgt: The sequence.
            memory: The encoder's output for the other sequence.
            tgt_mask: Masks positions of ``tgt`` for each other; see `Transformer.forward`.
            memory_mask: Masks positions of ``memory`` for positions of ``tgt``; see there.
            tgt_key_padding_mask: Masks positions of ``tgt``; see there.
            memory_key_padding_mask: Masks positions of ``memory``; see there.
            tgt_is_causal: Whether ``tgt_mask`` is the causal mask; ``None`` if not known.
            memory_is_causal: Whether ``memory_mask`` is the causal one.
        """
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal is True,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)
