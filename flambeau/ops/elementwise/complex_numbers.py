"""Complex numbers: from real and imaginary or polar parts, conjugates, angles."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array, Operand
from flambeau.core.kernels.promotion import check_broadcast, promote, promote_to_float
from flambeau.core.operators.op import function, op
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import needs_floating, same_dtype
from flambeau.ops.common.derivatives import where_chosen, with_derivatives

__all__ = [
    "angle", "complex", "conj", "conj_physical", "is_conj", "is_neg", "polar", "resolve_conj",
    "resolve_neg",
]  # fmt: skip


def _check_parts(name: str, first: Any, second: Any) -> None:
    same_dtype(name, first, second)
    needs_floating(name, first)
    if first.dtype.itemsize == 2 and first.dtype != jnp.float16:
        raise RuntimeError(f"{name}() of {first.dtype} is not defined; convert to float32 first")
    check_broadcast(first, second)


def _wide(part: Any) -> Any:
    # No complex type of half precision exists to hold float16 parts.
    return part.astype(jnp.float32) if part.dtype.itemsize == 2 else part


@op(linear=True)
def complex(real: Array, imag: Array) -> Array:
    """The complex numbers with these real and imaginary parts.

    Raises:
        RuntimeError: The parts are of different dtypes, or the shapes do not broadcast.
    """
    _check_parts("complex", real, imag)
    return jax.lax.complex(*jnp.broadcast_arrays(_wide(real), _wide(imag)))


@op
def polar(abs: Array, angle: Array) -> Array:
    """The complex numbers with these absolute values and angles in radians.

    Raises:
        RuntimeError: The arguments are of different dtypes, or the shapes do not broadcast.
    """
    _check_parts("polar", abs, angle)
    abs, angle = jnp.broadcast_arrays(_wide(abs), _wide(angle))
    return jax.lax.complex(abs * jnp.cos(angle), abs * jnp.sin(angle))


@op(method=True, inplace=True, name="conj_physical", linear=True)
def conj_physical(input: Operand) -> Array:
    """The complex conjugate of each element; real elements unchanged."""
    (input,) = promote(input)
    return jnp.conj(input)


@op(name="conj", linear=True)
def _conjugate(input: Array) -> Array:
    return jnp.conj(input)


@function(method=True)
def conj(input: Tensor) -> Any:
    """The complex conjugate of each element; a real tensor itself."""
    return _conjugate(input) if input.is_complex() else input


@function(method=True)
def resolve_conj(input: Tensor) -> Any:
    """``input`` itself, since conjugation is never lazy."""
    return input


@function(method=True)
def resolve_neg(input: Tensor) -> Any:
    """``input`` itself, since negation is never lazy."""
    return input


@function(method=True)
def is_neg(input: Tensor) -> bool:
    """Always false: negation is never lazy."""
    return False


@function(method=True)
def is_conj(input: Tensor) -> bool:
    """Always false: conjugation is never lazy."""
    return False


def _turn(tangent: Any, result: Any, input: Any) -> Any:
    zero = input == 0
    slope = 1 / jnp.where(zero, 1, input)
    return jnp.imag(where_chosen(~zero, tangent) * slope)


@with_derivatives(_turn)
def _angle(input: Any) -> Any:
    return jnp.angle(input)


@op(method=True)
def angle(input: Operand) -> Array:
    """The angle of each element in radians: of real elements 0, or pi for negative ones.

    The gradient is 0 for real elements and for zeros.
    """
    (input,) = promote_to_float(input)
    if jnp.iscomplexobj(input):
        return _angle(input)
    input = jax.lax.stop_gradient(input)
    pi = jnp.asarray(math.pi, input.dtype)
    return jnp.where(jnp.isnan(input), input, jnp.where(input < 0, pi, jnp.zeros_like(input)))
