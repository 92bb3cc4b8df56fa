"""Logic on truth values, on the bits of integers, and tests of floating point values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array, Operand, TensorOperand
from flambeau.core.kernels.promotion import check_broadcast
from flambeau.core.operators.op import op
from flambeau.core.support.dtype import INTEGER
from flambeau.core.values.tensor import Tensor, method
from flambeau.ops.common.checks import needs_discrete, needs_integer, needs_ordered

__all__ = [
    "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal", "logical_and",
    "logical_not", "logical_or", "logical_xor",
]  # fmt: skip


# Truth values


def _truth(input: Any) -> Any:
    return input if input.dtype == jnp.bool_ else input != 0


@op(method=True, inplace=True, differentiable=False)
def logical_and(input: TensorOperand, other: TensorOperand) -> Array:
    """Where both elements are not zero, as a bool tensor."""
    check_broadcast(input, other)
    return _truth(input) & _truth(other)


@op(method=True, inplace=True, differentiable=False)
def logical_or(input: TensorOperand, other: TensorOperand) -> Array:
    """Where one element or both are not zero, as a bool tensor."""
    check_broadcast(input, other)
    return _truth(input) | _truth(other)


@op(method=True, inplace=True, differentiable=False)
def logical_xor(input: TensorOperand, other: TensorOperand) -> Array:
    """Where exactly one element is not zero, as a bool tensor."""
    check_broadcast(input, other)
    return _truth(input) ^ _truth(other)


@op(method=True, inplace=True, differentiable=False)
def logical_not(input: TensorOperand) -> Array:
    """Where the elements are zero, as a bool tensor."""
    return ~_truth(input)


# Bits


@op(method=True, inplace=True, operator="and", promote="type", differentiable=False)
def bitwise_and(input: Operand, other: Operand) -> Array:
    """The bits that both integers have; for bools the logical and.

    Raises:
        NotImplementedError: The operands are neither bools nor integers.
    """
    needs_discrete("bitwise_and", input)
    return input & other


@op(method=True, inplace=True, operator="or", promote="type", differentiable=False)
def bitwise_or(input: Operand, other: Operand) -> Array:
    """The bits that one integer or both have; for bools the logical or.

    Raises:
        NotImplementedError: The operands are neither bools nor integers.
    """
    needs_discrete("bitwise_or", input)
    return input | other


@op(method=True, inplace=True, operator="xor", promote="type", differentiable=False)
def bitwise_xor(input: Operand, other: Operand) -> Array:
    """The bits that exactly one of the integers has; for bools whether they differ.

    Raises:
        NotImplementedError: The operands are neither bools nor integers.
    """
    needs_discrete("bitwise_xor", input)
    return input ^ other


@op(method=True, inplace=True, promote="type", differentiable=False)
def bitwise_not(input: Operand) -> Array:
    """All bits of each integer inverted; for bools the logical not.

    Raises:
        NotImplementedError: ``input`` is neither bool nor integer.
    """
    needs_discrete("bitwise_not", input)
    return ~input


def _check_shift(name: str, input: Any) -> None:
    needs_integer(name, input)


@op(method=True, inplace=True, operator="lshift", promote="type", differentiable=False)
def bitwise_left_shift(input: Operand, other: Operand) -> Array:
    """The bits of each integer shifted up by ``other`` places; 0 for too many places.

    Raises:
        NotImplementedError: The operands are not integers.
    """
    _check_shift("bitwise_left_shift", input)
    shifted = jax.lax.shift_left(*jnp.broadcast_arrays(input, other))
    return jnp.where(_outside(input, other), jnp.zeros_like(shifted), shifted)


@op(method=True, inplace=True, operator="rshift", promote="type", differentiable=False)
def bitwise_right_shift(input: Operand, other: Operand) -> Array:
    """The bits of each integer shifted down by ``other`` places, keeping the sign.

    Raises:
        NotImplementedError: The operands are not integers.
    """
    _check_shift("bitwise_right_shift", input)
    all_places = jnp.asarray(input.dtype.itemsize * 8 - 1, input.dtype)
    places = jnp.where(_outside(input, other), all_places, other)
    if jnp.issubdtype(input.dtype, jnp.unsignedinteger):
        shifted = jax.lax.shift_right_logical(*jnp.broadcast_arrays(input, places))
        return jnp.where(_outside(input, other), jnp.zeros_like(shifted), shifted)
    return jax.lax.shift_right_arithmetic(*jnp.broadcast_arrays(input, places))


def _outside(input: Any, places: Any) -> Any:
    return (places < 0) | (places >= input.dtype.itemsize * 8)


@method
def __invert__(self: Tensor) -> Any:
    if self.dtype.category > INTEGER:
        raise TypeError(f"~ inverts bool and integer tensors, this one is {self.dtype.name}")
    return bitwise_not(self)


# Kinds of floating point values


@op(method=True, differentiable=False)
def isnan(input: Array) -> Array:
    """Where the elements are not a number, as a bool tensor."""
    return jnp.isnan(input)


@op(method=True, differentiable=False)
def isinf(input: Array) -> Array:
    """Where the elements are infinite, as a bool tensor."""
    return jnp.isinf(input)


@op(method=True, differentiable=False)
def isfinite(input: Array) -> Array:
    """Where the elements are neither infinite nor NaN, as a bool tensor."""
    return jnp.isfinite(input)


@op(method=True, differentiable=False)
def isposinf(input: Array) -> Array:
    """Where the elements are plus infinity, as a bool tensor."""
    needs_ordered("isposinf", input)
    return jnp.isinf(input) & (input > 0)


@op(method=True, differentiable=False)
def isneginf(input: Array) -> Array:
    """Where the elements are minus infinity, as a bool tensor."""
    needs_ordered("isneginf", input)
    return jnp.isinf(input) & (input < 0)


@op(method=True, differentiable=False)
def isreal(input: Array) -> Array:
    """Where the elements have no imaginary part, as a bool tensor."""
    real = jnp.ones(input.shape, bool)
    return jnp.imag(input) == 0 if jnp.iscomplexobj(input) else real
