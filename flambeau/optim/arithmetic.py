"""The element-wise steps that update rules are made of, rounded as PyTorch rounds them.

Half precision arrays are computed in float32 and rounded after each of these steps. Scalars come in
double precision and are rounded to the precision of the computation where they meet an array.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

_COMPUTED_IN = {jnp.dtype("float16"): jnp.float32, jnp.dtype("bfloat16"): jnp.float32}


def _rounded_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` computed in the precision for its first argument, and rounded to its dtype."""

    @functools.wraps(function)
    def computed(first: Any, *others: Any) -> Any:
        dtype = first.dtype
        precise = _COMPUTED_IN.get(dtype, dtype)
        arguments = [jnp.asarray(each).astype(precise) for each in (first, *others)]
        return function(*arguments).astype(dtype)

    return computed


@_rounded_once
def add(array: Any, other: Any, alpha: Any = 1.0) -> Any:
    """array + alpha · other"""
    return array + alpha * other


@_rounded_once
def mul(array: Any, other: Any) -> Any:
    """array · other"""
    return array * other


@_rounded_once
def div(array: Any, other: Any) -> Any:
    """array / other"""
    return array / other


@_rounded_once
def sqrt(array: Any) -> Any:
    """√array"""
    return jnp.sqrt(array)


@_rounded_once
def addcmul(array: Any, left: Any, right: Any, value: Any = 1.0) -> Any:
    """array + value · left · right"""
    return array + value * left * right


@_rounded_once
def addcdiv(array: Any, left: Any, right: Any, value: Any = 1.0) -> Any:
    """array + value · left / right"""
    return array + value * left / right


@_rounded_once
def lerp(start: Any, end: Any, weight: Any) -> Any:
    """start + weight · (end − start), computed from the nearer end."""
    near_start = jnp.abs(weight) < 0.5
    factor = jnp.where(near_start, weight, weight - 1)
    return jnp.where(near_start, start, end) + factor * (end - start)


@_rounded_once
def rsqrt(array: Any) -> Any:
    """1 / √array"""
    return 1 / jnp.sqrt(array)


@_rounded_once
def divide_by(array: Any, numerator: Any) -> Any:
    """numerator / array"""
    return numerator / array


@_rounded_once
def at_least(array: Any, lowest: Any) -> Any:
    """The larger of ``array`` and ``lowest``"""
    return jnp.maximum(array, lowest)


@_rounded_once
def clamp(array: Any, lowest: Any, highest: Any) -> Any:
    """``array`` between ``lowest`` and ``highest``"""
    return jnp.clip(array, lowest, highest)
