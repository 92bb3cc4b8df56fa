"""Softmax, running sums and normalization of rows by native kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

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
_SHORTEST_ROW = 16


def takes(array: Any, dim: int, name: str = "softmax") -> bool:
    """Whether the kernel of this name supports the rows of this array along ``dim``."""
    return (
        has_kernel(name, array)
        and array.dtype == jnp.float32
        and dim == array.ndim - 1
        and array.shape[-1] >= _SHORTEST_ROW
        and array.size >= _FEWEST_ELEMENTS
    )


def _like(name: str, *arrays: Any) -> Any:
    """A kernel of arrays of one shape, with a result of that shape."""
    shape = arrays[0].shape
    return call_kernel(name, [shape], *arrays, batch=len(shape) - 1)[0]


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def softmax(array: Any, name: str) -> Any:
    """The softmax along the last dimension, or its logarithm.

    Args:
        array: In single precision.
        name: ``"softmax"`` or ``"log_softmax"``.
    """
    return _like(name, array)


@softmax.defjvp
def _softmax_jvp(name: str, primals: Any, tangents: Any) -> Any:
    results = softmax(*primals, name)
    return results, _JACOBIANS[name]((results,), tangents)[0]


def _moved_softmax(fixed: Any, linear: Any) -> Any:
    (weights,), (moved,) = fixed, linear
    return (weights * (moved - jnp.sum(weights * moved, -1, keepdims=True)),)


def _moved_logarithm(fixed: Any, linear: Any) -> Any:
    (logarithms,), (moved,) = fixed, linear
    return (moved - jnp.sum(jnp.exp(logarithms) * moved, -1, keepdims=True),)


def _pulled(name: str) -> Any:
    return lambda fixed, cotangents: (_like(f"{name}_gradient", *fixed, *cotangents),)


_JACOBIANS = {
    "softmax": LinearMap(_moved_softmax, _pulled("softmax"), batches=True, native=True),
    "log_softmax": LinearMap(_moved_logarithm, _pulled("log_softmax"), batches=True, native=True),
}


@jax.custom_jvp
def cumsum(array: Any) -> Any:
    """Running sums along the last dimension, of an array in single precision."""
    return _like("cumsum", array)


@cumsum.defjvp
def _cumsum_jvp(primals: Any, tangents: Any) -> Any:
    return cumsum(*primals), _SUMS((), tangents)[0]


_SUMS = LinearMap(
    lambda _, linear: (jnp.cumsum(linear[0], -1),),
    lambda _, cotangents: (_like("cumsum_gradient", *cotangents),),
    batches=True,
    native=True,
)

#: Arrays with mean 0 and variance 1 of ``(array, weight, bias, *settings)``, which JAX can
#: differentiate.
Plain = Callable[..., Any]


class _Normalization(NamedTuple):
    """A kernel of an array, a weight and a bias, with another one for its gradients.

    Attributes:
        name: The kernel's name. The other's ends with ``_gradients``.
        plain: The same function by XLA's operators.
        settings: The names and values that both take after the arrays.
    """

    name: str
    plain: Plain
    settings: tuple[tuple[str, Any], ...]

    def otherwise(self, *arrays: Any) -> Any:
        return self.plain(*arrays, *(value for _, value in self.settings))

    def attributes(self) -> dict[str, Any]:
        return {
            name: np.float32(value) if isinstance(value, float) else np.int64(value)
            for name, value in self.settings
        }


def standardize(plain: Plain, rows: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Each row of ``(N, D)`` with mean 0 and variance 1, scaled and shifted.

    Args:
        plain: The same function by XLA's operators, for derivatives of the derivatives.
        rows: In single precision.
        weight: ``(D,)`` or ``None``.
        bias: ``(D,)`` or ``None``.
        eps: Added to the variance.
    """
    settings = (("epsilon", float(eps)),)
    return _scaled(_Normalization("standardize", plain, settings), rows, weight, bias)


def standardize_groups(
    plain: Plain, channels: Any, weight: Any, bias: Any, groups: int, eps: float
) -> Any:
    """Each group of channels of ``(N, C, L)`` with mean 0 and variance 1, scaled and shifted.

    Args:
        plain: The same function by XLA's operators, for derivatives of the derivatives.
        channels: In single precision.
        weight: ``(C,)`` or ``None``.
        bias: ``(C,)`` or ``None``.
        groups: The number of groups of channels.
        eps: Added to the variance.
    """
    settings = (("groups", groups), ("epsilon", float(eps)))
    return _scaled(_Normalization("standardize_groups", plain, settings), channels, weight, bias)


def _scaled(normalization: _Normalization, array: Any, weight: Any, bias: Any) -> Any:
    size = array.shape[1]
    weight = jnp.ones(size, array.dtype) if weight is None else weight
    bias = jnp.zeros(size, array.dtype) if bias is None else bias
    return _normalize(array, weight, bias, normalization)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def _normalize(array: Any, weight: Any, bias: Any, normalization: _Normalization) -> Any:
    return _batched(normalization)(array, weight, bias)


def _moved(normalization: _Normalization, primals: Any, tangents: Any) -> Any:
    (moved,) = _derivative(normalization)(primals, moving(tangents))
    return _normalize(*primals, normalization), moved


_normalize.defjvp(_moved, symbolic_zeros=True)


@functools.cache
def _derivative(normalization: _Normalization) -> LinearMap:
    def gradients(fixed: Any, cotangents: Any) -> Any:
        array, weight, _ = fixed
        return call_kernel(
            f"{normalization.name}_gradients", [each.shape for each in fixed],
            *cotangents, array, weight,
            whole=(2,), summed=(1, 2), **normalization.attributes(),
        )  # fmt: skip

    return derivative(normalization.otherwise, gradients, batches=False)


@functools.cache
def _batched(normalization: _Normalization) -> Callable[..., Any]:
    """The kernel; a batch of the array alone becomes more rows or samples."""

    @custom_vmap
    def once(array: Any, weight: Any, bias: Any) -> Any:
        given = array, weight, bias
        return call_kernel(
            normalization.name, [array.shape], *given, whole=(1, 2), **normalization.attributes()
        )[0]

    @once.def_vmap
    def more(size: int, are_batched: Any, array: Any, weight: Any, bias: Any) -> Any:
        if are_batched[1] or are_batched[2]:
            axes = [0 if each else None for each in are_batched]
            return jax.vmap(normalization.otherwise, axes)(array, weight, bias), True
        found = once(array.reshape(-1, *array.shape[2:]), weight, bias)
        return found.reshape(array.shape), True

    return once
