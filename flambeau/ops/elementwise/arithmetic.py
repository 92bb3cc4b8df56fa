"""Arithmetic: sums, products, quotients, remainders and powers, with Python's operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from flambeau.core.kernels.kinds import Array, Number, Operand, TensorOperand
from flambeau.core.kernels.promotion import check_broadcast, promote, promote_to_float, result_dtype
from flambeau.core.operators.op import function, op
from flambeau.core.operators.python_operators import operand
from flambeau.core.operators.writing import make_in_place
from flambeau.core.support.dtype import BOOLEAN, FLOATING, INTEGER
from flambeau.core.support.opaque import opaque
from flambeau.core.values.tensor import Tensor, method
from flambeau.ops.common.aliases import also_method
from flambeau.ops.common.checks import category, needs_inexact, needs_integer, needs_real_number
from flambeau.ops.common.derivatives import with_derivatives, without_derivative

__all__ = [
    "add", "addcdiv", "addcmul", "div", "divide", "floor_divide", "fmod", "gcd", "lcm", "lerp",
    "mul", "multiply", "neg", "negative", "positive", "reciprocal", "remainder", "rsub", "square",
    "sub", "subtract", "true_divide",
]  # fmt: skip


def _is_one(alpha: Any) -> bool:
    return type(alpha) is int and alpha == 1


def _scaled(name: str, alpha: Any, to: Any) -> Any:
    """The factor ``alpha`` as an array of the result's dtype ``to``."""
    if category(alpha) >= FLOATING and to.category <= INTEGER:
        raise RuntimeError(
            f"{name}(): alpha is a {alpha.dtype} number, but the result is {to}; "
            "for integer tensors alpha must be an integer"
        )
    if category(alpha) == BOOLEAN and to.category != BOOLEAN:
        raise RuntimeError(f"{name}(): a bool alpha is for bool results only, this one is {to}")
    return jnp.asarray(alpha, to.numpy)


# Sums and differences


@op(
    name="add", operator="add", inplace=True, promote="type", widen=True, numbers=True, linear=True
)  # fmt: skip
def _add(input: Operand, other: Operand) -> Array:
    """The sum of two tensors, or of a tensor and a number."""
    return _unless_tensors(input + other, input, other)


@op(name="add", widen=True, numbers=True, linear=True)
def add_scaled(input: Operand, other: Operand, alpha: Array | Number) -> Array:
    alpha = _scaled("add", alpha, result_dtype((input, other)))
    left, right = promote(input, other)
    return left + alpha * right


@function(method=True)
def add(input: Tensor | complex, other: Any, *, alpha: Any = 1) -> Any:
    """``input + alpha * other``, elementwise and broadcast.

    Args:
        input: A tensor or number.
        other: A tensor or number.
        alpha: A number to multiply ``other`` by.

    Raises:
        RuntimeError: The shapes do not broadcast; ``alpha`` is a float and the result an integer.
    """
    return _add(input, other) if _is_one(alpha) else add_scaled(input, other, alpha)


def _unless_tensors(result: Any, input: Any, other: Any) -> Any:
    """A result of a number, which XLA must not merge with the number of the next operator."""
    return result if jnp.ndim(input) and jnp.ndim(other) else opaque(result)


def _subtraction(*operands: Any) -> None:
    if any(category(each) == BOOLEAN for each in operands):
        raise RuntimeError(
            "subtraction is not defined for bool tensors; use ^ or logical_xor() for their "
            "difference, ~ or logical_not() to invert a mask"
        )


@op(name="sub", operator="sub", inplace=True, widen=True, numbers=True, linear=True)
def _sub(input: Operand, other: Operand) -> Array:
    """The difference of two tensors, or of a tensor and a number."""
    _subtraction(input, other)
    left, right = promote(input, other)
    return _unless_tensors(left - right, input, other)


@op(name="sub", widen=True, numbers=True, linear=True)
def sub_scaled(input: Operand, other: Operand, alpha: Array | Number) -> Array:
    _subtraction(input, other)
    alpha = _scaled("sub", alpha, result_dtype((input, other)))
    left, right = promote(input, other)
    return left - alpha * right


