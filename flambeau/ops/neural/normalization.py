"""Normalization by statistics of a batch, of features, of groups, or of neighbouring channels.

Half precisions are normalized in float32 and rounded once, as PyTorch does.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import lax

from flambeau.core.kernels.casting import cast
from flambeau.core.kernels.kinds import LISTED, SIZES, Array, Number
from flambeau.core.operators.op import op
from flambeau.core.support import errors
from flambeau.ops.common.checks import floating, needs_floating, needs_inexact, wrap_dims
from flambeau.ops.matrices.norms import norm_of
from flambeau.ops.native import channels as native_channels
from flambeau.ops.native import rows as native
from flambeau.ops.neural.standardization import (
    inverse_deviation,
    standardized_groups,
    standardized_rows,
)

__all__ = ["rms_norm"]


Shape: TypeAlias = Annotated[int | tuple[int, ...] | list[int], SIZES]
# As `Shape`, but never a single number.
Listed: TypeAlias = Annotated[tuple[int, ...] | list[int], LISTED]


def _widened(input: Any) -> Any:
    """``input`` in a precision that is sufficient for sums of squares."""
    return input.astype(jnp.float32) if input.dtype.itemsize < 4 else input


def _check_precisions(name: str, input: Any, **given: Any) -> None:
    """Fail unless all have one dtype, or half precision is combined with float32."""
    for argument, each in given.items():
        if each is None or each.dtype == input.dtype:
            continue
        if not (input.dtype.itemsize == 2 and each.dtype == jnp.float32):
            raise RuntimeError(
                f"{name}(): {argument} of {each.dtype} does not go with an input of {input.dtype}; "
                "convert one of them with to()"
            )


def _channels(array: Any, ndim: int) -> Any:
    """``(C,)`` as it broadcasts against ``(N, C, ...)``."""
    return array.reshape((1, -1) + (1,) * (ndim - 2))


def _scaled(normalized: Any, weight: Any, bias: Any, dtype: Any) -> Any:
    if weight is not None:
        normalized = normalized * weight
    if bias is not None:
        normalized = normalized + bias
    return cast(normalized, np.dtype(dtype))


@op(node="NativeBatchNormBackward0")
def batch_norm(
    input: Array,
    running_mean: Array | None,
    running_var: Array | None,
    weight: Array | None,
    bias: Array | None,
    training: bool,
    momentum: Array | Number,
    eps: float,
) -> Array:
    """The operator of `nn.functional.batch_norm`, without the writes; see there.

    Returns:
        The normalized input; with ``training`` and running statistics also their new values, the
        variance unbiased.

    Raises:
        ValueError: ``training`` with a single value per channel, or ``eps`` is not positive.
        RuntimeError: Sizes or dtypes do not match.
    """
    _check_batch_norm(input, running_mean, running_var, weight, bias, training, eps)
    wide = _widened(input)
    if not training:
        assert running_mean is not None
        assert running_var is not None
        mean, variance = running_mean.astype(wide.dtype), running_var.astype(wide.dtype)
        return _by_moments(wide, mean, variance, weight, bias, eps).astype(input.dtype)
    if not input.size:
        # An empty batch has no statistics.
        output = input
        return output if running_mean is None else (output, running_mean, running_var)
    channels = wide.reshape(*input.shape[:2], math.prod(input.shape[2:]))
    if native_channels.takes(channels):
        weight, bias = (_as_vector(each, wide.dtype) for each in (weight, bias))
        found = native_channels.standardize(_by_own_moments, channels, weight, bias, eps)
        output, mean, variance = found[0].reshape(input.shape), *found[1:]
    else:
        output, mean, variance = _by_own_moments(wide, weight, bias, eps)
    output = output.astype(input.dtype)
    if running_mean is None:
        return output
    count = input.size // input.shape[1]
    unbiased = lax.stop_gradient(variance) * (count / max(count - 1, 1))
    return (
        output,
        _blended(running_mean, lax.stop_gradient(mean), momentum),
        _blended(running_var, unbiased, momentum),
    )


def _by_own_moments(input: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """Each channel of ``(N, C, ...)`` normalized over all samples, its mean and its variance."""
    axes = (0, *range(2, input.ndim))
    mean = jnp.mean(input, axes)
    centered = input - _channels(mean, input.ndim)
    variance = jnp.mean(jnp.square(centered), axes)
    return _by_moments(input, mean, variance, weight, bias, eps), mean, variance


def _by_moments(input: Any, mean: Any, variance: Any, weight: Any, bias: Any, eps: float) -> Any:
    scale = inverse_deviation(variance, eps)
    if weight is not None:
        scale = scale * weight
    centered = input - _channels(mean, input.ndim)
    output = centered * _channels(scale, input.ndim)
    return output if bias is None else output + _channels(bias, input.ndim)


def _blended(running: Any, new: Any, momentum: Any) -> Any:
    return (running * (1 - momentum) + momentum * new).astype(running.dtype)


def _check_batch_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, training: bool,
    eps: float,
) -> None:  # fmt: skip
    _check_channels("batch_norm", input, running_mean, running_var, weight, bias)
    if training and input.size == input.shape[1]:
        raise errors.ValueError(
            "batch_norm(): Expected more than 1 value per channel when training, got an input of "
            f"shape {list(input.shape)}; give a larger batch, or call eval()"
        )
    if eps < 0 or (training and eps == 0):
        raise errors.ValueError(
            f"batch_norm(): eps must be positive, in evaluation at least 0; got {eps}"
        )
    if not training and (running_mean is None or running_var is None):
        raise RuntimeError("batch_norm(): running_mean and running_var are needed outside training")


def _check_channels(
    name: str, input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any
) -> None:
    needs_floating(name, input)
    if input.ndim < 2:
        raise RuntimeError(f"{name}() takes an input of shape (N, C, ...), got {list(input.shape)}")
    given = {
        "running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias,
    }  # fmt: skip
    for argument, each in given.items():
        if each is not None and each.size != input.shape[1]:
            raise RuntimeError(
                f"{name}(): {argument} must have {input.shape[1]} elements for an input of shape "
                f"{list(input.shape)}, got {each.size}"
            )
    _check_precisions(name, input, **given)


@op(node="NativeLayerNormBackward0")
def layer_norm(
    input: Array, normalized_shape: Listed, weight: Array | None = None, bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:  # fmt: skip
    """``input`` with mean 0 and variance 1 over its trailing dimensions, scaled and shifted.

    ``(x - mean) / sqrt(var + eps) * weight + bias``, with the biased variance.

    Args:
        input: ``(*, *normalized_shape)``.
        normalized_shape: The sizes of the trailing dimensions to normalize over.
        weight: Of ``normalized_shape``.
        bias: Of ``normalized_shape``.
        eps: Added to the variance.

    Raises:
        RuntimeError: The shapes or dtypes do not match.
    """
    axes = _check_normalized_shape("layer_norm", input, normalized_shape, weight, bias)
    needs_floating("layer_norm", input)
    _check_precisions("layer_norm", input, weight=weight, bias=bias)
    features = math.prod(input.shape[axes[0] :])
    rows = _widened(input).reshape(math.prod(input.shape[: axes[0]]), features)
    weight, bias = (_as_vector(each, rows.dtype) for each in (weight, bias))
    if native.takes(rows, 1, "standardize"):
        output = native.standardize(standardized_rows, rows, weight, bias, eps)
    else:
        output = standardized_rows(rows, weight, bias, eps)
    return output.reshape(input.shape).astype(input.dtype)


def _as_vector(array: Any, dtype: Any) -> Any:
    return None if array is None else array.reshape(-1).astype(dtype)


def _check_normalized_shape(
    name: str, input: Any, normalized_shape: Any, weight: Any, bias: Any = None
) -> tuple[int, ...]:
    trailing = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not trailing:
        raise RuntimeError(f"{name}(): normalized_shape must name at least one dimension")
    for argument, each in (("weight", weight), ("bias", bias)):
        if each is not None and each.shape != trailing:
            raise RuntimeError(
                f"{name}(): {argument} must have shape {list(trailing)}, as normalized_shape, "
                f"got {list(each.shape)}"
            )
    if input.shape[-len(trailing) :] != trailing:
        raise RuntimeError(
            f"{name}(): normalized_shape={list(trailing)} needs an input of shape "
            f"[*, {', '.join(map(str, trailing))}], got {list(input.shape)}"
        )
    return tuple(range(input.ndim - len(trailing), input.ndim))


@op(node="FusedRmsNormBackward0")
def rms_norm(
    input: Array, normalized_shape: Listed, weight: Array | None = None, eps: float | None = None
) -> Array:
    """``input`` divided by its root mean square over its trailing dimensions, and scaled.

    ``x / sqrt(mean(x ** 2) + eps) * weight``.

    Args:
        input: ``(*, *normalized_shape)``.
        normalized_shape: The sizes of the trailing dimensions to normalize over.
        weight: Of ``normalized_shape``.
        eps: By default the machine epsilon of the precision of the computation.

    Raises:
        ValueError: ``input`` has fewer dimensions than ``normalized_shape``.
        RuntimeError: The shapes or dtypes do not match.
    """
    if not isinstance(normalized_shape, int) and input.ndim < len(normalized_shape):
        raise errors.ValueError(
            f"rms_norm(): normalized_shape={list(normalized_shape)} needs an input of at least "
            f"{len(normalized_shape)} dimensions, got shape {list(input.shape)}"
        )
    axes = _check_normalized_shape("rms_norm", input, normalized_shape, weight)
    needs_inexact("rms_norm", input)
    wide = _widened(input)
    epsilon = jnp.finfo(wide.dtype).eps if eps is None else eps
    square = jnp.mean(jnp.square(wide), axes, keepdims=True)
    normalized = wide * inverse_deviation(square, epsilon)
    return _scaled(normalized, weight, None, input.dtype)


@op(node="NativeGroupNormBackward0")
def group_norm(
    input: Array, num_groups: int, weight: Array | None = None, bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:  # fmt: skip
    """``input`` with mean 0 and variance 1 over each group of channels, scaled and shifted.

    Args:
        input: ``(N, C, ...)``.
        num_groups: The number of groups of channels.
        weight: ``(C,)``.
        bias: ``(C,)``.
        eps: Added to the variance.

    Raises:
        RuntimeError: ``num_groups`` does not divide the channels, or the shapes do not match.
        ValueError: The batch has a single value per group.
    """
    needs_floating("group_norm", input)
    if input.ndim < 2:
        raise RuntimeError(
            f"group_norm() takes an input of shape (N, C, ...), got {list(input.shape)}"
        )
    channels = input.shape[1]
    if num_groups <= 0 or channels % num_groups:
        raise RuntimeError(
            f"group_norm(): num_groups={num_groups} does not divide the {channels} channels of an "
            f"input of shape {list(input.shape)}"
        )
    if input.shape[0] * channels // num_groups * math.prod(input.shape[2:]) == 1:
        raise errors.ValueError(
            f"group_norm(): more than 1 value per group is needed, got {num_groups} groups and an "
            f"input of shape {list(input.shape)}"
        )
    for name, each in (("weight", weight), ("bias", bias)):
        if each is not None and each.shape != (channels,):
            raise RuntimeError(
                f"group_norm(): {name} must have shape [{channels}] for an input of shape "
                f"{list(input.shape)}, got {list(each.shape)}"
            )
    _check_precisions("group_norm", input, weight=weight, bias=bias)
    return _standardized(input, weight, bias, num_groups, eps)


def _standardized(input: Any, weight: Any, bias: Any, groups: int, eps: float) -> Any:
    """``(N, C, ...)`` normalized over groups of channels, scaled and shifted."""
    batch, channels = input.shape[:2]
    wide = _widened(input).reshape(batch, channels, math.prod(input.shape[2:]))
    weight, bias = (_as_vector(each, wide.dtype) for each in (weight, bias))
    if native.takes(wide, 2, "standardize_groups"):
        output = native.standardize_groups(standardized_groups, wide, weight, bias, groups, eps)
    else:
        output = standardized_groups(wide, weight, bias, groups, eps)
    return output.reshape(input.shape).astype(input.dtype)


@op(node="NativeBatchNormBackward0")
def instance_norm(
    input: Array,
    running_mean: Array | None,
    running_var: Array | None,
    weight: Array | None,
    bias: Array | None,
    use_input_stats: bool,
    momentum: Array | Number,
    eps: float,
) -> Array:
    """Each channel of each sample with mean 0 and variance 1, and the new running statistics.

    See `batch_norm`; the running statistics are updated with the mean over the samples.

    Raises:
        RuntimeError: Sizes or dtypes do not match.
    """
    _check_channels("instance_norm", input, running_mean, running_var, weight, bias)
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "instance_norm(): use_input_stats=False needs running_mean and running_var"
            )
        return _by_running_statistics(input, running_mean, running_var, weight, bias, eps)
    output = _standardized(input, weight, bias, input.shape[1], eps)
    if running_mean is None or not input.size:
        return output
    axes = tuple(range(2, input.ndim))
    fixed = _widened(lax.stop_gradient(input))
    mean = jnp.mean(fixed, axes, keepdims=True)
    variance = jnp.mean(jnp.square(fixed - mean), (0, *axes))
    count = input.size // max(input.shape[0] * input.shape[1], 1)
    return (
        output,
        _blended(running_mean, jnp.mean(mean, (0, *axes)), momentum),
        _blended(running_var, variance * (count / max(count - 1, 1)), momentum),
    )


def _by_running_statistics(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, eps: float
) -> Any:
    wide = _widened(input)
    mean = _channels(running_mean.astype(wide.dtype), input.ndim)
    variance = _channels(running_var.astype(wide.dtype), input.ndim)
    return _scaled(
        (wide - mean) * inverse_deviation(variance, eps),
        None if weight is None else _channels(weight, input.ndim),
        None if bias is None else _channels(bias, input.ndim),
        input.dtype,
    )


@op(widen=True, node="DivBackward0")
def local_response_norm(input: Array, size: int, alpha: float = 1e-4, beta: float = 0.75,
                        k: float = 1.0) -> Array:  # fmt: skip
    """Each channel divided by a power of the mean square of ``size`` channels around it.

    ``x / (k + alpha * mean(x ** 2)) ** beta``, with zeros beyond the first and last channel.

    Raises:
        ValueError: ``input`` has fewer than 3 dimensions.
    """
    if input.ndim < 3:
        raise errors.ValueError(
            f"local_response_norm() takes an input of shape (N, C, ...), got {list(input.shape)}"
        )
    if size < 1:
        raise RuntimeError(f"local_response_norm(): size must be positive, got {size}")
    (input,) = floating(input)
    squares = jnp.square(input)
    window = (1, size, *(1,) * (input.ndim - 2))
    padding = [(0, 0), (size // 2, (size - 1) // 2)] + [(0, 0)] * (input.ndim - 2)
    total = lax.reduce_window(
        squares, np.zeros((), input.dtype), lax.add, window, (1,) * input.ndim, padding
    )
    return input / jnp.power(k + alpha / size * total, beta)


@op(widen=True, node="DivBackward0")
def normalize(input: Array, p: float = 2.0, dim: Shape = 1, eps: float = 1e-12) -> Array:
    """The operator of `nn.functional.normalize`; see there."""
    dims = wrap_dims(dim, input.ndim, "normalize")
    if not jnp.issubdtype(input.dtype, jnp.inexact):
        raise RuntimeError(f"normalize() takes floating point tensors, got {input.dtype}")
    norm = norm_of(input, float(p), dims, True)
    # Where the bound is used, no gradient flows through the norm, not even from a NaN.
    return input / jnp.where(norm < eps, jnp.asarray(eps, norm.dtype), norm)
