"""Padding: elements added before and after, in the last one to three dimensions.

``padding`` is one number for all sides, or one for each side, beginning with the last dimension:
``(left, right, top, bottom, front, back)``. A size ``W`` becomes ``W + left + right``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.module import Module

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _PadNd(Module):
    """The base of all padding layers.

    Args:
        padding: One number, or one for each side.
    """

    __constants__: list[str] = ["padding"]
    _repr_attributes = ("*padding",)

    #: The number of padded dimensions.
    _dims = 1
    #: The name of this mode in `functional.pad`.
    _mode = "constant"

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        sides = 2 * self._dims
        self.padding: tuple[int, ...] = (
            tuple(padding) if isinstance(padding, Iterable) else (padding,) * sides
        )

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)


class _CircularPadNd(_PadNd):
    """Padding with the elements from the opposite end."""

    _mode = "circular"

    def _check_input_dim(self, input: Tensor) -> None:
        allowed = (self._dims + 1, self._dims + 2)
        if input.dim() not in allowed:
            raise ValueError(
                f"{type(self).__name__} takes an input of {allowed[0]} or {allowed[1]} "
                f"dimensions, got shape {list(input.shape)}"
            )

    def forward(self, input: Tensor) -> Tensor:
        """``input`` with elements added on its sides.

        Raises:
            ValueError: ``input`` has the wrong number of dimensions.
        """
        self._check_input_dim(input)
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """Padding of ``(N, C, W)`` or ``(C, W)`` with the elements from the other end.

    Args:
        padding: One number for both sides, or ``(left, right)``; at most ``W`` each.
    """


class CircularPad2d(_CircularPadNd):
    """Padding of ``(N, C, H, W)`` or ``(C, H, W)`` with the elements from the other end.

    Args:
        padding: One number for all sides, or ``(left, right, top, bottom)``.
    """

    _dims = 2


class CircularPad3d(_CircularPadNd):
    """Padding of ``(N, C, D, H, W)`` or ``(C, D, H, W)`` with the elements from the other end.

    Args:
        padding: One number for all sides, or ``(left, right, top, bottom, front, back)``.
    """

    _dims = 3


class _ConstantPadNd(_PadNd):
    """Padding with a number.

    Args:
        padding: One number, or one for each side; negative numbers crop.
        value: The padding value.
    """

    __constants__: list[str] = ["padding", "value"]
    _repr_attributes = ("padding", "value")

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)


class ConstantPad1d(_ConstantPadNd):
    """Padding of the last dimension with a number.

    Args:
        padding: One number for both sides, or ``(left, right)``; negative numbers crop.
        value: The padding value.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.ConstantPad1d((1, 2), 7.0)(flambeau.zeros(1, 2))
    tensor([[7., 0., 0., 7., 7.]])
    """


class ConstantPad2d(_ConstantPadNd):
    """Padding of the last two dimensions with a number.

    Args:
        padding: One number for all sides, or ``(left, right, top, bottom)``.
        value: The padding value.
    """

    _dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Padding of the last three dimensions with a number.

    Args:
        padding: One number for all sides, or ``(left, right, top, bottom, front, back)``.
        value: The padding value.
    """

    _dims = 3


class ZeroPad1d(ConstantPad1d):
    """Padding of the last dimension with zeros; see `ConstantPad1d`."""

    _repr_attributes = ("*padding",)

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)


class ZeroPad2d(ConstantPad2d):
    """Padding of the last two dimensions with zeros; see `ConstantPad2d`."""

    _repr_attributes = ("*padding",)

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)


class ZeroPad3d(ConstantPad3d):
    """Padding of the last three dimensions with zeros; see `ConstantPad3d`."""

    _repr_attributes = ("*padding",)

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)


class _ReflectionPadNd(_PadNd):
    """Padding with the elements mirrored at the edge, without repeating the edge."""

    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Padding of ``(N, C, W)`` or ``(C, W)`` with the elements mirrored at the edge.

    Args:
        padding: One number for both sides, or ``(left, right)``; less than ``W`` each.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.ReflectionPad1d(2)(flambeau.tensor([[0.0, 1.0, 2.0]]))
    tensor([[2., 1., 0., 1., 2., 1., 0.]])
    """


class ReflectionPad2d(_ReflectionPadNd):
    """Padding of ``(N, C, H, W)`` or ``(C, H, W)`` with the elements mirrored at the edge.

    Args:
        padding: One number for all sides, or ``(left, right, top, bottom)``.
    """

    _dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Padding of ``(N, C, D, H, W)`` or ``(C, D, H, W)`` with the elements mirrored at the edge.

    Args:
        padding: One number for all sides, or ``(left, right, top, bottom, front, back)``.
    """

    _dims = 3


class _ReplicationPadNd(_PadNd):
    """Padding with the element at the edge."""

    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Padding of ``(N, C, W)`` or ``(C, W)`` with the element at the edge.

    Args:
        padding: One number for both sides, or ``(left, right)``.
    """


class ReplicationPad2d(_ReplicationPadNd):
    """Padding of ``(N, C, H, W)`` or ``(C, H, W)`` with the elements at the edge.

    Args:
        padding: One number for all sides, or ``(left, right, top, bottom)``.
    """

    _dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Padding of ``(N, C, D, H, W)`` or ``(C, D, H, W)`` with the elements at the edge.

    Args:
        padding: One number for all sides, or ``(left, right, top, bottom, front, back)``.
    """

    _dims = 3