@function(method=True)
def sub(input: Tensor | complex, other: Any, *, alpha: Any = 1) -> Any:
    """``input - alpha * other``, elementwise and broadcast.

    Raises:
        RuntimeError: An operand is bool; the shapes do not broadcast; ``alpha`` is a float and the
            result an integer.
    """
    return _sub(input, other) if _is_one(alpha) else sub_scaled(input, other, alpha)


@op(name="rsub", node="RsubBackward1", overloads={"tt": "RsubBackward0"}, widen=True, linear=True)
def _rsub(input: TensorOperand, other: Operand) -> Array:
    """``other - input``, for ``1 - tensor``."""
    _subtraction(input, other)
    left, right = promote(input, other)
    return _unless_tensors(right - left, input, other)


@op(
    name="rsub", node="RsubBackward1",
    overloads=dict.fromkeys(("ttn", "ttt"), "RsubBackward0"), widen=True, linear=True,
)  # fmt: skip
def _rsub_scaled(input: TensorOperand, other: Operand, alpha: Array | Number) -> Array:
    _subtraction(input, other)
    alpha = _scaled("rsub", alpha, result_dtype((input, other)))
    left, right = promote(input, other)
    return right - alpha * left


@function
def rsub(input: Tensor, other: Any, alpha: Any = 1) -> Any:
    """``other - alpha * input``, elementwise and broadcast; see `sub`."""
    return _rsub(input, other) if _is_one(alpha) else _rsub_scaled(input, other, alpha)


@op(method=True, inplace=True, linear=True)
def neg(input: Operand) -> Array:
    """The negative of each element.

    Raises:
        RuntimeError: ``input`` is bool.
    """
    (input,) = promote(input)
    if input.dtype == jnp.bool_:
        raise RuntimeError("neg() is not defined for bool tensors; use ~ or logical_not()")
    return -input


@function(method=True)
def positive(input: Tensor) -> Any:
    """``input`` itself.

    Raises:
        RuntimeError: ``input`` is bool.
    """
    if input.dtype.category == BOOLEAN:
        raise RuntimeError("positive() is not defined for bool tensors")
    return input


# Products and quotients


@op(method=True, inplace=True, operator="mul", widen=True, numbers=True)
def mul(input: Operand, other: Operand) -> Array:
    """``input * other``, elementwise and broadcast.

    Raises:
        RuntimeError: The shapes do not broadcast.
    """
    left, right = promote(input, other)
    return _unless_tensors(left * right, input, other)


@op(
    method=True, inplace=True, operator="truediv", widen=True, numbers=True,
    node=lambda rounding_mode: f"DivBackward{2 if rounding_mode else 0}",
)  # fmt: skip
def div(input: Operand, other: Operand, *, rounding_mode: str | None = None) -> Array:
    """``input / other``, elementwise and broadcast.

    Args:
        input: The dividend, a tensor or number.
        other: The divisor, a tensor or number.
        rounding_mode: ``None`` for true division, which gives floats for integers; ``"trunc"``
            rounds the quotient towards zero, ``"floor"`` downwards, both keep integers.

    Raises:
        RuntimeError: The shapes do not broadcast; an unknown ``rounding_mode``.
    """
    if rounding_mode is None:
        return _divided(*promote_to_float(input, other))
    left, right = promote(input, other)
    if rounding_mode == "floor":
        return _floor_divided(*map(lax.stop_gradient, (left, right)))
    if rounding_mode == "trunc":
        if jnp.issubdtype(left.dtype, jnp.inexact):
            return jnp.trunc(lax.stop_gradient(left / right))
        return lax.div(*jnp.broadcast_arrays(left, right))
    raise RuntimeError(
        f"div(): rounding_mode must be None, 'trunc' or 'floor', got {rounding_mode!r}"
    )


@with_derivatives(
    lambda tangent, result, left, right: tangent / right,
    # Not by the square of the divisor, which may be infinite or 0 if the quotient is neither.
    lambda tangent, result, left, right: -opaque(tangent / right) * result,
)
def _divided(left: Any, right: Any) -> Any:
    return opaque(left / right)


