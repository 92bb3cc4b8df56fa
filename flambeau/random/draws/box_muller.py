"""Normals in float32 by the Box-Muller transform, bit for bit like PyTorch's.

PyTorch transforms 16 numbers at a time by vector instructions, with the logarithm, sine and cosine
of S. Moshier's Cephes library in single precision, and its compiler contracts most products and
sums to fused multiply-adds. Here each of these is computed in float64 and rounded once to float32.
The product of two float32 is exact in float64; the sum is not quite, which can move a last bit once
in many millions of numbers. None of 65 million compared numbers differed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from flambeau.core.devices.device import CPU
from flambeau.core.programs.compiled import compiled

# The number of words of each compiled program, and the size above which it is the fastest.
_PROGRAMS = ((1 << 16, 50000), (1 << 14, 8192), (1 << 12, 1024), (1 << 10, 0))
# The programs in use by this process; each takes a tenth of a second to compile.
_SIZES_IN_USE: set[int] = set()

_float32 = np.float32

# Coefficients of log(1 + x) between sqrt(1/2) and sqrt(2), highest powers first.
_LOGARITHM = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
# The logarithm of two, in two parts.
_LOG_2_HIGH, _LOG_2_LOW = _float32(0.693359375), _float32(-2.12194440e-4)
_ROOT_OF_HALF = _float32(math.sqrt(0.5))

# Coefficients of sine and cosine within an eighth of a turn of zero.
_SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
# -π / 4 in three parts, and the number of eighths in a unit.
_EIGHTH = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)
_EIGHTHS = _float32(4 / math.pi)


def blocks(size: int) -> Iterator[slice]:
    """Consecutive slices that cover `size` words, each transformed at once."""
    start = 0
    while start < size:
        stop = min(start + _program_size(size - start), size)
        yield slice(start, stop)
        start = stop


def transform(words: NDArray[np.uint32], mean: float, std: float) -> NDArray[np.float32]:
    """Normals from the words of one block, 16 at a time: 8 radii and 8 angles.

    Args:
        words: Words, a multiple of 16, of which the low 24 bits are used.
        mean: The mean.
        std: The standard deviation.
    """
    size = _program_size(words.size)
    padded = words
    if words.size < size:
        padded = np.zeros(size, np.uint32)
        padded[: words.size] = words
    given = jax.device_put((padded, np.array((mean, std), np.float32)), CPU.jax_device)
    pairs: Any = np.asarray(_program(*given))
    normals = np.empty((size // 16, 2, 8), np.float32)
    normals[:, 0], normals[:, 1] = pairs.real, pairs.imag
    return normals.reshape(-1)[: words.size]


def _program_size(words: int) -> int:
    """The program size for a number of words: one in use, if at most four times as large."""
    # Another thread may add to the set concurrently.
    fitting = [size for size, _ in _PROGRAMS if words <= size <= 4 * words]
    in_use = [size for size in fitting if size in _SIZES_IN_USE]
    size = min(in_use, default=0) or next(size for size, least in _PROGRAMS if words > least)
    _SIZES_IN_USE.add(size)
    return size


def _transform(words: jax.Array, mean_and_std: jax.Array) -> jax.Array:
    """Pairs of normals as complex numbers, eight pairs a row."""
    mean, std = mean_and_std[0], mean_and_std[1]
    # Split before the computation: LLVM does not vectorize the loop otherwise.
    sixteens = words.reshape(-1, 2, 8)
    first, second = _low_24_bits(sixteens[:, 0]), _low_24_bits(sixteens[:, 1])
    from_above = lax.convert_element_type(np.int32(2**24) - first, jnp.float32)
    radius = lax.sqrt(_float32(-2) * _logarithm(from_above * _float32(2.0**-24)))
    # Through float64, or XLA would fold the constants of this and the next product.
    angle = _fused(lax.convert_element_type(second, jnp.float32), _TURN, _float32(0))
    cosine, sine = (_fused(radius * each, std, mean) for each in _cosine_and_sine(angle))
    # One complex result: XLA emits one vectorized loop for it, but not for two results or a
    # concatenation.
    return lax.complex(cosine, sine)


# XLA would drop the roundings to float32 between two steps in float64.
_program = compiled(_transform, "normal", options={"xla_allow_excess_precision": False})


def _low_24_bits(words: jax.Array) -> jax.Array:
    return lax.convert_element_type(words & np.uint32(2**24 - 1), jnp.int32)


_TURN = _float32(2 * math.pi) * _float32(2.0**-24)


def _logarithm(x: jax.Array) -> jax.Array:
    """The natural logarithm of positive numbers."""
    bits = lax.bitcast_convert_type(x, jnp.int32)
    # x = significand * 2**exponent
    exponent = lax.convert_element_type((bits >> 23) - 126, jnp.float32)
    significand = lax.bitcast_convert_type(bits & 0x007FFFFF | 0x3F000000, jnp.float32)
    is_low = significand < _ROOT_OF_HALF
    exponent = exponent - lax.convert_element_type(is_low, jnp.float32)
    x = lax.select(is_low, significand + significand, significand) - _float32(1)
    square = x * x
    cubic = _polynomial(_LOGARITHM, x) * x
    tail = _fused(cubic, square, exponent * _LOG_2_LOW)
    tail = _fused(square, _float32(-0.5), tail)
    return _fused(exponent, _LOG_2_HIGH, x + tail)


def _cosine_and_sine(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Cosine and sine of angles within one turn."""
    # The nearest even number of eighths of a turn, and the remaining angle.
    eighths = lax.convert_element_type(x * _EIGHTHS, jnp.int32) + 1 & ~1
    away = lax.convert_element_type(eighths, jnp.float32)
    for part in _EIGHTH:
        x = _fused(away, _float32(part), x)
    square = x * x
    cosine = _polynomial(_COSINE, square) * square
    cosine = _fused(cosine, square, square * _float32(-0.5)) + _float32(1)
    sine = _polynomial(_SINE, square) * square
    sine = _fused(sine, x, x)
    is_turned = (eighths & 2) != 0
    return (
        _signed(lax.select(is_turned, sine, cosine), (eighths + 2) & 4),
        _signed(lax.select(is_turned, cosine, sine), eighths & 4),
    )


def _signed(values: jax.Array, is_negative: jax.Array) -> jax.Array:
    return lax.select(is_negative != 0, -values, values)


def _polynomial(coefficients: tuple[float, ...], x: jax.Array) -> jax.Array:
    """Horner's scheme with one rounding per step."""
    value: Any = _float32(coefficients[0])
    for each in coefficients[1:]:
        value = _fused(value, x, _float32(each))
    return value


def _fused(factor: Any, other: Any, term: Any) -> jax.Array:
    """factor * other + term in float32, rounded once."""
    wide = (lax.convert_element_type(each, jnp.float64) for each in (factor, other, term))
    first, second, third = wide
    return lax.convert_element_type(first * second + third, jnp.float32)
