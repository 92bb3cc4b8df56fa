"""Functions of the `special` namespace only: Bessel functions, normal distribution, zeta.

Functions without a gradient in PyTorch have none here.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flambeau.core.kernels.kinds import Array, Operand
from flambeau.core.kernels.promotion import promote_to_float
from flambeau.core.operators.op import op
from flambeau.ops.common.checks import needs_floating
from flambeau.ops.common.derivatives import with_derivatives
from flambeau.ops.elementwise.gamma import hurwitz_zeta
from flambeau.ops.elementwise.special import times_logarithm
from flambeau.ops.elementwise.waves import bessel_i1

__all__ = [
    "bessel_j0", "bessel_j1", "entr", "erfcx", "i0e", "i1", "i1e", "log_ndtr", "modified_bessel_i0",
    "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1", "ndtr", "ndtri",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0", "xlog1py",
    "zeta",
]  # fmt: skip


@op(promote="float", widen=True, node="SpecialEntrBackward0")
def entr(input: Operand) -> Array:
    """``-x log(x)``: 0 at 0, and minus infinity below."""
    needs_floating("entr", input)
    return jax.scipy.special.entr(input)


@op(promote="float", widen=True, node="SpecialErfcxBackward0")
def erfcx(input: Operand) -> Array:
    """``exp(x^2) erfc(x)``, without intermediate overflow."""
    needs_floating("erfcx", input)
    return _erfcx(input)


@jax.custom_jvp
def _erfcx(x: Any) -> Any:
    # JAX multiplies by erfc down to subnormal numbers, which XLA flushes to 0.
    limit, terms = (26.0, 9) if x.dtype == jnp.float64 else (9.0, 5)
    far = jnp.maximum(x, limit)
    inverse = 1 / (far * far)
    series = jnp.ones_like(x)
    for n in range(terms, 0, -1):
        series = 1 - (n - 0.5) * inverse * series
    return jnp.where(x > limit, series / (far * math.sqrt(math.pi)), jax.scipy.special.erfcx(x))


@_erfcx.defjvp
def _erfcx_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (tangent,) = primals, tangents
    value = _erfcx(x)
    return value, tangent * (2 * x * value - 2 / math.sqrt(math.pi))


@op(promote="float", widen=True, node="MulBackward1")
def ndtr(input: Operand) -> Array:
    """The probability that a standard normal variable is at most x."""
    needs_floating("ndtr", input)
    return jax.scipy.special.ndtr(input)


@op(promote="float", widen=True, node="SpecialNdtriBackward0")
def ndtri(input: Operand) -> Array:
    """The inverse of `ndtr` on [0, 1]; NaN outside."""
    needs_floating("ndtri", input)
    return _normal_quantile(input)


@with_derivatives(
    lambda tangent, result, x: tangent * (math.sqrt(2 * math.pi) * jnp.exp(result * result / 2))
)
def _normal_quantile(x: Any) -> Any:
    return jax.scipy.special.ndtri(x)


@op(promote="float", widen=True, node="SpecialLogNdtrBackward0")
def log_ndtr(input: Operand) -> Array:
    """The logarithm of `ndtr`, accurate far below 0."""
    needs_floating("log_ndtr", input)
    return jax.scipy.special.log_ndtr(input)


@op(
    widen=True,
    node="SpecialXlog1PyBackward0",
    overloads={"nt": "SpecialXlog1PyBackward1", "tn": "SpecialXlog1PyBackward2"},
)
def xlog1py(input: Operand, other: Operand) -> Array:
    """``input * log(1 + other)``: 0 if ``input`` is 0, NaN if ``other`` is NaN."""
    input, other = promote_to_float(input, other)
    needs_floating("xlog1py", input)
    return times_logarithm(input, other, 1)


@op(
    widen=True,
    node="SpecialZetaBackward0",
    overloads={"nt": "SpecialZetaBackward1", "tn": "SpecialZetaBackward2"},
)
def zeta(input: Operand, other: Operand) -> Array:
    """The Hurwitz zeta function: the sum of ``(other + k) ** -input`` over k = 0, 1, 2, ...

    Only ``other`` has a gradient; PyTorch defines none for ``input``, and here it is zero.
    """
    input, other = promote_to_float(input, other)
    needs_floating("zeta", input)
    return hurwitz_zeta(*jnp.broadcast_arrays(input, other))


# Bessel functions


@op(promote="float", widen=True, node="SpecialI0EBackward0")
def i0e(input: Operand) -> Array:
    """``exp(-|x|) I0(x)``; see `i0`."""
    needs_floating("i0e", input)
    return jax.scipy.special.i0e(input)


@op(promote="float", widen=True, node="SpecialI1Backward0")
def i1(input: Operand) -> Array:
    """The modified Bessel function of the first kind of order 1."""
    needs_floating("i1", input)
    return bessel_i1(input)


@op(promote="float", widen=True, node="SpecialI1EBackward0")
def i1e(input: Operand) -> Array:
    """``exp(-|x|) I1(x)``."""
    needs_floating("i1e", input)
    return jax.scipy.special.i1e(input)


@op(promote="float", widen=True, differentiable=False)
def modified_bessel_i0(input: Operand) -> Array:
    """`i0`, without a gradient."""
    needs_floating("modified_bessel_i0", input)
    return jax.scipy.special.i0(input)


@op(promote="float", widen=True, differentiable=False)
def modified_bessel_i1(input: Operand) -> Array:
    """`i1`, without a gradient."""
    needs_floating("modified_bessel_i1", input)
    return bessel_i1(input)


@op(promote="float", widen=True, differentiable=False)
def modified_bessel_k0(input: Operand) -> Array:
    """The modified Bessel function of the second kind of order 0: infinite at 0, NaN below."""
    needs_floating("modified_bessel_k0", input)
    return _at_least_single(lambda x: _scaled_k(0, x) * jnp.exp(-x), input)


@op(promote="float", widen=True, differentiable=False)
def modified_bessel_k1(input: Operand) -> Array:
    """The modified Bessel function of the second kind of order 1: infinite at 0, NaN below."""
    needs_floating("modified_bessel_k1", input)
    return _at_least_single(lambda x: _scaled_k(1, x) * jnp.exp(-x), input)


@op(promote="float", widen=True, differentiable=False)
def scaled_modified_bessel_k0(input: Operand) -> Array:
    """``exp(x) K0(x)``; see `modified_bessel_k0`."""
    needs_floating("scaled_modified_bessel_k0", input)
    return _at_least_single(lambda x: _scaled_k(0, x), input)


@op(promote="float", widen=True, differentiable=False)
def scaled_modified_bessel_k1(input: Operand) -> Array:
    """``exp(x) K1(x)``; see `modified_bessel_k1`."""
    needs_floating("scaled_modified_bessel_k1", input)
    return _at_least_single(lambda x: _scaled_k(1, x), input)


@op(promote="float", widen=True, differentiable=False)
def bessel_j0(input: Operand) -> Array:
    """The Bessel function of the first kind of order 0."""
    needs_floating("bessel_j0", input)
    return _at_least_single(lambda x: _bessel_j(0, x), input)


@op(promote="float", widen=True, differentiable=False)
def bessel_j1(input: Operand) -> Array:
    """The Bessel function of the first kind of order 1."""
    needs_floating("bessel_j1", input)
    return _at_least_single(lambda x: _bessel_j(1, x), input)


@op(promote="float", widen=True, differentiable=False)
def spherical_bessel_j0(input: Operand) -> Array:
    """The spherical Bessel function of the first kind of order 0: ``sin(x) / x``."""
    needs_floating("spherical_bessel_j0", input)
    return jnp.where(jnp.isinf(input), jnp.zeros_like(input), jnp.sinc(input / math.pi))


def _at_least_single(compute: Any, input: Any) -> Any:
    """``compute`` in double precision, since the sums below cancel."""
    return compute(input.astype(jnp.float64)).astype(input.dtype)


# The point at which the integral is replaced by Hankel's expansion.
_FAR = 25.0


def _bessel_j(order: int, x: Any) -> Any:
    """Bessel's integral near 0, and Hankel's expansion far from it.

    The integral over half a period of a smooth periodic function is its mean at equidistant points
    to the last bit (NIST Digital Library of Mathematical Functions, 10.9.1 and 10.17.3).
    """
    angles = (np.arange(64) + 0.5) * (math.pi / 64)
    near = jnp.minimum(jnp.abs(x), _FAR)[..., None]
    inner = jnp.cos(order * angles - near * np.sin(angles)).mean(-1)
    far = jnp.maximum(jnp.abs(x), _FAR)
    even, odd = _hankel_sums(order, far)
    phase = far - (order / 2 + 0.25) * math.pi
    outer = jnp.sqrt(2 / (math.pi * far)) * (jnp.cos(phase) * even - jnp.sin(phase) * odd)
    value = jnp.where(jnp.abs(x) < _FAR, inner, outer)
    value = jnp.where(jnp.isnan(x), x, value)
    return value * jnp.sign(x) if order % 2 else value


def _hankel_sums(order: int, x: Any) -> tuple[Any, Any]:
    """The sums of the even and of the odd terms of Hankel's expansion, with their signs."""
    sums = [jnp.ones_like(x), jnp.zeros_like(x)]
    term = jnp.ones_like(x)
    for k in range(1, 21):
        term = term * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k * x)
        sums[k % 2] = sums[k % 2] + (-1) ** (k // 2) * term
    return sums[0], sums[1]


def _scaled_k(order: int, x: Any) -> Any:
    """``exp(x)`` times the modified Bessel function of the second kind.

    The integral of ``exp(-x (cosh t - 1)) cosh(order t)`` over the positive numbers, by the
    trapezoidal rule, whose error falls exponentially for this function (NIST Digital Library of
    Mathematical Functions, 10.32.9).
    """
    positive = jnp.where(x > 0, x, 1)
    # Beyond this point the integrand is negligible.
    end = jnp.arccosh(1 + 45 / positive)
    end = jnp.where(jnp.isfinite(end), end, 1)[..., None]
    steps = 200
    t = end * (np.arange(steps + 1) / steps)
    weights = np.where(np.arange(steps + 1) == 0, 0.5, 1.0)
    # cosh(t) - 1 without cancellation.
    decay = jnp.exp(-positive[..., None] * 2 * jnp.sinh(t / 2) ** 2)
    value = (weights * decay * jnp.cosh(order * t)).sum(-1) * end[..., 0] / steps
    value = jnp.where(jnp.isinf(x), 0, value)
    return jnp.where(x > 0, value, jnp.where(x == 0, jnp.inf, jnp.nan))