def _floor_divided(left: Any, right: Any) -> Any:
    """The quotient rounded down, as by Python's ``//``; infinite for a float divided by zero."""
    if not jnp.issubdtype(left.dtype, jnp.floating):
        return jnp.floor_divide(left, right)
    left, right = jnp.broadcast_arrays(left, right)
    # By the remainder, which is exact, so that rounding never gives the next larger quotient.
    remainder = lax.rem(left, right)
    quotient = (left - remainder) / right
    quotient = jnp.where(
        (remainder != 0) & ((right < 0) != (remainder < 0)), quotient - 1, quotient
    )
    below = jnp.floor(quotient)
    below = jnp.where(quotient - below > 0.5, below + 1, below)
    below = jnp.where(quotient == 0, jnp.copysign(jnp.zeros_like(left), left / right), below)
    return jnp.where(right == 0, left / right, below)


@op(method=True, inplace=True, operator="floordiv", numbers=True, node="NotImplemented")
def floor_divide(input: Operand, other: Operand) -> Array:
    """``input // other``: the quotient rounded downwards.

    Raises:
        RuntimeError: The shapes do not broadcast, or a gradient is requested: there is none.
    """
    left, right = promote(input, other)
    needs_real_number("floor_divide", left, right)
    return without_derivative("floor_divide()", _floor_divided(left, right), left, right)


@op(
    method=True, inplace=True, operator="mod", promote="type", widen=True,
    overloads={"tt": "RemainderBackward1"},
)  # fmt: skip
def remainder(input: Operand, other: Operand) -> Array:
    """``input % other``: the remainder that has the sign of the divisor, as in Python."""
    needs_real_number("remainder", input)
    return _remainder(input, other)


@with_derivatives(
    lambda tangent, result, left, right: _broadcast(tangent, result),
    lambda tangent, result, left, right: -tangent * lax.stop_gradient(_floor_divided(left, right)),
)
def _remainder(left: Any, right: Any) -> Any:
    return jnp.remainder(left, right)


def _broadcast(tangent: Any, result: Any) -> Any:
    return jnp.broadcast_to(tangent, result.shape)


@op(method=True, inplace=True, promote="type", widen=True, overloads={"tt": "FmodBackward1"})
def fmod(input: TensorOperand, other: Operand) -> Array:
    """The remainder that has the sign of the dividend, as C's ``fmod``."""
    needs_real_number("fmod", input)
    return _truncated_remainder(*jnp.broadcast_arrays(input, other))


@with_derivatives(
    lambda tangent, result, left, right: tangent,
    lambda tangent, result, left, right: -tangent * lax.stop_gradient(jnp.trunc(left / right)),
)
def _truncated_remainder(left: Any, right: Any) -> Any:
    return lax.rem(left, right)


@op(method=True, inplace=True, promote="float", widen=True)
def reciprocal(input: Operand) -> Array:
    """One divided by each element."""
    return opaque(1 / input)


@op(method=True, inplace=True, node="PowBackward0")
def square(input: Operand) -> Array:
    """The square of each element."""
    (input,) = promote(input)
    if input.dtype == jnp.bool_:
        input = input.astype(jnp.int64)
    return input * input


# Of integers


@op(method=True, inplace=True, promote="type", differentiable=False)
def gcd(input: TensorOperand, other: TensorOperand) -> Array:
    """The greatest common divisor of two integers; that of 0 and 0 is 0."""
    needs_integer("gcd", input)
    return jnp.gcd(input, other)


@op(method=True, inplace=True, promote="type", differentiable=False)
def lcm(input: TensorOperand, other: TensorOperand) -> Array:
    """The least common multiple of two integers."""
    needs_integer("lcm", input)
    return jnp.lcm(input, other)


# Several steps at once


