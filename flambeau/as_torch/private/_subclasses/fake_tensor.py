"""`torch._subclasses.fake_tensor`: tensors without elements."""

from __future__ import annotations

from typing import Any

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake"]


class FakeTensor:
    """A tensor that has a shape only; nothing is one: those on the meta device are Tensors."""


class FakeTensorMode:
    """A block in which PyTorch's operators compute shapes only.

    Raises:
        NotImplementedError: One is made.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            'with flambeau.device("meta"): makes tensors that have a shape and a dtype only'
        )


def is_fake(x: Any) -> bool:
    """``False``: tensors without elements are on the meta device."""
    return False
