"""Names of PyTorch's masked tensors, of which there are none: a mask is a tensor of its own."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau._absent import Absent as _Absent

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]

__getattr__: _Absent = _Absent(__name__)


class MaskedTensor:
    """A tensor with a mask in PyTorch; nothing is one here.

    Raises:
        NotImplementedError: Always.
    """

    def __init__(self, data: Any, mask: Any, requires_grad: bool = False) -> None:
        _refuse("MaskedTensor")


def is_masked_tensor(obj: Any, /) -> bool:
    """``False``: nothing is one."""
    return False


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> NoReturn:
    """Refuse to make one.

    Raises:
        NotImplementedError: Always.
    """
    _refuse("masked_tensor")


def as_masked_tensor(data: Any, mask: Any) -> NoReturn:
    """Refuse to make one.

    Raises:
        NotImplementedError: Always.
    """
    _refuse("as_masked_tensor")


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"{name}(): there are no masked tensors; keep the mask as a tensor of its own, for "
        "flambeau.where, masked_fill and masked_select"
    )
