"""Derivatives that differ from JAX's: PyTorch's definitions, or none."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from flambeau.core.kernels.single_precision import is_half, single


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def without_derivative(name: str, result: Any, *inputs: Any) -> Any:
    """``result`` unchanged, of an operator of ``inputs`` without a gradient in PyTorch.

    A request for the gradient by one of the inputs raises a ``RuntimeError`` that names the
    operator and its arguments.
    """
    return result


def _forward(name: str, result: Any, *inputs: Any) -> Any:
    return result, None


def _backward(name: str, saved: Any, cotangent: Any) -> Any:
    raise RuntimeError(f"the derivative of {name} is not defined; detach() its input")


without_derivative.defvjp(_forward, _backward)


def with_derivatives(*derivatives: Any) -> Any:
    """A decorator that defines the derivatives of a function of arrays.

    Args:
        derivatives: For each argument, a function of its tangent, the result and the arguments that
            gives the tangent of the result; ``None`` if the argument takes no gradient.
    """

    def declare(function: Any) -> Any:
        declared = jax.custom_jvp(function)

        def jvp(primals: Any, tangents: Any) -> Any:
            result = declared(*primals)
            parts = [
                derivative(tangent, result, *primals)
                for derivative, tangent in zip(derivatives, tangents, strict=True)
                # Zero times an infinite slope would be NaN.
                if derivative is not None and not isinstance(tangent, SymbolicZero)
            ]
            return result, functools.reduce(jnp.add, parts) if parts else jnp.zeros_like(result)

        declared.defjvp(jvp, symbolic_zeros=True)
        return declared

    return declare


def where_chosen(condition: Any, tangent: Any) -> Any:
    """The tangent where an element was chosen, and 0 elsewhere, for any cotangent.

    Multiplication by 0 would turn a NaN or infinite cotangent into NaN.
    """
    return jnp.where(condition, tangent, jnp.zeros_like(tangent))


def moved(move: Any, array: Any, *places: Any) -> Any:
    """``move(array, *places)``, which reads elements, with its gradient summed in float32.

    Args:
        move: Returns elements of its first argument, and zeros or NaN; linear in it.
        array: The array, which may be read any number of times.
        places: Arrays of positions.
    """
    if not is_half(array):
        return move(array, *places)

    def derivative(tangent: Any, result: Any, *arguments: Any) -> Any:
        return move(single(tangent), *arguments[1:]).astype(result.dtype)

    return with_derivatives(derivative, *[None] * len(places))(move)(array, *places)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def shared_by_equals(input: Any, dims: tuple[int, ...], value: Any) -> Any:
    """``value``, one of the elements of ``input`` over ``dims``, which are kept with size 1.

    The gradient is shared equally by all equal elements.
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


@jax.custom_jvp
def magnitude(input: Any) -> Any:
    """The absolute value, whose gradient at 0 and at NaN is 0."""
    return jnp.abs(input)


@magnitude.defjvp
def _magnitude_jvp(primals: Any, tangents: Any) -> Any:
    (input,), (tangent,) = primals, tangents
    if jnp.iscomplexobj(input):
        return magnitude(input), jnp.real(jnp.conj(direction(input)) * tangent)
    return magnitude(input), direction(input) * tangent


def squared_magnitude(input: Any) -> Any:
    """The square of the absolute value, also differentiable twice at 0."""
    if jnp.iscomplexobj(input):
        return jnp.square(input.real) + jnp.square(input.imag)
    return jnp.square(input)


def direction(input: Any) -> Any:
    """The number of magnitude 1 with the same sign or angle; 0 for 0, and for a real NaN."""
    if input.dtype == jnp.bool_:
        return input
    if jnp.iscomplexobj(input):
        zero = input == 0
        safe = jnp.where(zero, jnp.ones_like(input), input)
        return jnp.where(zero, jnp.zeros_like(input), safe / jnp.abs(safe))
    return (input > 0).astype(input.dtype) - (input < 0).astype(input.dtype)


@jax.custom_jvp
def log_odds(input: Any) -> Any:
    """``log(x / (1 - x))``, whose gradient outside [0, 1] is NaN like its value."""
    return jnp.log(input / (1 - input))


@log_odds.defjvp
def _log_odds_jvp(primals: Any, tangents: Any) -> Any:
    (input,), (tangent,) = primals, tangents
    inside = (input >= 0) & (input <= 1)
    slope = jnp.where(inside, 1 / (input * (1 - input)), jnp.nan)
    return log_odds(input), slope * tangent
