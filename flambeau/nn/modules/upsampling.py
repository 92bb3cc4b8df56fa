"""Resizing images."""

from __future__ import annotations

from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.common_types import Kwargs
from flambeau.nn.module import Module

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """Resizes the input to other spatial sizes by interpolation.

    Shapes: ``(N, C, W)``, ``(N, C, H, W)`` or ``(N, C, D, H, W)`` to the same dimensions.

    Args:
        size: The spatial sizes of the result; a number means all.
        scale_factor: The factor of the spatial sizes, instead of ``size``.
        mode: ``"nearest"``, ``"linear"`` (one spatial dimension), ``"bilinear"`` or ``"bicubic"``
            (two), ``"trilinear"`` (three).
        align_corners: Whether the centers of corner elements are aligned; otherwise their outer
            corners are. Not with ``"nearest"``.
        recompute_scale_factor: Whether to use the ratio of the rounded sizes, rather than
            ``scale_factor``.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Upsample(scale_factor=2)(flambeau.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 1., 2., 2.]]])
    """

    __constants__: list[str] = [
        "size", "scale_factor", "mode", "align_corners", "name", "recompute_scale_factor",
    ]  # fmt: skip

    scale_factor: float | tuple[float, ...] | None

    def __init__(
        self,
        size: int | tuple[int, ...] | None = None,
        scale_factor: float | tuple[float, ...] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name: str = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple([float(each) for each in scale_factor])
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def __setstate__(self, state: Kwargs) -> None:
        # Pickles from before this option existed.
        state.setdefault("recompute_scale_factor", True)
        super().__setstate__(state)

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resizes an image by nearest-neighbour interpolation; `Upsample` can do this too.

    Shapes: ``(N, C, H, W)`` to the same dimensions.

    Args:
        size: Height and width of the result; a number means both.
        scale_factor: The factor of the spatial sizes, instead of ``size``.
    """

    def __init__(
        self,
        size: int | tuple[int, int] | None = None,
        scale_factor: float | tuple[float, float] | None = None,
    ) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Resizes an image bilinearly with its corners aligned; `Upsample` can do this too.

    Shapes: ``(N, C, H, W)`` to the same dimensions.

    Args:
        size: Height and width of the result; a number means both.
        scale_factor: The factor of the spatial sizes, instead of ``size``.
    """

    def __init__(
        self,
        size: int | tuple[int, int] | None = None,
        scale_factor: float | tuple[float, float] | None = None,
    ) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
