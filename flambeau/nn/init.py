"""Filling parameters with initial values, in place and outside the tape.

After `flambeau.manual_seed` the values equal those of PyTorch's functions of the same names. On the
meta device shapes are checked and nothing is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau.autograd.grad_mode import no_grad
from flambeau.core.operators.op import function
from flambeau.core.support.warning import warn
from flambeau.core.values.plan import following, has_plan, is_recording
from flambeau.core.values.tensor import Tensor
from flambeau.ops.draws.redrawing import real, redraw, truncated_normal_
from flambeau.ops.draws.sampling import permutations
from flambeau.ops.factories.creation import eye as identity
from flambeau.ops.factories.ranges import arange
from flambeau.ops.matrices.factorization import orthonormal_columns

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_GAINS = {
    **dict.fromkeys(("linear", "sigmoid"), 1),
    **dict.fromkeys((f"conv{n}d" for n in (1, 2, 3)), 1),
    **dict.fromkeys((f"conv_transpose{n}d" for n in (1, 2, 3)), 1),
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4.0,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The recommended gain: the factor for weights that keeps the variance through a nonlinearity.

    Args:
        nonlinearity: ``"linear"``, ``"conv1d"`` (2d, 3d), ``"sigmoid"``, ``"tanh"``, ``"relu"``,
            ``"leaky_relu"`` or ``"selu"``.
        param: The negative slope of ``"leaky_relu"``, 0.01 by default.

    Raises:
        ValueError: The nonlinearity is unknown, or its parameter is not a number.

    >>> from flambeau import nn
    >>> nn.init.calculate_gain("leaky_relu", 0.2)
    1.3867504905630728
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, int | float):
            raise ValueError(f"the negative slope of leaky_relu must be a number, got {slope!r}")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        known = ", ".join([*_GAINS, "leaky_relu"])
        raise ValueError(f"no gain is known for {nonlinearity!r}; there are {known}")
    return _GAINS[nonlinearity]


@function
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with uniform random numbers from [a, b).

    Args:
        tensor: The tensor to fill; it is returned.
        a: The lower bound.
        b: The upper bound.
        generator: The `flambeau.Generator` to draw from; by default the device's default one.

    Raises:
        RuntimeError: ``a`` is greater than ``b``.
    """
    low, high = float(real("uniform_", "a", a)), float(real("uniform_", "b", b))
    return _drawn_uniform(tensor, low, high, generator)


def _drawn_uniform(tensor: Tensor, low: float, high: float, generator: object) -> Tensor:
    """`Tensor.uniform_` outside the tape, without checking for overrides again."""
    bounds = {"low": low, "high": high}
    return redraw("uniform_", "uniform", tensor, generator, bounds, outside_tape=True)


@function
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with normal random numbers; raises RuntimeError for a negative ``std``."""
    mean, std = real("normal_", "mean", mean), real("normal_", "std", std)
    return _drawn_normal(tensor, mean, std, generator)


def _drawn_normal(tensor: Tensor, mean: float, std: float, generator: object) -> Tensor:
    """`Tensor.normal_` likewise."""
    moments = {"mean": mean, "std": std}
    return redraw("normal_", "normal", tensor, generator, moments, outside_tape=True)


@function
@no_grad()
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Fill with normal random numbers in [a, b]; numbers outside are redrawn.

    Args:
        tensor: The tensor to fill; it is returned.
        mean: The mean of the normal distribution before truncation.
        std: Its standard deviation.
        a: The smallest value, in absolute units.
        b: The largest value.
        generator: See `uniform_`.

    Warns:
        UserWarning: The interval is more than two deviations from the mean.
    """
    if _leaves_empty(tensor):
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warn(
            f"trunc_normal_(): the interval from {a} to {b} is more than two deviations from the "
            "mean, where few numbers are normal",
        )
    return truncated_normal_(tensor, mean, std, a, b, generator)


