"""Activation functions as layers."""

from __future__ import annotations

from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.common_types import DeviceLike, DTypeLike
from flambeau.nn.module import Module
from flambeau.nn.modules.multihead_attention import MultiheadAttention
from flambeau.nn.modules.softmax import LogSoftmax, Softmax, Softmax2d, Softmin
from flambeau.nn.parameter import Parameter
from flambeau.ops.factories.creation import empty

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "MultiheadAttention", "PReLU", "RReLU", "ReLU",
    "ReLU6", "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink",
    "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


class _InPlace(Module):
    """An elementwise function that may overwrite its input.

    Args:
        inplace: Whether to overwrite the input.
    """

    __constants__: list[str] = ["inplace"]
    _repr_attributes = (("inplace", False),)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class ReLU(_InPlace):
    """``max(0, x)``, elementwise.

    Args:
        inplace: Whether to overwrite the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, inplace=self.inplace)


class SiLU(_InPlace):
    """``x * sigmoid(x)``, elementwise, also known as swish (https://arxiv.org/abs/1606.08415).

    Args:
        inplace: Whether to overwrite the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, inplace=self.inplace)


class Mish(_InPlace):
    """``x * tanh(softplus(x))``, elementwise (https://arxiv.org/abs/1908.08681).

    Args:
        inplace: Whether to overwrite the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, inplace=self.inplace)


class SELU(_InPlace):
    """The scaled `ELU` that keeps mean 0 and variance 1 (https://arxiv.org/abs/1706.02515).

    Args:
        inplace: Whether to overwrite the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class Hardsigmoid(_InPlace):
    """``min(max(0, x + 3), 6) / 6``, elementwise: a piecewise linear `Sigmoid`.

    Args:
        inplace: Whether to overwrite the input.
    """

    _repr_attributes = ()

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)


class Hardswish(_InPlace):
    """``x * min(max(0, x + 3), 6) / 6``, elementwise (https://arxiv.org/abs/1905.02244).

    Args:
        inplace: Whether to overwrite the input.
    """

    _repr_attributes = ()

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)


class Threshold(_InPlace):
    """``x`` where ``x > threshold``, and ``value`` elsewhere.

    Args:
        threshold: The largest value that is replaced.
        value: The replacement.
        inplace: Whether to overwrite the input.
    """

    __constants__: list[str] = ["threshold", "value", "inplace"]
    _repr_attributes = ("threshold", "value", ("inplace", False))

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)


class RReLU(_InPlace):
    """`LeakyReLU` whose slope is random in training (https://arxiv.org/abs/1505.00853).

    The slope of each negative element is drawn uniformly from ``lower`` to ``upper``; in evaluation
    it is their mean.

    Args:
        lower: The smallest slope.
        upper: The greatest slope.
        inplace: Whether to overwrite the input.
    """

    __constants__: list[str] = ["lower", "upper", "inplace"]
    _repr_attributes = ("lower", "upper", ("inplace", False))

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower = lower
        self.upper = upper

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardtanh(_InPlace):
    """``x`` clamped to ``[min_val, max_val]``.

    Args:
        min_val: The lower bound.
        max_val: The upper bound.
        inplace: Whether to overwrite the input.
        min_value: Deprecated name of ``min_val``.
        max_value: Deprecated name of ``max_val``.

    Raises:
        AssertionError: ``max_val`` is not greater than ``min_val``.
    """

    __constants__: list[str] = ["min_val", "max_val", "inplace"]
    _repr_attributes = ("min_val", "max_val", ("inplace", False))

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(inplace)
        if min_value is not None:
            warn("min_value is deprecated; name it min_val", FutureWarning)
            min_val = min_value
        if max_value is not None:
            warn("max_value is deprecated; name it max_val", FutureWarning)
            max_val = max_value
        if max_val <= min_val:
            raise AssertionError(f"max_val={max_val} must be greater than min_val={min_val}")
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ReLU6(Hardtanh):
    """``min(max(0, x), 6)``, elementwise.

    Args:
        inplace: Whether to overwrite the input.
    """

    _repr_attributes = (("inplace", False),)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class _ScaledExponential(_InPlace):
    """A function that saturates at ``-alpha`` for negative numbers."""

    __constants__: list[str] = ["alpha", "inplace"]
    _repr_attributes = ("alpha", ("inplace", False))

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha


class ELU(_ScaledExponential):
    """``x`` where positive, ``alpha * (exp(x) - 1)`` elsewhere (https://arxiv.org/abs/1511.07289).

    Args:
        alpha: Minus the limit for small ``x``.
        inplace: Whether to overwrite the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(_ScaledExponential):
    """``x`` where positive, ``alpha * (exp(x / alpha) - 1)`` elsewhere; smooth for every ``alpha``.

    See https://arxiv.org/abs/1704.07483.

    Args:
        alpha: Minus the limit for small ``x``.
        inplace: Whether to overwrite the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(_InPlace):
    """``x`` where positive, ``negative_slope * x`` elsewhere.

    Args:
        negative_slope: The slope for negative numbers.
        inplace: Whether to overwrite the input.
    """

    __constants__: list[str] = ["inplace", "negative_slope"]
    _repr_attributes = ("negative_slope", ("inplace", False))

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``, elementwise."""

    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent, elementwise."""

    def forward(self, input: Tensor) -> Tensor:
        return input.tanh()


class LogSigmoid(Module):
    """``log(1 / (1 + exp(-x)))``, elementwise, without overflow."""

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softsign(Module):
    """``x / (1 + abs(x))``, elementwise."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """``x - tanh(x)``, elementwise."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class GELU(Module):
    """``x`` times the normal distribution's cumulative function (https://arxiv.org/abs/1606.08415).

    Args:
        approximate: ``"none"``, or ``"tanh"`` for
            ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))``.
    """

    __constants__: list[str] = ["approximate"]
    _repr_attributes = ("approximate!r",)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)


class GLU(Module):
    """``a * sigmoid(b)``, where ``a`` and ``b`` are the halves of the input.

    See https://arxiv.org/abs/1612.08083. Shapes: ``(*, 2 * S, *)`` to ``(*, S, *)``.

    Args:
        dim: The dimension to halve.
    """

    __constants__: list[str] = ["dim"]
    _repr_attributes = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)


class _Shrink(Module):
    """A function that is 0 up to ``lambd`` on both sides."""

    __constants__: list[str] = ["lambd"]
    _repr_attributes = ("*lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd


class Hardshrink(_Shrink):
    """``x`` where ``abs(x) > lambd``, else 0.

    Args:
        lambd: The bound.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """``x`` shrunk towards 0 by ``lambd``, elementwise.

    Args:
        lambd: The amount, at least 0.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``, elementwise: a smooth `ReLU`.

    Args:
        beta: The sharpness of the bend.
        threshold: Above this value of ``beta * x`` the function is ``x``.
    """

    __constants__: list[str] = ["beta", "threshold"]
    _repr_attributes = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)


class PReLU(Module):
    """`LeakyReLU` with a learned slope (https://arxiv.org/abs/1502.01852).

    Shapes: ``(N, C, *)`` to the same.

    Args:
        num_parameters: 1, or the number of channels ``C``, each with a slope of its own.
        init: The initial slope.
        device: The device of the parameter.
        dtype: The dtype of the parameter.

    Attributes:
        weight: ``(num_parameters,)``, the slopes.
    """

    __constants__: list[str] = ["num_parameters"]
    _repr_attributes = ("num_parameters",)

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight: Parameter = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset all slopes to their initial value."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)
