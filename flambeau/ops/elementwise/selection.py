"""Selecting values: maxima, minima, clamping, `where`, and replacing infinities and NaN."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flambeau.core.kernels.kinds import Array, Operand, TensorOperand
from flambeau.core.kernels.promotion import (
    as_number,
    check_broadcast,
    is_number,
    promote,
    promote_to_float,
    result_dtype,
)
from flambeau.core.operators.op import function, op
from flambeau.core.support import errors
from flambeau.core.support.dtype import finfo, from_numpy_dtype, uint8
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.aliases import also_method
from flambeau.ops.common.checks import needs_ordered, same_dtype
from flambeau.ops.common.derivatives import where_chosen, with_derivatives, without_derivative

__all__ = [
    "clamp", "clamp_max", "clamp_min", "clip", "copysign", "fmax", "fmin", "heaviside", "maximum",
    "minimum", "nan_to_num", "where",
]  # fmt: skip


# The greater and the lesser of two


@op(method=True, promote="type", widen=True)
def maximum(input: TensorOperand, other: TensorOperand) -> Array:
    """The greater of two elements, NaN if one is; equal elements share the gradient."""
    needs_ordered("maximum", input)
    return greater(input, other)


@op(method=True, promote="type", widen=True)
def minimum(input: TensorOperand, other: TensorOperand) -> Array:
    """The lesser of two elements, NaN if one is; equal elements share the gradient."""
    needs_ordered("minimum", input)
    return lesser(input, other)


def _to_first(beats: Any) -> Any:
    """The derivative by the first argument: halved if both are equal, full if one is NaN."""

    def derivative(tangent: Any, result: Any, first: Any, second: Any) -> Any:
        whole = where_chosen(~beats(second, first), tangent)
        return jnp.where(first == second, tangent / 2, whole)

    return derivative


def _to_second(beats: Any) -> Any:
    derivative = _to_first(beats)
    return lambda tangent, result, first, second: derivative(tangent, result, second, first)


@with_derivatives(_to_first(jnp.greater), _to_second(jnp.greater))
def greater(first: Any, second: Any) -> Any:
    """The greater of two elements, NaN if one is."""
    return jnp.maximum(first, second)


@with_derivatives(_to_first(jnp.less), _to_second(jnp.less))
def lesser(first: Any, second: Any) -> Any:
    """The lesser of two elements, NaN if one is."""
    return jnp.minimum(first, second)


@op(method=True, promote="type", widen=True)
def fmax(input: TensorOperand, other: TensorOperand) -> Array:
    """The greater of two elements; if one is NaN, the other.

    If both are equal, ``input`` gets the gradient.
    """
    needs_ordered("fmax", input)
    return jnp.where((input >= other) | jnp.isnan(other), input, other)


@op(method=True, promote="type", widen=True)
def fmin(input: TensorOperand, other: TensorOperand) -> Array:
    """The lesser of two elements; if one is NaN, the other.

    If both are equal, ``input`` gets the gradient.
    """
    needs_ordered("fmin", input)
    return jnp.where((input <= other) | jnp.isnan(other), input, other)


# Clamping


@op(
    method=True,
    inplace=True,
    widen=True,
    node="ClampBackward1",
    overloads=dict.fromkeys(("tt-", "t-t", "ttt"), "ClampBackward0"),
)
def clamp(input: TensorOperand, min: Operand = None, max: Operand = None) -> Array:
    """``input`` clamped to at least ``min``, and then to at most ``max``.

    The gradient is 1 at the bounds themselves. If ``min`` is above ``max`` the result is ``max``.

    Args:
        input: A tensor.
        min: A number or tensor, or ``None`` for no lower bound.
        max: A number or tensor, or ``None`` for no upper bound.

    Raises:
        RuntimeError: Neither bound is given, or the shapes do not broadcast.
        TypeError: One bound is a number and the other a tensor with dimensions.

    >>> import flambeau
    >>> flambeau.clamp(flambeau.tensor([-2.0, 0.5, 3.0]), -1, 1)
    tensor([-1.0000,  0.5000,  1.0000])
    """
    return _clamped("clamp", input, min, max)


def _clamped(name: str, input: Any, low: Any, high: Any) -> Any:
    if low is None and high is None:
        raise RuntimeError(f"{name}() needs a lower or an upper bound, min or max")
    bounds = [each for each in (low, high) if each is not None]
    if len({is_number(each) for each in bounds}) == 2:
        # Next to a number, a 0-d tensor counts as a number.
        if any(np.ndim(each) for each in bounds):
            raise errors.TypeError(f"{name}(): min and max must both be numbers or both be Tensors")
        to = result_dtype((input, *map(as_number, bounds)))
        bounds = [jnp.asarray(each, to.numpy) for each in bounds]
    input, *bounds = promote(input, *bounds)
    needs_ordered(name, input)
    if high is None:
        return at_least(input, *bounds)
    return _at_most(input, *bounds) if low is None else _between(input, *bounds)


@with_derivatives(
    lambda tangent, result, value, low: where_chosen(value >= low, tangent),
    lambda tangent, result, value, low: where_chosen(value < low, tangent),
)
def at_least(value: Any, low: Any) -> Any:
    """``value``, with ``low`` where it is below; no gradient flows at NaN."""
    return jnp.maximum(value, low)


@with_derivatives(
    lambda tangent, result, value, high: where_chosen(value <= high, tangent),
    lambda tangent, result, value, high: where_chosen(value > high, tangent),
)
def _at_most(value: Any, high: Any) -> Any:
    return jnp.minimum(value, high)


@with_derivatives(
    lambda tangent, result, value, low, high: where_chosen(
        (value >= low) & (value <= high), tangent
    ),
    lambda tangent, result, value, low, high: where_chosen((low < high) & (value < low), tangent),
    lambda tangent, result, value, low, high: where_chosen((value > high) | (high < low), tangent),
)
def _between(value: Any, low: Any, high: Any) -> Any:
    return jnp.minimum(jnp.maximum(value, low), high)


@op(method=True, inplace=True, widen=True, overloads={"tt": "ClampMinBackward1"})
def clamp_min(input: TensorOperand, min: Operand) -> Array:
    """`clamp` with a lower bound only."""
    return _clamped("clamp_min", input, min, None)


@op(method=True, inplace=True, widen=True, overloads={"tt": "ClampMaxBackward1"})
def clamp_max(input: TensorOperand, max: Operand) -> Array:
    """`clamp` with an upper bound only."""
    return _clamped("clamp_max", input, None, max)


# Choosing by a condition


@op(name="where", widen=True)
def _where(condition: Array, input: Operand, other: Operand) -> Array:
    if condition.dtype == uint8.numpy:
        condition = condition.astype(bool)
    if condition.dtype != jnp.bool_:
        raise RuntimeError(
            f"where(): the condition must be a bool tensor, got {condition.dtype}; "
            "compare it with something first, as in condition != 0"
        )
    check_broadcast(condition, input, other)
    to = result_dtype((input, other)).numpy
    return jnp.where(condition, jnp.asarray(input, to), jnp.asarray(other, to))


@function
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """``input`` where ``condition`` is true, ``other`` elsewhere, elementwise and broadcast.

    With only the condition: the indices where it is true, as from ``nonzero(as_tuple=True)``.

    Args:
        condition: A bool tensor.
        input: A tensor or number.
        other: A tensor or number.

    Raises:
        RuntimeError: The condition is not bool, or the shapes do not broadcast.
        TypeError: Only one of ``input`` and ``other`` is given.

    >>> import flambeau
    >>> x = flambeau.tensor([1.0, -1.0])
    >>> flambeau.where(x > 0, x, 0.0)
    tensor([1., 0.])
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if input is None or other is None:
        raise TypeError("where() takes a condition alone, or both input and other with it")
    return _where(condition, input, other)


