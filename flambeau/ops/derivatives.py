"""Derivatives that are not JAX's: where PyTorch defines another one, or none."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def without_derivative(name: str, result: Any) -> Any:
    """``result`` as it is, of an operator whose gradient PyTorch does not define.

    Asking for the gradient raises a ``RuntimeError`` that names the operator.
    """
    return result


def _forward(name: str, result: Any) -> Any:
    return result, None


def _backward(name: str, saved: Any, cotangent: Any) -> Any:
    raise RuntimeError(f"the derivative of {name}() is not defined; detach() its arguments")


without_derivative.defvjp(_forward, _backward)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def shared_by_equals(input: Any, dims: tuple[int, ...], value: Any) -> Any:
    """``value``, one of the elements of ``input`` over ``dims``, which are kept with size 1.

    The gradient is shared equally by all the elements that are equal to it.
    """
    return value


@shared_by_equals.defjvp
def _shared_by_equals_jvp(dims: tuple[int, ...], primals: Any, tangents: Any) -> Any:
    input, value = primals
    tangent, _ = tangents
    equal = (input == value) | (jnp.isnan(input) & jnp.isnan(value))
    count = jnp.sum(equal, dims, keepdims=True).astype(input.dtype)
    shared = jnp.sum(jnp.where(equal, tangent, 0), dims, keepdims=True) / count
    return value, shared
