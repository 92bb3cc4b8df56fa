"""Normalization of each sample: over features, groups, or neighbouring channels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.common_types import DeviceLike, DTypeLike
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.ops.factories.creation import empty

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class LocalResponseNorm(Module):
    """Each element divided by a power of the sum of squares over neighbouring channels.

    ``y[c] = x[c] / (k + alpha / size * s) ** beta``, where ``s`` is the sum of ``x ** 2`` over the
    ``size`` channels around ``c``. Source: section 3.3 of "ImageNet classification with deep
    convolutional neural networks", Krizhevsky and others, 2012.

    Shapes: ``(N, C, *)`` to the same.

    Args:
        size: The number of channels in the sum.
        alpha: The weight of the sum.
        beta: The power.
        k: Added to the sum.
    """

    __constants__: list[str] = ["size", "alpha", "beta", "k"]
    _repr_attributes = ("*size", "alpha", "beta", "k")

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)


class CrossMapLRN2d(Module):
    """`LocalResponseNorm` of images, under the name and defaults of Torch 7.

    Shapes: ``(N, C, H, W)`` to the same.

    Args:
        size: The number of channels in the sum.
        alpha: The weight of the sum.
        beta: The power.
        k: Added to the sum.
    """

    _repr_attributes = ("*size", "alpha", "beta", "k")

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """``input`` normalized over neighbouring channels.

        Raises:
            ValueError: ``input`` does not have 4 dimensions.
        """
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d takes (N, C, H, W), got shape {list(input.shape)}")
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)


class LayerNorm(Module):
    """``x`` with mean 0 and variance 1 over its last dimensions, scaled and shifted.

    ``y = (x - mean) / sqrt(var + eps) * weight + bias`` (https://arxiv.org/abs/1607.06450).

    Shapes: ``(*, *normalized_shape)`` to the same.

    Args:
        normalized_shape: The sizes of the dimensions to normalize over; a number means the last.
        eps: Added to the variance.
        elementwise_affine: Whether there are a learned ``weight`` and ``bias``; otherwise they are
            ``None``.
        bias: Whether there is a ``bias``, if ``elementwise_affine``.
        device: The device of the parameters.
        dtype: The dtype of the parameters.

    Attributes:
        weight: Of ``normalized_shape``, 1 at first.
        bias: Of ``normalized_shape``, 0 at first.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.LayerNorm(3)(flambeau.tensor([[1.0, 2.0, 3.0]]))
    tensor([[-1.2247,  0.0000,  1.2247]], grad_fn=<NativeLayerNormBackward0>)
    """

    __constants__: list[str] = ["normalized_shape", "eps", "elementwise_affine"]
    _repr_attributes = ("*normalized_shape", "eps", "elementwise_affine", "bias?")

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        shape = _as_shape(normalized_shape)
        self.normalized_shape: tuple[int, ...] = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (
            ("weight", elementwise_affine),
            ("bias", elementwise_affine and bias),
        ):
            value = Parameter(empty(shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset the weight to 1 and the bias to 0."""
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


def _as_shape(shape: int | Iterable[int]) -> tuple[int, ...]:
    return tuple(shape) if isinstance(shape, Iterable) else (shape,)


class GroupNorm(Module):
    """Each group of channels with mean 0 and variance 1, scaled and shifted by channel.

    ``y = (x - mean) / sqrt(var + eps) * weight + bias`` (https://arxiv.org/abs/1803.08494).

    Shapes: ``(N, C, *)`` to the same.

    Args:
        num_groups: The number of groups of channels.
        num_channels: The number of channels ``C``.
        eps: Added to the variance.
        affine: Whether there are a learned ``weight`` and ``bias``; otherwise they are ``None``.
        device: The device of the parameters.
        dtype: The dtype of the parameters.
        bias: Whether there is a ``bias``, if ``affine``.

    Attributes:
        weight: ``(C,)``, 1 at first.
        bias: ``(C,)``, 0 at first.

    Raises:
        ValueError: ``num_groups`` does not divide ``num_channels``.
    """

    __constants__: list[str] = ["num_groups", "num_channels", "eps", "affine"]
    _repr_attributes = ("*num_groups", "*num_channels", "eps", "affine", "bias?")

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"num_channels={num_channels} must be divisible by num_groups={num_groups}"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            value = Parameter(empty(num_channels, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset the weight to 1 and the bias to 0."""
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """``x`` divided by its root mean square over its last dimensions, and scaled.

    ``y = x / sqrt(mean(x ** 2) + eps) * weight`` (https://arxiv.org/abs/1910.07467).

    Shapes: ``(*, *normalized_shape)`` to the same.

    Args:
        normalized_shape: The sizes of the dimensions to normalize over; a number means the last.
        eps: By default the machine epsilon of the precision of the computation.
        elementwise_affine: Whether there is a learned ``weight``; otherwise it is ``None``.
        device: The device of the parameter.
        dtype: The dtype of the parameter.

    Attributes:
        weight: Of ``normalized_shape``, 1 at first.
    """

    __constants__: list[str] = ["normalized_shape", "eps", "elementwise_affine"]
    _repr_attributes = ("*normalized_shape", "eps", "elementwise_affine")

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        shape = _as_shape(normalized_shape)
        self.normalized_shape: tuple[int, ...] = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight: Parameter = Parameter(empty(shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset the weight to 1."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)
