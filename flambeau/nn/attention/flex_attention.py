"""Attention with scores and masks that are functions of positions."""

from flambeau._absent import Absent as _Absent
from flambeau.func.block_mask import DEFAULT_BLOCK_SIZE as _DEFAULT_SPARSE_BLOCK_SIZE  # noqa: F401
from flambeau.func.block_mask import (
    BlockMask,
    _sliced_mask_mod_error,  # noqa: F401 (packages look at it)
    and_masks,
    create_block_mask,
    create_mask,
    noop_mask,
    or_masks,
)
from flambeau.func.flex_attention import AuxOutput, AuxRequest, flex_attention

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask",
    "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)
