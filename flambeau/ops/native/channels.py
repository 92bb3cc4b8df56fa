"""Normalization of the channels of all samples by native kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from flambeau.ops.cpu_forms.linear_maps import LinearMap
from flambeau.ops.native.call import call_kernel, has_kernel
from flambeau.ops.native.derivative import derivative, moving

__all__: list[str] = []

# XLA fuses its loops with neighbouring operations, which saves more for few elements.
_FEWEST_ELEMENTS = 1 << 14
# The length of the kernels' longest vector.
_SHORTEST_ROW = 16

#: From ``(channels, weight, bias, eps)`` to the normalized channels, the means and the variances,
#: which JAX can differentiate.
Plain = Callable[..., tuple[Any, Any, Any]]


def takes(channels: Any) -> bool:
    """Whether the kernels support these channels, ``(N, C, L)``.

    Over several devices the statistics cover the samples of all devices, and XLA sums the partial
    results.
    """
    return (
        jax.device_count() == 1
        and has_kernel("standardize_channels", channels)
        and channels.dtype == jnp.float32
        and channels.shape[2] >= _SHORTEST_ROW
        and channels.size >= _FEWEST_ELEMENTS
    )


def standardize(
    plain: Plain, channels: Any, weight: Any, bias: Any, eps: float
) -> tuple[Any, Any, Any]:
    """Each channel with mean 0 and variance 1 over all samples, scaled and shifted.

    Args:
        plain: The same function by XLA's operators, for derivatives of the derivatives.
        channels: ``(N, C, L)`` in single precision.
        weight: ``(C,)`` or ``None``.
        bias: ``(C,)`` or ``None``.
        eps: Added to the variance.

    Returns:
        The result, and the mean and the variance of each channel, whose derivatives are 0.
    """
    count = channels.shape[1]
    weight = jnp.ones(count, channels.dtype) if weight is None else weight
    bias = jnp.zeros(count, channels.dtype) if bias is None else bias
    return _standardize(channels, weight, bias, plain, float(eps))


@functools.partial(jax.custom_jvp, nondiff_argnums=(3, 4))
def _standardize(channels: Any, weight: Any, bias: Any, plain: Plain, eps: float) -> Any:
    return _batched(plain, eps)(channels, weight, bias)


def _moved(plain: Plain, eps: float, primals: Any, tangents: Any) -> Any:
    result, mean, variance = _standardize(*primals, plain, eps)
    fixed = (*primals, mean, variance)
    (moved,) = _derivative(plain, eps)(fixed, moving(tangents))
    return (result, mean, variance), (moved, jnp.zeros_like(mean), jnp.zeros_like(variance))


_standardize.defjvp(_moved, symbolic_zeros=True)


@functools.cache
def _derivative(plain: Plain, eps: float) -> LinearMap:
    def gradients(fixed: Any, cotangents: Any) -> Any:
        channels, weight, _, mean, variance = fixed
        return call_kernel(
            "standardize_channels_gradients", [channels.shape, weight.shape, weight.shape],
            *cotangents, channels, weight, mean, variance, batch=0, epsilon=np.float32(eps),
        )  # fmt: skip

    return derivative(lambda *arrays: plain(*arrays, eps)[0], gradients, batches=False)


@functools.cache
def _batched(plain: Plain, eps: float) -> Callable[..., Any]:
    """The kernel, with the batching rule of ``plain``."""

    @custom_vmap
    def once(channels: Any, weight: Any, bias: Any) -> Any:
        return call_kernel(
            "standardize_channels", [channels.shape, weight.shape, weight.shape],
            channels, weight, bias, batch=0, epsilon=np.float32(eps),
        )  # fmt: skip

    @once.def_vmap
    def more(size: int, are_batched: Any, *arrays: Any) -> Any:
        axes = [0 if each else None for each in are_batched]
        found = jax.vmap(lambda *each: plain(*each, eps), axes, axis_size=size)(*arrays)
        return found, (True, True, True)

    return once
