"""Comparisons of tensors, elementwise or as a whole."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array, Number, Operand, TensorOperand
from flambeau.core.kernels.promotion import check_broadcast, is_number, result_dtype
from flambeau.core.operators.op import function, op
from flambeau.core.support import errors
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.aliases import also_method
from flambeau.ops.common.checks import needs_ordered, same_dtype

__all__ = [
    "allclose", "eq", "equal", "ge", "greater", "greater_equal", "gt", "isclose", "isin", "le",
    "less", "less_equal", "lt", "ne", "not_equal",
]  # fmt: skip


@op(method=True, inplace=True, operator="eq", promote="type", differentiable=False)
def eq(input: TensorOperand, other: Operand) -> Array:
    """Where the elements are equal, as a bool tensor."""
    return jnp.equal(input, other)


@op(method=True, inplace=True, operator="ne", promote="type", differentiable=False)
def ne(input: TensorOperand, other: Operand) -> Array:
    """Where the elements differ, as a bool tensor."""
    return jnp.not_equal(input, other)


@op(method=True, inplace=True, operator="lt", promote="type", differentiable=False)
def lt(input: TensorOperand, other: Operand) -> Array:
    """Where ``input < other``, as a bool tensor."""
    needs_ordered("lt", input)
    return jnp.less(input, other)


@op(method=True, inplace=True, operator="le", promote="type", differentiable=False)
def le(input: TensorOperand, other: Operand) -> Array:
    """Where ``input <= other``, as a bool tensor."""
    needs_ordered("le", input)
    return _at_least(other, input)


@op(method=True, inplace=True, operator="gt", promote="type", differentiable=False)
def gt(input: TensorOperand, other: Operand) -> Array:
    """Where ``input > other``, as a bool tensor."""
    needs_ordered("gt", input)
    return jnp.greater(input, other)


@op(method=True, inplace=True, operator="ge", promote="type", differentiable=False)
def ge(input: TensorOperand, other: Operand) -> Array:
    """Where ``input >= other``, as a bool tensor."""
    needs_ordered("ge", input)
    return _at_least(input, other)


def _at_least(greater: Any, less: Any) -> Any:
    """``greater >= less``.

    XLA would simplify one comparison with 0 to true for squares and magnitudes, even for NaN.
    """
    if jnp.issubdtype(greater.dtype, jnp.inexact):
        return jnp.greater(greater, less) | jnp.equal(greater, less)
    return jnp.greater_equal(greater, less)


@op(name="isclose", differentiable=False)
def _isclose(
    input: Array, other: Array, rtol: Array | Number, atol: Array | Number, equal_nan: bool
) -> Array:
    same_dtype("isclose", input, other)
    check_broadcast(input, other)
    close = input == other
    if not jnp.issubdtype(input.dtype, jnp.inexact):
        input, other = input.astype(jnp.float64), other.astype(jnp.float64)
    elif equal_nan:
        close |= jnp.isnan(input) & jnp.isnan(other)
    error = jnp.abs(input - other)
    allowed = jnp.asarray(atol, error.dtype) + jnp.abs(jnp.asarray(rtol, error.dtype) * other)
    # Infinities are close only to themselves.
    return close | (jnp.isfinite(error) & (error <= allowed))


@function(method=True)
def isclose(
    input: Tensor,
    other: Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Any:
    """Where ``|input - other| <= atol + rtol * |other|``, as a bool tensor.

    Args:
        input: A tensor.
        other: A tensor of the same dtype.
        rtol: The relative tolerance, as a factor of ``other``.
        atol: The absolute tolerance.
        equal_nan: Two NaNs count as close.

    Raises:
        RuntimeError: The dtypes differ, the shapes do not broadcast, or a tolerance is negative.
    """
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance < 0:
            raise RuntimeError(f"isclose(): {name} must not be negative, got {tolerance}")
    return _isclose(input, other, rtol, atol, equal_nan)


@op(promote="type", differentiable=False)
def _same_elements(input: Operand, other: Operand) -> Array:
    return jnp.all(input == other)


@function(method=True)
def allclose(
    input: Tensor, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether `isclose` holds everywhere.

    Raises:
        RuntimeError: See `isclose`.
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@function(method=True)
def equal(input: Tensor, other: Any) -> bool:
    """Whether two tensors have the same shape and equal elements.

    Raises:
        TypeError: ``other`` is not a tensor.
    """
    if not isinstance(other, Tensor):
        raise TypeError(f"equal() compares a Tensor with a Tensor, got {type(other).__name__}")
    return input.shape == other.shape and bool(_same_elements(input, other))


@op(differentiable=False)
def isin(
    elements: Operand, test_elements: Operand, *, assume_unique: bool = False, invert: bool = False
) -> Array:
    """Whether each element is among others, as a bool tensor of the shape of ``elements``.

    Args:
        elements: A tensor or number.
        test_elements: The elements to search, a tensor or number.
        assume_unique: Promises that neither has equal elements; ignored.
        invert: Select the elements that are not among the others.

    Raises:
        RuntimeError: A tensor is bool.
        TypeError: Both are numbers.
    """
    if is_number(elements) and is_number(test_elements):
        raise errors.TypeError(
            "isin(): elements or test_elements must be a Tensor, got two numbers"
        )
    for each in (elements, test_elements):
        if each.dtype == jnp.bool_:
            raise RuntimeError("isin() is not defined for bool tensors; convert with int() first")
    to = result_dtype((elements, test_elements)).numpy
    elements, among = jnp.asarray(elements, to), jnp.asarray(test_elements, to)
    return jnp.isin(elements, among, invert=invert)


greater: Any = also_method("greater", gt)
greater_equal: Any = also_method("greater_equal", ge)
less: Any = also_method("less", lt)
less_equal: Any = also_method("less_equal", le)
not_equal: Any = also_method("not_equal", ne)