@op(method=True, inplace=True, widen=True)
def addcmul(
    input: TensorOperand, tensor1: TensorOperand, tensor2: TensorOperand, *, value: Array = 1
) -> Array:
    """``input + value * tensor1 * tensor2``, elementwise and broadcast."""
    value = _scaled("addcmul", value, result_dtype((input, tensor1, tensor2)))
    input, tensor1, tensor2 = promote(input, tensor1, tensor2)
    return input + value * tensor1 * tensor2


@op(method=True, inplace=True, widen=True)
def addcdiv(
    input: TensorOperand, tensor1: TensorOperand, tensor2: TensorOperand, *, value: Array = 1
) -> Array:
    """``input + value * tensor1 / tensor2``, elementwise and broadcast.

    Raises:
        RuntimeError: ``tensor1`` and ``tensor2`` are both integers.
    """
    if max(category(tensor1), category(tensor2)) <= INTEGER:
        raise RuntimeError(
            "addcdiv() does not divide integers by integers; convert one to float first, or use "
            "addcmul with div(rounding_mode='trunc')"
        )
    value = _scaled("addcdiv", value, result_dtype((input, tensor1, tensor2)))
    input, tensor1, tensor2 = promote(input, tensor1, tensor2)
    return input + value * tensor1 / tensor2


@op(method=True, inplace=True, widen=True, overloads={"ttt": "LerpBackward1"})
def lerp(input: Array, end: Array, weight: Array | Number) -> Array:
    """Linear interpolation: ``input + weight * (end - input)``.

    Args:
        input: The result for weight 0.
        end: The result for weight 1; of the same dtype.
        weight: A number, or a tensor of the same dtype.

    Raises:
        RuntimeError: The dtypes differ, or the shapes do not broadcast.
    """
    needs_inexact("lerp", input)
    tensors = (input, end, weight) if weight.ndim else (input, end)
    if any(each.dtype != input.dtype for each in tensors):
        kinds = ", ".join(str(each.dtype) for each in tensors)
        raise RuntimeError(f"lerp() needs tensors of one dtype, got {kinds}; convert them first")
    check_broadcast(input, end, weight)
    weight = jnp.asarray(weight, input.dtype)
    return interpolated(input, end, weight)


@with_derivatives(
    lambda tangent, result, start, end, weight: _broadcast(tangent * (1 - weight), result),
    lambda tangent, result, start, end, weight: _broadcast(tangent * weight, result),
    lambda tangent, result, start, end, weight: tangent * (end - start),
)
def interpolated(start: Any, end: Any, weight: Any) -> Any:
    """The point ``weight`` of the way from ``start`` to ``end``."""
    # From the nearer end, so that weight 1 gives ``end`` exactly.
    near_start = jnp.abs(weight) < 0.5
    return jnp.where(near_start, start + weight * (end - start), end - (end - start) * (1 - weight))


# Operators and second names


def _bare(plain: Any, scaled: Any, whole: Any) -> Callable[..., Any]:
    """The ``bare`` of a sum or a difference; see `make_in_place`."""

    def bare(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) != 2 or (kwargs and [*kwargs] != ["alpha"]):
            return whole(*args, **kwargs)
        alpha = kwargs.get("alpha", 1)
        if _is_one(alpha):
            return plain.bare(args, {})
        return scaled.bare((*args, alpha), {})

    return bare


_add.op.face, _sub.op.face = add, sub
add.bare, sub.bare = _bare(_add, add_scaled, add), _bare(_sub, sub_scaled, sub)
for _whole in (add, sub):
    _in_place = make_in_place(_whole, _whole.__name__)
    setattr(Tensor, _in_place.__name__, _in_place)


@method
def __rsub__(self: Tensor, other: Any) -> Any:
    other = operand(other)
    return NotImplemented if other is NotImplemented else _rsub(self, other)


@method
def __neg__(self: Tensor) -> Any:
    return neg(self)


@method
def __pos__(self: Tensor) -> Any:
    return positive(self)


divide: Any = also_method("divide", div)
true_divide: Any = also_method("true_divide", div)
multiply: Any = also_method("multiply", mul)
negative: Any = also_method("negative", neg)
subtract: Any = also_method("subtract", sub)
