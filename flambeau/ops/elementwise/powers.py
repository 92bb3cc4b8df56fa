"""Powers, with numbers and tensors as bases and exponents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array, Operand
from flambeau.core.kernels.promotion import promote
from flambeau.core.operators.op import function, op
from flambeau.core.operators.python_operators import operand
from flambeau.core.operators.writing import make_in_place, put
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.dtype import FLOATING, INTEGER, from_numpy_dtype
from flambeau.core.support.opaque import opaque
from flambeau.core.values.tensor import Tensor, method
from flambeau.ops.common.checks import needs_numeric
from flambeau.ops.common.derivatives import where_chosen, with_derivatives
from flambeau.ops.elementwise.branch_cuts import power_of_half

__all__ = ["float_power", "pow"]


@with_derivatives(lambda tangent, result, base: tangent * (-0.5 * jnp.power(base, -1.5)))
def _reciprocal_root(base: Any) -> Any:
    return opaque(jax.lax.rsqrt(base))


# Exponents with cheaper programs than the general power.
_SPECIAL: dict[float, Any] = {
    0: jnp.ones_like,
    0.5: power_of_half,
    1: lambda x: x,
    2: lambda x: x * x,
    3: lambda x: x * x * x,
    -0.5: _reciprocal_root,
    -1: lambda x: opaque(1 / x),
    -2: lambda x: jax.lax.integer_pow(x, -2),
}


@op(name="pow", node="PowBackward0", widen=True)
def _special_power(input: Operand, exponent: float) -> Array:
    (base, _) = promote(input, exponent)
    if from_numpy_dtype(base.dtype).category >= FLOATING:
        return _SPECIAL[exponent](base)
    return _integer_power(base, exponent)


def _integer_power(base: Any, exponent: float) -> Any:
    if exponent < 0:
        raise RuntimeError(
            f"pow(): integers cannot be raised to the negative integer power {exponent}; "
            "convert the tensor with float() first"
        )
    return jax.lax.integer_pow(base, int(exponent))


@op(name="pow", node="PowBackward0")
def _integers_power(input: Operand, exponent: float) -> Array:
    (base, _) = promote(input, exponent)
    return _integer_power(base, exponent)


@op(name="pow", node="PowBackward0", promote="type", widen=True)
def _power_number(input: Operand, exponent: Operand) -> Array:
    return _general(input, exponent)


@op(name="pow", node="PowBackward1", promote="type", widen=True)
def _power(input: Operand, exponent: Operand) -> Array:
    """``input`` to the power ``exponent``."""
    needs_numeric("pow", input)
    return _general(input, exponent)


@op(name="pow", node="PowBackward2", promote="type", widen=True)
def _power_of_number(input: Operand, exponent: Operand) -> Array:
    return _general(input, exponent)


def _general(base: Any, exponent: Any) -> Any:
    if base.dtype == jnp.bool_:
        return base | ~exponent
    if jnp.issubdtype(base.dtype, jnp.integer):
        return _integers(base, exponent)
    return _real_power(*jnp.broadcast_arrays(base, exponent))


def _by_base(tangent: Any, result: Any, base: Any, exponent: Any) -> Any:
    # The power 0 is 1 everywhere, even at 0 and NaN.
    constant = exponent == 0
    slope = exponent * jnp.power(base, jnp.where(constant, 0, exponent - 1))
    return where_chosen(~constant, tangent) * jnp.where(constant, 0, slope)


def _by_exponent(tangent: Any, result: Any, base: Any, exponent: Any) -> Any:
    constant = (base == 0) & (jnp.real(exponent) >= 0)
    slope = result * jnp.log(jnp.where(constant, 1, base))
    return tangent * jnp.where(constant, 0, slope)


@with_derivatives(_by_base, _by_exponent)
def _real_power(base: Any, exponent: Any) -> Any:
    return opaque(jnp.power(base, exponent))


def _integers(base: Any, exponent: Any) -> Any:
    """Powers of integers; negative powers are 0 except for 1 and -1."""
    positive = _by_squaring(base, jnp.abs(exponent))
    reciprocal = jnp.where(jnp.abs(base) == 1, positive, jnp.zeros_like(positive))
    return jnp.where(exponent < 0, reciprocal, positive)


def _by_squaring(base: Any, exponent: Any) -> Any:
    """Powers of integers that wrap around, by the bits of the exponent.

    JAX's own version reads only six of the bits.
    """
    unsigned = jnp.dtype(f"uint{8 * exponent.dtype.itemsize}")
    base, rest = jnp.broadcast_arrays(base, exponent.astype(unsigned))

    def step(state: Any) -> Any:
        result, square, rest = state
        return jnp.where(rest & 1 == 1, result * square, result), square * square, rest >> 1

    start = (jnp.ones_like(base), base, rest)
    return jax.lax.while_loop(lambda state: jnp.any(state[2] != 0), step, start)[0]


@function(method=True)
def pow(input: Tensor, exponent: Any) -> Any:
    """``input`` to the power ``exponent``, elementwise and broadcast.

    Args:
        input: A tensor or number.
        exponent: A tensor or number; one of the two must be a tensor.

    Raises:
        RuntimeError: An integer tensor and a negative integer; the shapes do not broadcast.

    >>> import flambeau
    >>> flambeau.pow(flambeau.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    """
    if not isinstance(input, Tensor):
        return _power_of_number(input, exponent)
    kind = type(exponent)
    if kind is int or kind is float:
        if exponent in _SPECIAL:
            return _special_power(input, exponent)
        if kind is int and input.dtype.category <= INTEGER:
            return _integers_power(input, exponent)
    if isinstance(exponent, Tensor):
        return _power(input, exponent)
    return _power_number(input, exponent)


@function(method=True)
def float_power(input: Tensor, exponent: Any) -> Any:
    """`pow` computed in float64, or complex128 if an argument is complex."""
    return pow(_doubled(input), _doubled(exponent))


def _doubled(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.to(dtypes.complex128 if value.is_complex() else dtypes.float64)


@method
def float_power_(self: Tensor, exponent: Any) -> Tensor:
    """`float_power`, in place.

    Raises:
        RuntimeError: The tensor does not have the dtype of the result, float64 or complex128.
    """
    found = float_power(self, exponent)
    if found.dtype is not self.dtype:
        raise RuntimeError(
            f"float_power_(): the result is {found.dtype}, the tensor {self.dtype}; convert the "
            "tensor first"
        )
    return put(self, found, "float_power_")


pow_: Callable[..., Any] = make_in_place(pow, "pow")
Tensor.pow_ = pow_


@method
def __pow__(self: Tensor, exponent: Any) -> Any:
    exponent = operand(exponent)
    return NotImplemented if exponent is NotImplemented else pow(self, exponent)


@method
def __rpow__(self: Tensor, base: Any) -> Any:
    base = operand(base)
    return NotImplemented if base is NotImplemented else pow(base, self)


@method
def __ipow__(self: Tensor, exponent: Any) -> Any:
    exponent = operand(exponent)
    return NotImplemented if exponent is NotImplemented else self.pow_(exponent)
