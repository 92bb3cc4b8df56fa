"""Causal masks for queries and keys of different lengths, as `torch.nn.attention.bias` has them."""

from __future__ import annotations

from enum import IntEnum

from flambeau.core.support.dtype import bool as bool_dtype
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.ops.factories.creation import ones

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """The corner of the scores at which the diagonal begins or ends."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """The mask, for `scaled_dot_product_attention` as its ``attn_mask``: a tensor of bools.

    Args:
        variant: The kind of mask.
        seq_len_q: The number of queries.
        seq_len_kv: The number of keys.
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    @staticmethod
    def __new__(
        cls: type[CausalBias], variant: CausalVariant, seq_len_q: int, seq_len_kv: int
    ) -> CausalBias:
        if not isinstance(variant, CausalVariant):
            raise TypeError(f"CausalBias(): variant must be a CausalVariant, got {variant!r:.80}")
        is_lower = variant is CausalVariant.LOWER_RIGHT
        if is_lower and seq_len_q > seq_len_kv:
            warn(
                "Lower right causal bias will produce NaNs in the output when seq_len_q > "
                "seq_len_kv: the first queries see no key"
            )
        last = seq_len_kv - seq_len_q if is_lower else 0
        mask = ones(seq_len_q, seq_len_kv, dtype=bool_dtype).tril(last)
        tensor = Tensor._make_subclass(cls, mask)
        tensor.variant, tensor.seq_len_q, tensor.seq_len_kv = variant, seq_len_q, seq_len_kv
        return tensor

    def __repr__(self, **options: object) -> str:
        return self.as_subclass(Tensor).__repr__(**options)


def causal_upper_left(*size: int) -> CausalBias:
    """The mask with which query ``i`` attends to the keys up to ``i``: ``(queries, keys)``.

    >>> from flambeau.nn.attention.bias import causal_upper_left
    >>> causal_upper_left(2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    return CausalBias(CausalVariant.UPPER_LEFT, *_two(size))


def causal_lower_right(*size: int) -> CausalBias:
    """The mask with which the last query attends to all keys, and each earlier one to one key less.

    >>> from flambeau.nn.attention.bias import causal_lower_right
    >>> causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    return CausalBias(CausalVariant.LOWER_RIGHT, *_two(size))


def _two(size: tuple[int, ...]) -> tuple[int, int]:
    if len(size) != 2:
        raise RuntimeError(f"a causal bias is a matrix of queries and keys, got sizes {size}")
    return size
