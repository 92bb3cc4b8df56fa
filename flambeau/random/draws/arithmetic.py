"""C's arithmetic in NumPy: conversions and fused multiply-add."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Beyond these magnitudes the exact error term of a product could overflow or underflow.
_SAFE_EXPONENT = 900


def convert(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert `values` to `dtype` by the same steps as PyTorch's C++.

    16-bit floats are converted through float32, which can round differently from one step. Values
    out of range silently become infinite or wrap around.
    """
    if values.dtype == dtype:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype.itemsize == 2 and dtype.name in ("float16", "bfloat16"):
            values = values.astype(np.float32, copy=False)
        return values.astype(dtype, copy=False)


def multiply_add(
    values: NDArray[Any], factor: np.floating[Any], term: np.floating[Any]
) -> NDArray[Any]:
    """Fused multiply-add: values * factor + term with a single rounding.

    PyTorch's compilers contract such expressions, which changes the last bit of about a third of
    the results. Subnormal results may differ in the last bit.

    Args:
        values: float32 or float64.
        factor: An array of the same dtype.
        term: An array of the same dtype.
    """
    if term == 0:
        return values if factor == 1 else values * factor
    significand, exponent = math.frexp(factor)
    product_is_exact = abs(significand) in (0, 0.5)
    safe = abs(exponent) < _SAFE_EXPONENT and math.isfinite(factor) and math.isfinite(term)
    if product_is_exact or not safe:
        return values * factor + term
    if values.dtype == np.float32:
        return _fused_float32(values, float(factor), float(term))
    return _fused_float64(values, float(factor), float(term))


def _fused_float32(values: NDArray[Any], factor: float, term: float) -> NDArray[Any]:
    product = values.astype(np.float64)
    product *= factor  # exact: two significands of 24 bits
    total = product + term
    # Rounding to float64 and then to float32 errs only if the first result is halfway between two
    # float32; then the sign of the exact error decides.
    in_the_middle = (total.view(np.int64) & (2**29 - 1)) == 2**28
    if np.count_nonzero(in_the_middle):
        middle = np.flatnonzero(in_the_middle)
        rounded = total[middle]
        error = _sum_error(product[middle], term, rounded)
        towards = np.where(error == 0, rounded, np.copysign(np.inf, error))
        total[middle] = np.nextafter(rounded, towards)
    return total.astype(np.float32)


def _fused_float64(values: NDArray[Any], factor: float, term: float) -> NDArray[Any]:
    # Dekker's exact product and Knuth's exact sum (T. J. Dekker, "A floating-point technique for
    # extending the available precision", 1971). Adding up the two errors could round, but off the
    # final rounding's middle only once in about 2**50 numbers.
    product = values * factor
    factor_high, factor_low = _halves(factor)
    high, low = _halves(values)
    product_error = low * factor_low - (
        ((product - high * factor_high) - low * factor_high) - high * factor_low
    )
    total = product + term
    return total + (_sum_error(product, term, total) + product_error)


def _halves(values: Any) -> tuple[Any, Any]:
    """Two numbers of at most 26 significant bits that add up to a float64 (Veltkamp's split)."""
    scaled = values * (2.0**27 + 1)
    high = scaled - (scaled - values)
    return high, values - high


def _sum_error(values: NDArray[Any], term: float, total: NDArray[Any]) -> NDArray[Any]:
    """The rounding error of `total`, the float64 sum of `values` and `term`."""
    rest = total - values
    return (values - (total - rest)) + (term - rest)