@function
@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with the number ``val``."""
    return tensor.fill_(val)


@function
@no_grad()
def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return tensor.fill_(1.0)


@function
@no_grad()
def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return tensor.zero_()


@function
@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with ones on the diagonal and zeros elsewhere.

    A `Linear` with this weight returns its input.

    Raises:
        ValueError: ``tensor`` does not have 2 dimensions.
    """
    _require_dims("eye_", tensor, "2", tensor.ndim == 2)
    return tensor.copy_(identity(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


@function
@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill the weight of a convolution so that it passes through as many channels as possible.

    Args:
        tensor: Of shape ``(out_channels, in_channels / groups, *kernel)``, with a kernel of 1, 2 or
            3 dimensions; it is returned.
        groups: The groups of the convolution, each of which passes through its own channels.

    Raises:
        ValueError: The dimensions are not 3, 4 or 5, or ``out_channels`` is not a multiple of
            ``groups``.
    """
    _require_dims("dirac_", tensor, "3, 4 or 5", tensor.ndim in (3, 4, 5))
    out_channels, in_channels, *kernel = tensor.shape
    if out_channels % groups:
        raise ValueError(
            f"dirac_() needs out_channels, here {out_channels}, to be a multiple of groups={groups}"
        )
    if _leaves_empty(tensor):
        return tensor
    tensor.zero_()
    per_group = out_channels // groups
    inputs = list(range(min(per_group, in_channels))) * groups
    if inputs:
        outputs = [
            group * per_group + channel
            for group in range(groups)
            for channel in range(min(per_group, in_channels))
        ]
        tensor[(outputs, inputs, *(size // 2 for size in kernel))] = 1
    return tensor


def _require_dims(name: str, tensor: Tensor, wanted: str, has_them: bool) -> None:
    if not has_them:
        raise ValueError(
            f"{name}() fills tensors of {wanted} dimensions, got shape {list(tensor.shape)}"
        )


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """The number of inputs of an output, and of outputs of an input.

    Raises:
        ValueError: The weight has fewer than 2 dimensions.
    """
    shape = tensor.shape
    if len(shape) < 2:
        raise ValueError(
            f"fan-in and fan-out need a weight of at least 2 dimensions, got shape {list(shape)}"
        )
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


@function
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with uniform numbers from [-a, a), where a = gain √(6 / (fan_in + fan_out)).

    X. Glorot, Y. Bengio, "Understanding the difficulty of training deep feedforward neural
    networks", 2010.

    Args:
        tensor: A weight of shape ``(fan_out, fan_in, *kernel)``; it is returned.
        gain: See `calculate_gain`.
        generator: See `uniform_`.

    Raises:
        ValueError: The weight has fewer than 2 dimensions.
    """
    # The factors are multiplied in PyTorch's order, so that the last bits agree.
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return _drawn_uniform(tensor, -bound, bound, generator)


@function
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with normal numbers of deviation gain √(2 / (fan_in + fan_out)).

    Arguments and errors as for `xavier_uniform_`.
    """
    return _drawn_normal(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _xavier_std(tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))


@function
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill with uniform numbers from [-b, b), where b = gain √(3 / fan).

    K. He, X. Zhang, S. Ren, J. Sun, "Delving deep into rectifiers", 2015.

    Args:
        tensor: A weight of shape ``(fan_out, fan_in, *kernel)``; it is returned.
        a: The negative slope of the leaky ReLU that follows.
        mode: ``"fan_in"`` keeps the variance of the forward pass, ``"fan_out"`` that of the
            backward pass.
        nonlinearity: The function that follows; see `calculate_gain`.
        generator: See `uniform_`.

    Raises:
        ValueError: The weight has fewer than 2 dimensions, or the mode or the nonlinearity is
            unknown.

    Warns:
        UserWarning: The weight has no elements, so nothing is done.
    """
    if _warned_of_emptiness(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return _drawn_uniform(tensor, -bound, bound, generator)


@function
def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill with normal numbers of deviation gain / √fan; see `kaiming_uniform_`."""
    if _warned_of_emptiness(tensor):
        return tensor
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return _drawn_normal(tensor, 0.0, std, generator)


def _warned_of_emptiness(tensor: Tensor) -> bool:
    if 0 not in tensor.shape:
        return False
    warn(f"a weight of shape {list(tensor.shape)} has no elements to initialize")
    return True


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    match mode.lower():
        case "fan_in":
            return fan_in
        case "fan_out":
            return fan_out
    raise ValueError(f"mode must be 'fan_in' or 'fan_out', got {mode!r}")


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _reset_affine(weight: Tensor, bias: Tensor | None) -> None:
    """Draw the weight and bias of a linear map or a convolution, uniform in ±1/√fan_in."""
    fan_in, _ = _calculate_fan_in_and_fan_out(weight)
    kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
        uniform_(bias, -bound, bound)


@function
@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill with a random (semi-)orthogonal matrix.

    A. Saxe, J. McClelland, S. Ganguli, "Exact solutions to the nonlinear dynamics of learning in
    deep linear neural networks", 2013.

    Args:
        tensor: Of at least 2 dimensions; all but the first are flattened. It is returned.
        gain: A factor for the matrix.
        generator: See `uniform_`.

    Raises:
        ValueError: ``tensor`` has fewer than 2 dimensions.
    """
    _require_dims("orthogonal_", tensor, "2 or more", tensor.ndim >= 2)
    if tensor.numel() == 0 or _leaves_empty(tensor):
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    with following(tensor._read()):
        normals = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
    matrix = (
        orthonormal_columns(normals.t()).t() if rows < columns else orthonormal_columns(normals)
    )
    return tensor.copy_(matrix.reshape(tensor.shape) * gain)


@function
@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix with normal numbers, and a part of each column with zeros.

    J. Martens, "Deep learning via Hessian-free optimization", 2010.

    Args:
        tensor: Of 2 dimensions; it is returned.
        sparsity: The fraction of each column that becomes zero, rounded up.
        std: The deviation of the other elements, whose mean is 0.
        generator: See `uniform_`. As in PyTorch, the positions of the zeros are drawn from the
            default generator nevertheless.

    Raises:
        ValueError: ``tensor`` does not have 2 dimensions.
    """
    _require_dims("sparse_", tensor, "2", tensor.ndim == 2)
    if _leaves_empty(tensor):
        return tensor
    rows, columns = tensor.shape
    tensor.normal_(0, std, generator=generator)
    zeros = math.ceil(sparsity * rows)
    with following(tensor._read()):
        places = permutations(rows, columns, tensor.device)[:, :zeros]
        tensor[places.t(), arange(columns, device=tensor.device)] = 0.0
    return tensor


def _leaves_empty(tensor: Tensor) -> bool:
    """Whether nothing is filled: on the meta device, unless the initialization is recorded."""
    return tensor.is_meta and not (is_recording() or has_plan(tensor._read()))


def _deprecated(new: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function under an early PyTorch name, with a warning."""
    old_name = new.__name__[:-1]

    def old(*args: object, **kwargs: object) -> Tensor:
        warn(
            f"nn.init.{old_name} is deprecated; call nn.init.{new.__name__}",
            FutureWarning,
        )
        return new(*args, **kwargs)

    old.__name__ = old.__qualname__ = old_name
    old.__doc__ = f"Deprecated: `{new.__name__}` under an old name."
    return old


uniform: Callable[..., Tensor] = _deprecated(uniform_)
normal: Callable[..., Tensor] = _deprecated(normal_)
constant: Callable[..., Tensor] = _deprecated(constant_)
eye: Callable[..., Tensor] = _deprecated(eye_)
dirac: Callable[..., Tensor] = _deprecated(dirac_)
xavier_uniform: Callable[..., Tensor] = _deprecated(xavier_uniform_)
xavier_normal: Callable[..., Tensor] = _deprecated(xavier_normal_)
kaiming_uniform: Callable[..., Tensor] = _deprecated(kaiming_uniform_)
kaiming_normal: Callable[..., Tensor] = _deprecated(kaiming_normal_)
orthogonal: Callable[..., Tensor] = _deprecated(orthogonal_)
sparse: Callable[..., Tensor] = _deprecated(sparse_)