@function(method="where")
def _where_method(self: Tensor, condition: Tensor, other: Any) -> Any:
    """This tensor where ``condition`` is true, ``other`` elsewhere; see `flambeau.where`."""
    return _where(condition, self, other)


# Replacing


@op(method=True, inplace=True)
def nan_to_num(
    input: Operand,
    nan: Array | None = None,
    posinf: Array | None = None,
    neginf: Array | None = None,
) -> Array:
    """``input`` with NaN and infinities replaced.

    Args:
        input: A tensor.
        nan: The replacement of NaN; 0 by default.
        posinf: The replacement of infinity; by default the greatest finite value of the dtype.
        neginf: The replacement of minus infinity; by default the least finite value.
    """
    (input,) = promote(input)
    if not jnp.issubdtype(input.dtype, jnp.inexact):
        return input
    if jnp.iscomplexobj(input):
        parts = (jnp.real(input), jnp.imag(input))
        return jax.lax.complex(*(_finite(each, nan, posinf, neginf) for each in parts))
    return _finite(input, nan, posinf, neginf)


def _finite(input: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    limits = finfo(from_numpy_dtype(input.dtype))
    nan, posinf, neginf = (
        jnp.asarray(default if given is None else given, input.dtype)
        for given, default in ((nan, 0), (posinf, limits.max), (neginf, limits.min))
    )
    infinite = jnp.isinf(input)
    replaced = jnp.where(infinite, jnp.where(input > 0, posinf, neginf), input)
    return jnp.where(jnp.isnan(input), nan, replaced)


@op(method=True, inplace=True, widen=True, overloads={"tn": "CopysignBackward1"})
def copysign(input: TensorOperand, other: Operand) -> Array:
    """The magnitudes of ``input`` with the signs of ``other``, elementwise and broadcast.

    The gradient is 0 where ``input`` is 0.
    """
    needs_ordered("copysign", input, other)
    input, other = promote_to_float(input, other)
    return _with_sign(*jnp.broadcast_arrays(input, other))


@with_derivatives(
    lambda tangent, result, value, sign: tangent * jnp.where(value == 0, 0, result / value), None
)
def _with_sign(value: Any, sign: Any) -> Any:
    return jnp.copysign(value, sign)


@op(method=True, inplace=True, node="NotImplemented")
def heaviside(input: Array, values: Array) -> Array:
    """0 for negative elements, 1 for positive ones, and ``values`` for zeros.

    Raises:
        RuntimeError: The dtypes differ, or a gradient is requested: there is none.
    """
    same_dtype("heaviside", input, values)
    needs_ordered("heaviside", input)
    input, values = promote(input, values)
    step = jnp.where(input > 0, jnp.ones_like(input), jnp.zeros_like(input))
    found = jnp.where(input == 0, values, step)
    return without_derivative("heaviside()", found, input, values)


clip: Any = also_method("clip", clamp)
