"""Activation functions, with the ``inplace`` flag that overwrites their input."""

from __future__ import annotations

import math

from flambeau.core.operators.overrides import asks
from flambeau.core.support.dtype import dtype as DType
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.nn.functional._in_place import stored, stored_irreversibly
from flambeau.ops.draws.redrawing import exponential_
from flambeau.ops.draws.sampling import leaky_slopes
from flambeau.ops.elementwise.arithmetic import neg
from flambeau.ops.elementwise.pointwise import sigmoid, tanh
from flambeau.ops.factories.creation import empty_like
from flambeau.ops.neural import activation as ops
from flambeau.ops.neural.activation import (
    gelu,
    glu,
    hardshrink,
    logsigmoid,
    prelu,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
)
from flambeau.ops.neural.softmax import log_softmax as _log_softmax
from flambeau.ops.neural.softmax import softmax as _softmax

__all__ = [
    "celu", "celu_", "elu", "elu_", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid",
    "hardswish", "hardtanh", "hardtanh_", "leaky_relu", "leaky_relu_", "log_softmax", "logsigmoid",
    "mish", "prelu", "relu", "relu6", "relu_", "rrelu", "rrelu_", "selu", "selu_", "sigmoid",
    "silu", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink",
    "threshold", "threshold_",
]  # fmt: skip


@asks
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(0, x)``, elementwise."""
    result = ops.relu(input)
    return stored(input, result, True, "relu") if inplace else result


@asks
def relu_(input: Tensor) -> Tensor:
    """`relu`, in place."""
    return relu(input, True)


@asks
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``min(max(0, x), 6)``, elementwise."""
    return stored(input, ops.relu6(input), inplace, "relu6")


@asks
def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """``x`` clamped to ``[min_val, max_val]``, with no gradient at the bounds.

    Raises:
        ValueError: ``min_val`` is greater than ``max_val``.
    """
    return stored(input, ops.hardtanh(input, min_val, max_val), inplace, "hardtanh")


@asks
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh`, in place."""
    return hardtanh(input, min_val, max_val, True)


@asks
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``x`` where positive, ``negative_slope * x`` elsewhere."""
    result = ops.leaky_relu(input, negative_slope)
    return stored_irreversibly(input, result, "leaky_relu", negative_slope) if inplace else result


@asks
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu`, in place."""
    return leaky_relu(input, negative_slope, True)


@asks
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` where positive, ``alpha * (exp(x) - 1)`` elsewhere."""
    result = ops.elu(input, alpha)
    return stored_irreversibly(input, result, "elu", alpha) if inplace else result


@asks
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu`, in place."""
    return elu(input, alpha, True)


@asks
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The `elu` whose scales keep mean 0 and variance 1 from layer to layer."""
    return stored(input, ops.selu(input), inplace, "selu")


@asks
def selu_(input: Tensor) -> Tensor:
    """`selu`, in place."""
    return selu(input, True)


@asks
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` where positive, ``alpha * (exp(x / alpha) - 1)`` elsewhere.

    Raises:
        RuntimeError: ``alpha`` is 0.
    """
    result = ops.celu(input, alpha)
    return stored_irreversibly(input, result, "celu", alpha) if inplace else result


@asks
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu`, in place."""
    return celu(input, alpha, True)


@asks
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * sigmoid(x)``, elementwise."""
    return stored(input, ops.silu(input), inplace, "silu")


@asks
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * tanh(softplus(x))``, elementwise."""
    return stored(input, ops.mish(input), inplace, "mish")


@asks
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``min(max(0, x + 3), 6) / 6``, elementwise."""
    return stored(input, ops.hardsigmoid(input), inplace, "hardsigmoid")


@asks
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * min(max(0, x + 3), 6) / 6``, elementwise."""
    return stored(input, ops.hardswish(input), inplace, "hardswish")


@asks
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``x`` where ``x > threshold``, ``value`` elsewhere."""
    return stored(input, ops.threshold(input, threshold, value), inplace, "threshold")


@asks
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold`, in place."""
    return ops.threshold.in_place(input, threshold, value)


# Along a dimension, which PyTorch still allows to omit


def _implicit_dim(name: str, ndim: int) -> int:
    warn(
        f"{name}() without dim is deprecated; pass dim=1 for a batch of class scores, "
        "or the dimension that you mean"
    )
    return 0 if ndim in (0, 1, 3) else 1


@asks
def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``dim``.

    Args:
        input: Floating point.
        dim: The dimension along which the results sum to 1. Omitting it is deprecated.
        dtype: Convert to this dtype first.
    """
    if dim is None:
        dim = _implicit_dim("softmax", input.dim())
    return _softmax(input, dim, dtype)


@asks
def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """`softmax` of ``-input``."""
    if dim is None:
        dim = _implicit_dim("softmin", input.dim())
    return _softmax(neg(input), dim, dtype)


@asks
def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """The logarithm of `softmax`, computed without overflow.

    Args:
        input: Floating point.
        dim: The dimension along which the exponentials sum to 1. Omitting it is deprecated.
        dtype: Convert to this dtype first.
    """
    if dim is None:
        dim = _implicit_dim("log_softmax", input.dim())
    return _log_softmax(input, dim, dtype)


@asks
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A random class for each row of logits, softened so that gradients flow.

    Jang et al., Categorical Reparameterization with Gumbel-Softmax,
    https://arxiv.org/abs/1611.01144

    Args:
        logits: Unnormalized log-probabilities.
        tau: The temperature: the smaller, the closer to one-hot.
        hard: Return one-hot vectors, with the gradients of the soft ones.
        eps: Without effect, as in PyTorch.
        dim: The dimension of the classes.
    """
    if eps != 1e-10:
        warn("gumbel_softmax(): eps is deprecated and has no effect")
    noise = exponential_(empty_like(logits.detach()))
    return ops.gumbel_softmax(logits, noise, tau, bool(hard), dim)


# Random


@asks
def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """`leaky_relu` with a random slope for each element, and outside training the mean slope.

    Xu et al., https://arxiv.org/abs/1505.00853

    Args:
        input: Any shape.
        lower: The least slope.
        upper: The greatest slope.
        training: Draw slopes.
        inplace: Overwrite the input.

    Raises:
        RuntimeError: ``lower`` is greater than ``upper``, or one of them is infinite or NaN.
    """
    if lower > upper:
        raise RuntimeError(f"rrelu(): lower {lower} is greater than upper {upper}")
    if not -math.inf < lower <= upper < math.inf:
        raise RuntimeError(f"rrelu(): lower and upper must be finite, got {lower} and {upper}")
    if training:
        slopes = leaky_slopes(input.detach(), float(lower), float(upper))
        result = ops.rrelu_with_noise(input, slopes)
    else:
        result = ops.leaky_relu(input, (lower + upper) / 2)
    return stored_irreversibly(input, result, "rrelu", lower) if inplace else result


@asks
def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Tensor:
    """`rrelu`, in place."""
    return rrelu(input, lower, upper, training, True)
