"""Lists of tensors grouped by device and dtype, under the names of PyTorch's private module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.values.tensor import Tensor

__all__: list[str] = []


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Tensor | None]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Tensor | None]], list[int]]]:
    """Lists of equal length grouped by the devices and dtypes of the first one's tensors.

    Args:
        tensorlistlist: The lists.
        with_indices: Return the positions too.

    Returns:
        For each device and dtype, the lists and the positions.
    """
    groups: dict[tuple[Any, Any], tuple[list[list[Tensor | None]], list[int]]] = {}
    for position, members in enumerate(zip(*tensorlistlist, strict=True)):
        first = members[0]
        assert first is not None
        lists, places = groups.setdefault(
            (first.device, first.dtype), ([[] for _ in tensorlistlist], [])
        )
        for own, member in zip(lists, members, strict=True):
            own.append(member)
        if with_indices:
            places.append(position)
    return groups


def _get_foreach_kernels_supported_devices() -> list[str]:
    """The kinds of devices on which ``_foreach`` functions run."""
    return ["cpu", "cuda", "tpu"]


def _has_foreach_support(tensors: Sequence[Tensor | None], device: Any) -> bool:
    """``True``: they run on every device."""
    return True


def _device_has_foreach_support(device: Any) -> bool:
    """``True``: they run on every device."""
    return True
