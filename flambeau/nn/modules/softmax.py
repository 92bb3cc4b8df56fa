"""Softmax, its logarithm and softmin as layers; see `flambeau.nn.modules.activation`."""

from __future__ import annotations

from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.common_types import Kwargs
from flambeau.nn.module import Module

__all__ = ["LogSoftmax", "Softmax", "Softmax2d", "Softmin"]


class _AlongDim(Module):
    """A function of the elements along one dimension.

    Args:
        dim: The dimension. Omitting it is deprecated.
    """

    __constants__: list[str] = ["dim"]
    _repr_attributes = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: Kwargs) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)


class Softmax(_AlongDim):
    """``exp(x) / sum(exp(x))`` along a dimension.

    Shapes: any to the same.

    Args:
        dim: The dimension along which the results sum to 1. Omitting it is deprecated.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Softmax(dim=0)(flambeau.zeros(2))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class Softmin(_AlongDim):
    """`Softmax` of ``-x``: small elements get large shares.

    Args:
        dim: The dimension along which the results sum to 1. Omitting it is deprecated.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """The logarithm of `Softmax`, without overflow.

    Args:
        dim: The dimension along which the exponentials sum to 1. Omitting it is deprecated.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """`Softmax` over the channels at each point of an image.

    Shapes: ``(N, C, H, W)`` or ``(C, H, W)`` to the same.
    """

    def forward(self, input: Tensor) -> Tensor:
        """``exp(input) / sum(exp(input))`` over the channels.

        Raises:
            ValueError: ``input`` has neither 3 nor 4 dimensions.
        """
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d takes (N, C, H, W) or (C, H, W), got shape {list(input.shape)}"
            )
        return F.softmax(input, -3, _stacklevel=5)
