"""Activation functions: elementwise, with PyTorch's derivatives at the kinks.

Slopes and thresholds are static, since they are constants of a model: each value has its own
program, and costs nothing per call.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array, Number
from flambeau.core.operators.op import op
from flambeau.core.support import dtype as dtypes
from flambeau.core.support import errors
from flambeau.ops.common.checks import (
    needs_floating,
    needs_inexact,
    needs_ordered,
    needs_real_number,
    wrap_dims,
)
from flambeau.ops.common.derivatives import (
    magnitude,
    where_chosen,
    with_derivatives,
    without_derivative,
)

__all__ = ["celu", "hardshrink", "prelu", "relu", "selu", "threshold"]

# Klambauer et al., Self-Normalizing Neural Networks, https://arxiv.org/abs/1706.02515
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


@op(method=True, inplace=True)
def relu(input: Array) -> Array:
    """``max(0, x)``, elementwise.

    >>> import flambeau
    >>> flambeau.relu(flambeau.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    needs_real_number("relu", input)
    return jnp.where(input <= 0, jnp.zeros_like(input), input)


@op(node="HardtanhBackward0")
def relu6(input: Array) -> Array:
    """``min(max(0, x), 6)``, elementwise."""
    return _clamped(input, 0, 6)


@op
def not_differentiated(input: Array, subject: str) -> Array:
    """``input`` unchanged; its gradient is refused, with a message about ``subject``."""
    return without_derivative(subject, input, input)


def _clamped(input: Array, low: float, high: float) -> Array:
    needs_ordered("hardtanh", input)
    if input.dtype == bool:
        raise RuntimeError("hardtanh() and relu6() are not defined for bool; convert it first")
    if low < 0 and jnp.issubdtype(input.dtype, jnp.unsignedinteger):
        raise RuntimeError(f"hardtanh(): {input.dtype} has no negative numbers, got min_val {low}")
    bottom = jnp.asarray(low, input.dtype)
    top = jnp.asarray(high, input.dtype)
    return _between(input, bottom, top)


# At NaN these functions pass gradients, as PyTorch's do except in its vectorized loops.
@with_derivatives(
    lambda tangent, result, value, low, high: where_chosen(
        ~((value <= low) | (value >= high)), tangent
    ),
    None,
    None,
)
def _between(value: Any, low: Any, high: Any) -> Any:
    return jnp.minimum(jnp.maximum(value, low), high)


@op
def hardtanh(input: Array, min_val: float = -1.0, max_val: float = 1.0) -> Array:
    """The operator of `nn.functional.hardtanh`; see there."""
    if min_val > max_val:
        raise errors.ValueError(f"hardtanh(): min_val {min_val} is greater than max_val {max_val}")
    return _clamped(input, min_val, max_val)


@op(widen=True)
def leaky_relu(input: Array, negative_slope: float = 0.01) -> Array:
    """``x`` where positive, ``negative_slope * x`` elsewhere."""
    needs_inexact("leaky_relu", input)
    return jnp.where(input > 0, input, input * negative_slope)


@op(widen=True)
def elu(input: Array, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Array:
    """``scale * x`` where positive, ``scale * alpha * (exp(input_scale * x) - 1)`` elsewhere."""
    needs_inexact("elu", input)
    return _elu(input, alpha, scale, input_scale)


def _elu(input: Array, alpha: float, scale: float, input_scale: float) -> Array:
    @with_derivatives(
        lambda tangent, result, value: tangent * _elu_slope(value, alpha, scale, input_scale)
    )
    def compute(value: Any) -> Any:
        below = jnp.expm1(input_scale * jnp.minimum(value, 0))
        return jnp.where(value <= 0, scale * alpha * below, scale * value)

    return compute(input)


def _elu_slope(value: Any, alpha: float, scale: float, input_scale: float) -> Any:
    # By the exponential rather than the result, which rounds to -alpha far below 0.
    below = jnp.exp(input_scale * jnp.where(value < 0, value, 0))
    return jnp.where(value <= 0, scale * alpha * input_scale * below, scale)


@op(widen=True, inplace=True, node="EluBackward0")
def selu(input: Array) -> Array:
    """The `elu` whose scales keep mean 0 and variance 1 from layer to layer."""
    needs_inexact("selu", input)
    return _elu(input, _SELU_ALPHA, _SELU_SCALE, 1.0)


@op(widen=True, inplace=True)
def celu(input: Array, alpha: float = 1.0) -> Array:
    """``x`` where positive, ``alpha * (exp(x / alpha) - 1)`` elsewhere.

    Raises:
        RuntimeError: ``alpha`` is 0.
    """
    needs_inexact("celu", input)
    if alpha == 0:
        raise RuntimeError("celu(): alpha must not be 0")
    return _elu(input, alpha, 1.0, 1.0 / alpha)


@op(widen=True)
def gelu(input: Array, *, approximate: str = "none") -> Array:
    """``x`` times the standard normal distribution function of ``x``.

    Args:
        input: Floating point.
        approximate: ``"none"`` for the exact function, ``"tanh"`` for
            ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))``.

    Raises:
        RuntimeError: ``approximate`` is neither.
    """
    needs_floating("gelu", input)
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"gelu(): approximate must be 'none' or 'tanh', got {approximate!r}")
    if approximate == "none":
        return _gelu(input)
    cubic = input + 0.044715 * input * input * input
    return input * 0.5 * (1.0 + jnp.tanh(math.sqrt(2.0 / math.pi) * cubic))


def _normal_below(array: Any) -> Any:
    return 0.5 * (1.0 + jax.lax.erf(array * math.sqrt(0.5)))


@with_derivatives(
    lambda tangent, result, array: (
        tangent
        * (
            _normal_below(array)
            + array * (jnp.exp(array * array * -0.5) * (1 / math.sqrt(2 * math.pi)))
        )
    )
)
def _gelu(array: Any) -> Any:
    return array * _normal_below(array)


@op(widen=True)
def silu(input: Array) -> Array:
    """``x * sigmoid(x)``, elementwise."""
    needs_inexact("silu", input)
    return _silu(input)


@jax.custom_jvp
def _silu(array: Any) -> Any:
    return array * jax.nn.sigmoid(array)


@_silu.defjvp
def _silu_jvp(primals: Any, tangents: Any) -> Any:
    # JAX would differentiate both factors, which takes a third longer.
    (array,), (moved,) = primals, tangents
    share = jax.nn.sigmoid(array)
    return array * share, moved * (share * (1 + array * (1 - share)))


@op(widen=True)
def mish(input: Array) -> Array:
    """``x * tanh(softplus(x))``, elementwise."""
    needs_inexact("mish", input)
    return _mish(input)


def _mish_slope(array: Any) -> Any:
    kept = jnp.tanh(jax.nn.softplus(array))
    return kept + array * jax.nn.sigmoid(array) * (1 - kept * kept)


@with_derivatives(lambda tangent, result, array: tangent * _mish_slope(array))
def _mish(array: Any) -> Any:
    return array * jnp.tanh(jnp.logaddexp(array, jnp.zeros_like(array)))


@op(widen=True)
def hardsigmoid(input: Array) -> Array:
    """``min(max(0, x + 3), 6) / 6``, elementwise."""
    needs_floating("hardsigmoid", input)
    ends = jnp.where(input >= 3, jnp.ones_like(input), jnp.zeros_like(input))
    # A NaN takes no gradient, as in PyTorch.
    ends = jnp.where(jnp.isnan(input), jax.lax.stop_gradient(input), ends)
    return jnp.where((input > -3) & (input < 3), input / 6 + 0.5, ends)


@op(widen=True)
def hardswish(input: Array) -> Array:
    """``x * min(max(0, x + 3), 6) / 6``, elementwise."""
    needs_inexact("hardswish", input)
    return _hardswish(input)


def _along_hardswish(tangent: Any, result: Any, array: Any) -> Any:
    curved = (array > -3) & (array < 3)
    slope = jnp.where(curved, array / 3 + 0.5, 0)
    flat = curved | (array <= -3)
    return jnp.where(flat, where_chosen(curved, tangent) * slope, tangent)


@with_derivatives(_along_hardswish)
def _hardswish(array: Any) -> Any:
    return array * (jnp.minimum(jnp.maximum(array + 3, 0), 6) / 6)


@op(widen=True)
def softplus(input: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """``log(1 + exp(beta * x)) / beta``, and ``x`` itself where ``beta * x > threshold``."""
    needs_inexact("softplus", input)
    scaled = input * beta
    beyond = scaled > threshold
    capped = jnp.where(beyond, jnp.zeros_like(input), scaled)
    return jnp.where(beyond, input, jnp.log1p(jnp.exp(capped)) / beta)


@op(widen=True, node="DivBackward0")
def softsign(input: Array) -> Array:
    """``x / (1 + abs(x))``, elementwise."""
    if not jnp.issubdtype(input.dtype, jnp.inexact):
        input = input.astype(dtypes.get_default_dtype().numpy)
    return input / (1 + magnitude(input))


@op(widen=True, node="LogSigmoidBackward0")
def logsigmoid(input: Array) -> Array:
    """``log(1 / (1 + exp(-x)))``, elementwise, without overflow."""
    needs_inexact("logsigmoid", input)
    return -jnp.logaddexp(-input, jnp.zeros_like(input))


@op(widen=True, node="SubBackward0")
def tanhshrink(input: Array) -> Array:
    """``x - tanh(x)``, elementwise."""
    if input.dtype == bool:
        raise RuntimeError(
            "tanhshrink() subtracts, which is not defined for bool; convert it first"
        )
    if not jnp.issubdtype(input.dtype, jnp.inexact):
        return input.astype(dtypes.get_default_dtype().numpy) - jnp.tanh(
            input.astype(dtypes.get_default_dtype().numpy)
        )
    return input - jnp.tanh(input)


@op(widen=True)
def softshrink(input: Array, lambd: float = 0.5) -> Array:
    """``x`` shrunk towards 0 by ``lambd``, and 0 within ``lambd`` of 0.

    Raises:
        RuntimeError: ``lambd`` is negative, infinite or NaN.
    """
    needs_inexact("softshrink", input)
    if not 0 <= lambd < math.inf:
        raise RuntimeError(f"softshrink(): lambd must be finite and not negative, got {lambd}")
    return _shrunk(input, input - jnp.sign(jax.lax.stop_gradient(input)) * lambd, lambd)


def _shrunk(input: Any, outside: Any, lambd: float) -> Any:
    """``outside`` where ``input`` is beyond ``lambd`` or NaN, else 0."""
    return jnp.where((input >= -lambd) & (input <= lambd), jnp.zeros_like(input), outside)


@op(widen=True, method=True)
def hardshrink(input: Array, lambd: float = 0.5) -> Array:
    """``x`` where ``abs(x) > lambd``, 0 elsewhere."""
    needs_inexact("hardshrink", input)
    return _shrunk(input, input, lambd)


@op(inplace=True)
def threshold(input: Array, threshold: float, value: float) -> Array:
    """``x`` where ``x > threshold``, ``value`` elsewhere."""
    return jnp.where(input <= threshold, jnp.asarray(value, input.dtype), input)


@op(widen=True, method=True, node="PreluKernelBackward0")
def prelu(input: Array, weight: Array) -> Array:
    """``x`` where positive, ``weight * x`` elsewhere.

    Args:
        input: ``(N, C, ...)``, or any shape for a single weight.
        weight: One learned slope for all, or ``C`` of them; 0-d or 1-d.

    Raises:
        RuntimeError: The number of weights is neither 1 nor the number of channels.
    """
    needs_inexact("prelu", input)
    if weight.dtype != input.dtype:
        raise RuntimeError(
            f"prelu(): input and weight must have one dtype, got {input.dtype} and {weight.dtype}"
        )
    if weight.ndim > 1:
        raise RuntimeError(f"prelu(): weight must be 0-d or 1-d, got shape {list(weight.shape)}")
    if weight.size != 1:
        channels = input.shape[1] if input.ndim > 1 else 1
        if input.ndim == 0 or weight.size != channels:
            raise RuntimeError(
                f"prelu(): {weight.size} weights do not fit an input of shape "
                f"{list(input.shape)}, which has {channels} channels"
            )
        weight = weight.reshape((1, -1) + (1,) * (input.ndim - 2))
    else:
        weight = weight.reshape(())
    positive = input > 0
    # The other branch must stay finite, or its gradient is NaN.
    slope = jnp.where(positive, jnp.ones_like(weight), weight)
    return jnp.where(positive, input, slope * jnp.where(positive, jnp.zeros_like(input), input))


@op(widen=True, node="RreluWithNoiseBackward0")
def rrelu_with_noise(input: Array, noise: Array) -> Array:
    """``x`` where positive, ``noise * x`` elsewhere."""
    needs_inexact("rrelu", input)
    return jnp.where(input > 0, input, input * noise.astype(input.dtype))


@op(widen=True)
def glu(input: Array, dim: int = -1) -> Array:
    """The first half of ``input`` along ``dim`` times the sigmoid of the second.

    Raises:
        RuntimeError: The size along ``dim`` is odd, or ``input`` is 0-d.
        IndexError: There is no dimension ``dim``.
    """
    if input.ndim == 0:
        raise RuntimeError("glu(): a 0-d tensor has no halves")
    if not -input.ndim <= dim < input.ndim:
        raise errors.IndexError(
            f"glu(): dimension {dim} is out of range for shape {list(input.shape)}"
        )
    if input.shape[dim] % 2:
        raise RuntimeError(
            f"glu(): the size of dimension {dim} must be even, got shape {list(input.shape)}"
        )
    needs_inexact("glu", input)
    left, right = jnp.split(input, 2, dim)
    return left * jax.nn.sigmoid(right)


@op(widen=True, node="SoftmaxBackward0")
def gumbel_softmax(
    logits: Array, exponentials: Array, tau: Array | Number, hard: bool = False, dim: int = -1
) -> Array:
    """The softmax of ``(logits + gumbels) / tau``, or with ``hard`` the one-hot of its maximum.

    The gradient is that of the softmax either way. Gumbel noise is minus the logarithm of
    ``exponentials``, which are exponentially distributed.

    Raises:
        IndexError: There is no dimension ``dim``.
    """
    wrap_dims(dim, logits.ndim, "gumbel_softmax")
    if logits.ndim == 0:
        # A single class. PyTorch's gradient is zero too.
        return jnp.ones_like(logits) + 0 * logits
    soft = jax.nn.softmax((logits - jnp.log(exponentials)) / tau, dim).astype(logits.dtype)
    if not hard:
        return soft
    winner = jnp.argmax(soft, dim, keepdims=True)
    one_hot = jnp.put_along_axis(jnp.zeros_like(soft), winner, 1.0, dim, inplace=False)
    return jax.lax.stop_gradient(one_hot - soft) + soft
