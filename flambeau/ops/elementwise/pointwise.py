"""Functions of one number: exponentials, logarithms, trigonometry, rounding."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from flambeau import return_types
from flambeau.core.kernels.kinds import Array, Operand, TensorOperand
from flambeau.core.kernels.promotion import promote_to_float
from flambeau.core.operators.op import op
from flambeau.core.support.dtype import FLOATING
from flambeau.core.support.opaque import opaque
from flambeau.core.values.tensor import Tensor, method
from flambeau.ops.common.aliases import also_method
from flambeau.ops.common.checks import (
    category,
    needs_floating,
    needs_numeric,
    needs_ordered,
    needs_real_number,
)
from flambeau.ops.common.derivatives import direction, magnitude
from flambeau.ops.elementwise.branch_cuts import (
    hyperbolic_arc_cosine,
    imaginary_with_sign,
    real_with_sign,
    square_root,
)
from flambeau.ops.elementwise.powers_of_two import power_of_two, two_to_the

__all__ = [
    "abs", "absolute", "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
    "arctanh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "deg2rad", "exp", "exp2",
    "expm1", "fix", "floor", "frac", "frexp", "ldexp", "log", "log1p", "log2", "log10",
    "nextafter", "rad2deg", "round", "rsqrt", "sgn", "sigmoid", "sign", "signbit", "sin", "sinh",
    "sqrt", "tan", "tanh", "trunc",
]  # fmt: skip


# Exponentials and logarithms


@op(method=True, inplace=True, promote="float", widen=True)
def exp(input: Operand) -> Array:
    """e to the power of each element."""
    return jnp.exp(input)


@op(method=True, inplace=True, promote="float", widen=True)
def exp2(input: Operand) -> Array:
    """2 to the power of each element."""
    return two_to_the(input)


@op(method=True, inplace=True, promote="float", widen=True)
def expm1(input: Operand) -> Array:
    """``exp(x) - 1``, accurate for small x."""
    return jnp.expm1(input)


@op(method=True, inplace=True, promote="float", widen=True)
def log(input: Operand) -> Array:
    """The natural logarithm of each element."""
    return jnp.log(input)


@op(method=True, inplace=True, promote="float", widen=True)
def log2(input: Operand) -> Array:
    """The logarithm to base 2 of each element."""
    return jnp.log2(input)


@op(method=True, inplace=True, promote="float", widen=True)
def log10(input: Operand) -> Array:
    """The logarithm to base 10 of each element."""
    return jnp.log10(input)


@op(method=True, inplace=True, promote="float", widen=True, node="Log1PBackward0")
def log1p(input: Operand) -> Array:
    """``log(1 + x)``, accurate for small x."""
    return jnp.log1p(input)


@op(method=True, inplace=True, promote="float", widen=True)
def sqrt(input: Operand) -> Array:
    """The square root of each element; NaN for negative ones."""
    return square_root(input)


@op(method=True, inplace=True, promote="float", widen=True)
def rsqrt(input: Operand) -> Array:
    """The reciprocal of the square root of each element."""
    return opaque(jax.lax.rsqrt(input))


@op(method=True, inplace=True, promote="float", widen=True)
def sigmoid(input: Operand) -> Array:
    """``1 / (1 + exp(-x))`` of each element."""
    return jax.nn.sigmoid(input)


# Angles and their functions


@op(method=True, inplace=True, promote="float", widen=True)
def sin(input: Operand) -> Array:
    """The sine of each element, in radians."""
    return jnp.sin(input)


@op(method=True, inplace=True, promote="float", widen=True)
def cos(input: Operand) -> Array:
    """The cosine of each element, in radians."""
    return jnp.cos(input)


@op(method=True, inplace=True, promote="float", widen=True)
def tan(input: Operand) -> Array:
    """The tangent of each element, in radians."""
    return jnp.tan(input)


@op(method=True, inplace=True, promote="float", widen=True)
def asin(input: Operand) -> Array:
    """The angle in radians whose sine is each element; NaN outside [-1, 1]."""
    result = jnp.arcsin(input)
    return imaginary_with_sign(result, jnp.imag(input)) if jnp.iscomplexobj(input) else result


@op(method=True, inplace=True, promote="float", widen=True)
def acos(input: Operand) -> Array:
    """The angle in radians whose cosine is each element; NaN outside [-1, 1]."""
    result = jnp.arccos(input)
    return imaginary_with_sign(result, -jnp.imag(input)) if jnp.iscomplexobj(input) else result


@op(method=True, inplace=True, promote="float", widen=True)
def atan(input: Operand) -> Array:
    """The angle in radians whose tangent is each element."""
    return jnp.arctan(input)


@op(method=True, inplace=True, promote="float", widen=True)
def sinh(input: Operand) -> Array:
    """The hyperbolic sine of each element."""
    return jnp.sinh(input)


@op(method=True, inplace=True, promote="float", widen=True)
def cosh(input: Operand) -> Array:
    """The hyperbolic cosine of each element."""
    return jnp.cosh(input)


@op(method=True, inplace=True, promote="float", widen=True)
def tanh(input: Operand) -> Array:
    """The hyperbolic tangent of each element."""
    return jnp.tanh(input)


@op(method=True, inplace=True, promote="float", widen=True)
def asinh(input: Operand) -> Array:
    """The inverse hyperbolic sine of each element."""
    result = jnp.arcsinh(input)
    return real_with_sign(result, jnp.real(input)) if jnp.iscomplexobj(input) else result


@op(method=True, inplace=True, promote="float", widen=True)
def acosh(input: Operand) -> Array:
    """The inverse hyperbolic cosine of each element; NaN below 1."""
    if jnp.iscomplexobj(input):
        return hyperbolic_arc_cosine(input)
    return jnp.arccosh(input)


@op(method=True, inplace=True, promote="float", widen=True)
def atanh(input: Operand) -> Array:
    """The inverse hyperbolic tangent of each element; NaN outside [-1, 1]."""
    return jnp.arctanh(input)


@op(method=True, inplace=True, promote="float", widen=True, linear=True, node="Deg2RadBackward0")
def deg2rad(input: Operand) -> Array:
    """Degrees as radians."""
    needs_ordered("deg2rad", input)
    return jnp.deg2rad(input)


@op(method=True, inplace=True, promote="float", widen=True, linear=True, node="Rad2DegBackward0")
def rad2deg(input: Operand) -> Array:
    """Radians as degrees."""
    needs_ordered("rad2deg", input)
    return jnp.rad2deg(input)


# Size and sign


@op(method=True, inplace=True, promote="type")
def abs(input: Operand) -> Array:
    """The absolute value of each element; its gradient at 0 is 0."""
    needs_numeric("abs", input)
    return magnitude(input) if jnp.issubdtype(input.dtype, jnp.inexact) else jnp.abs(input)


@op(method=True, inplace=True, promote="type", linear=True)
def sign(input: Operand) -> Array:
    """-1, 0 or 1 for elements below, at and above zero; 0 for NaN."""
    needs_ordered("sign", input)
    return direction(input)


@op(method=True, inplace=True, promote="type")
def sgn(input: Operand) -> Array:
    """`sign`; for complex elements the number of magnitude 1 in the same direction, 0 for 0."""
    return direction(input)


@op(method=True, promote="type", differentiable=False)
def signbit(input: Operand) -> Array:
    """Where the sign bit is set, as a bool tensor: negative elements and -0."""
    needs_ordered("signbit", input)
    if jnp.issubdtype(input.dtype, jnp.floating):
        return jnp.signbit(input)
    return input < 0 if input.dtype != jnp.bool_ else jnp.zeros(input.shape, bool)


# Rounding


def _round_up_or_down(name: str, compute: Any, input: Any) -> Any:
    """``compute(input)``; integers are unchanged."""
    needs_real_number(name, input)
    return compute(input) if category(input) == FLOATING else input


@op(method=True, inplace=True, promote="type", linear=True)
def floor(input: Operand) -> Array:
    """The greatest integers that are not above the elements."""
    return _round_up_or_down("floor", jnp.floor, input)


@op(method=True, inplace=True, promote="type", linear=True)
def ceil(input: Operand) -> Array:
    """The least integers that are not below the elements."""
    return _round_up_or_down("ceil", jnp.ceil, input)


@op(method=True, inplace=True, promote="type", linear=True)
def trunc(input: Operand) -> Array:
    """The elements without their fractions."""
    return _round_up_or_down("trunc", jnp.trunc, input)


@op(method=True, inplace=True, promote="type", linear=True)
def frac(input: Operand) -> Array:
    """The fractions of the elements, with their signs: ``x - trunc(x)``."""
    needs_floating("frac", input)
    return input - jnp.trunc(input)


@op(
    method=True, inplace=True, promote="type", widen=True, linear=True,
    node=lambda decimals: f"RoundBackward{int(decimals != 0)}",
)  # fmt: skip
def round(input: Operand, *, decimals: int = 0) -> Array:
    """The nearest integers; halves go to the even one.

    Args:
        input: A tensor.
        decimals: The number of decimal places; a negative number rounds to tens, hundreds, ...

    Raises:
        NotImplementedError: ``input`` is bool or complex, or ``decimals`` is given for integers.
    """
    if decimals == 0:
        return _round_up_or_down("round", jnp.round, input)
    needs_floating("round", input)
    if decimals > 0:
        scale = jnp.asarray(10.0**decimals, input.dtype)
        return jnp.round(input * scale) / scale
    scale = jnp.asarray(10.0**-decimals, input.dtype)
    return jnp.round(input / scale) * scale


# Mantissa and exponent


@op(method=True, inplace=True, widen=True)
def ldexp(input: TensorOperand, other: TensorOperand) -> Array:
    """``input * 2 ** other``, elementwise and broadcast."""
    input, exponent = promote_to_float(input, other)
    return input * two_to_the(exponent)


@op(method=True, widen=True, returns=return_types.frexp)
def frexp(input: Array) -> Any:
    """``mantissa`` and ``exponent`` with ``mantissa * 2 ** exponent`` equal to the elements.

    Mantissas are in [0.5, 1), or 0; exponents are int32.

    Raises:
        NotImplementedError: ``input`` is not floating point.
    """
    needs_floating("frexp", input)
    _, exponent = jnp.frexp(jax.lax.stop_gradient(input))
    exponent = jnp.where(jnp.isfinite(input), exponent, 0).astype(jnp.int32)
    # In two steps, since a single power of 2 may overflow.
    half = exponent // 2
    rest = exponent - half
    scaled = input * power_of_two(-half, input.dtype) * power_of_two(-rest, input.dtype)
    return scaled, exponent


@op(method=True, inplace=True, promote="type")
def nextafter(input: TensorOperand, other: TensorOperand) -> Array:
    """The next floating point number after each element towards ``other``.

    Raises:
        RuntimeError: The elements are no floating point numbers.
    """
    needs_floating("nextafter", input)
    return _neighbor(*jnp.broadcast_arrays(input, other))


@jax.custom_jvp
def _neighbor(input: Any, other: Any) -> Any:
    return jax.lax.nextafter(input, other)


@_neighbor.defjvp
def _neighbor_jvp(primals: Any, tangents: Any) -> Any:
    (input, other), (tangent, _) = primals, tangents
    return _neighbor(input, other), jnp.where(input == other, 0, tangent)


@method
def __abs__(self: Tensor) -> Any:
    return abs(self)


absolute: Any = also_method("absolute", abs)
arccos: Any = also_method("arccos", acos)
arccosh: Any = also_method("arccosh", acosh)
arcsin: Any = also_method("arcsin", asin)
arcsinh: Any = also_method("arcsinh", asinh)
arctan: Any = also_method("arctan", atan)
arctanh: Any = also_method("arctanh", atanh)
fix: Any = also_method("fix", trunc)
