"""Affine and bilinear maps of the last dimension."""

from __future__ import annotations

import math
from typing import Any

from flambeau.core.support.modes import no_grad
from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.common_types import DeviceLike, DTypeLike
from flambeau.nn.module import Module
from flambeau.nn.modules.lazy import LazyModuleMixin
from flambeau.nn.parameter import Parameter, UninitializedParameter
from flambeau.ops.factories.creation import empty

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Returns its input; ignores the arguments of the constructor.

    Shapes: any to the same.

    >>> from flambeau import nn
    >>> nn.Identity(54, unused=True)(3)
    3
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Linear(Module):
    """An affine map of the last dimension: ``y = x @ weight.T + bias``.

    Shapes: ``(*, in_features)`` to ``(*, out_features)``.

    Args:
        in_features: Size of the last dimension of the input.
        out_features: Size of the last dimension of the output.
        bias: Whether to add a learned ``bias``; otherwise it is ``None``.
        device: The device of the parameters.
        dtype: The dtype of the parameters.

    Attributes:
        weight: ``(out_features, in_features)``, uniform in ``±1/sqrt(in_features)`` at first.
        bias: ``(out_features,)``, likewise.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Linear(20, 30)(flambeau.zeros(128, 20)).shape
    flambeau.Size([128, 30])
    """

    __constants__: list[str] = ["in_features", "out_features"]
    _repr_attributes = ("in_features", "out_features", "bias?")

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight: Parameter = Parameter(
            empty((out_features, in_features), device=device, dtype=dtype)
        )
        if bias:
            self.bias: Parameter = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Redraw weight and bias."""
        init._reset_affine(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)


class NonDynamicallyQuantizableLinear(Linear):
    """`Linear` under the name that PyTorch uses for the output projection of its attention."""


class Bilinear(Module):
    """A bilinear map of two inputs: ``y[k] = x1 @ weight[k] @ x2 + bias[k]``.

    Shapes: ``(*, in1_features)`` and ``(*, in2_features)`` to ``(*, out_features)``.

    Args:
        in1_features: Size of the last dimension of the first input, at least 1.
        in2_features: Size of the last dimension of the second input.
        out_features: Size of the last dimension of the output.
        bias: Whether to add a learned ``bias``; otherwise it is ``None``.
        device: The device of the parameters.
        dtype: The dtype of the parameters.

    Attributes:
        weight: ``(out_features, in1_features, in2_features)``, uniform in
            ``±1/sqrt(in1_features)`` at first.
        bias: ``(out_features,)``, likewise.

    Raises:
        ValueError: ``in1_features`` is not positive.
    """

    __constants__: list[str] = ["in1_features", "in2_features", "out_features"]
    _repr_attributes = ("in1_features", "in2_features", "out_features", "bias?")

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight: Parameter = Parameter(
            empty((out_features, in1_features, in2_features), device=device, dtype=dtype)
        )
        if bias:
            self.bias: Parameter = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Redraw weight and bias."""
        if self.in1_features <= 0:
            raise ValueError(f"in1_features must be positive, got {self.in1_features}")
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` that takes ``in_features`` from its first input.

    Args:
        out_features: Size of the last dimension of the output.
        bias: Whether to add a learned ``bias``; otherwise it is ``None``.
        device: The device of the parameters.
        dtype: The dtype of the parameters.
    """

    cls_to_become: type[Module] | None = Linear

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight: Any = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias: Any = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Redraw weight and bias, if they have a shape."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Give the parameters the shapes that fit ``input``.

        Raises:
            AssertionError: A state with another number of features has been loaded.
            IndexError: ``input`` is 0-d.
        """
        if input.dim() == 0:
            raise IndexError(
                "LazyLinear takes its features from the last dimension; a 0-d input has none"
            )
        in_features = input.shape[-1]
        if self.has_uninitialized_params():
            self.in_features = in_features
            with no_grad():
                self.weight.materialize((self.out_features, in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            loaded = self.weight.shape[-1]
            if in_features != loaded:
                raise AssertionError(
                    f"the input has {in_features} features, but the weight that was loaded is for "
                    f"{loaded}"
                )
            self.in_features: int = in_features
