"""Checks for the masks of attention layers."""

from __future__ import annotations

from flambeau.core.support.dtype import bool as BOOL
from flambeau.core.support.dtype import dtype
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.ops.factories.creation import zeros_like

__all__: list[str] = []


def check_masks(
    padding: Tensor | None, padding_name: str, mask: Tensor | None, mask_name: str, to: dtype
) -> tuple[Tensor | None, Tensor | None]:
    """Both masks as one kind: booleans that mask, or numbers of a dtype to add to the scores.

    Raises:
        AssertionError: A mask is neither.
    """
    for name, each in ((padding_name, padding), (mask_name, mask)):
        if each is not None and each.dtype is not BOOL and not each.is_floating_point():
            raise AssertionError(f"{name} must be bool or floating point, got {each.dtype}")
    if padding is None or mask is None or padding.dtype == mask.dtype:
        return padding, mask
    warn(
        f"{padding_name} is {padding.dtype} and {mask_name} is {mask.dtype}, which is deprecated: "
        "give both as bool, or both as floating point",
    )
    return _as_numbers(padding, to), _as_numbers(mask, to)


def _as_numbers(mask: Tensor, to: dtype) -> Tensor:
    if mask.dtype is not BOOL:
        return mask
    return zeros_like(mask, dtype=to).masked_fill(mask, float("-inf"))
