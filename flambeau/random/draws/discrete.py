"""Draws of integers: uniform, Bernoulli, geometric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from flambeau.random.draws.arithmetic import convert
from flambeau.random.draws.fill import (
    DIGITS,
    LARGEST,
    blocks,
    fill,
    require_number,
    require_real,
    working_dtype,
)
from flambeau.random.mersenne import MersenneTwister

_FLOAT64 = np.dtype(np.float64)
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class IntegerRange(NamedTuple):
    """The mapping from words to integers: base + word modulo span.

    Attributes:
        base: The smallest integer.
        span: The number of integers, up to 2**64.
        wide: Whether each integer uses a word of 64 bits instead of 32.
    """

    base: int
    span: int
    wide: bool


def integers(
    twister: MersenneTwister,
    low: int | None,
    high: int | None,
    shape: Sequence[int],
    dtype: DTypeLike = np.int64,
) -> NDArray[Any]:
    """Integers of [low, high): `torch.randint`, `Tensor.random_`. Equal bit for bit.

    As in PyTorch, the remainder of a word is used, which is slightly biased towards small integers.

    Args:
        twister: The generator.
        low: The smallest; None, with `high` None too, for `random_()` without bounds: from 0 to the
            largest integer of the dtype, or 2**digits for a floating-point dtype of so many digits.
        high: One more than the largest; None for the largest of the dtype, as `random_(low, None)`.
        shape: The shape of the result.
        dtype: Any but a complex one. Bounds of a floating-point dtype are rounded inwards to
            representable integers.

    Raises:
        RuntimeError: The range is empty or does not fit in the dtype.
        ValueError: A bound does not fit in 64 bits, or `high` comes without `low`.
        NotImplementedError: The dtype is complex, or has no such draw in PyTorch.

    Example:
        >>> from flambeau.random.draws.discrete import integers
        >>> from flambeau.random.mersenne import MersenneTwister
        >>> integers(MersenneTwister(0), 0, 10, (5,))
        array([4, 9, 3, 0, 3])
    """
    dtype = np.dtype(dtype)
    base, span, wide = integer_range(low, high, dtype)

    def block(count: int) -> NDArray[Any]:
        if wide:
            words = twister.random_uint64(count)
            remainders = words % np.uint64(span) if span < 2**64 else words
        else:
            words = twister.random_uint32(count)
            # NumPy divides by a scalar much faster than it computes a remainder.
            remainders = words - words // np.uint32(span) * np.uint32(span)
        return convert(remainders.astype(np.int64) + np.int64(base), dtype)

    return fill(shape, dtype, block)


def bernoulli(
    twister: MersenneTwister, shape: Sequence[int], p: float, dtype: DTypeLike = np.float32
) -> NDArray[Any]:
    """1 with probability p, else 0: `Tensor.bernoulli_(p)`, the mask of dropout. Equal bit for bit.

    Raises:
        RuntimeError: `p` is not between 0 and 1.
        NotImplementedError: The dtype is complex, uint16, uint32 or uint64.
    """
    dtype = np.dtype(dtype)
    require_number("bernoulli_", dtype)
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ needs 0 <= p <= 1; got p={p}")
    return fill(shape, dtype, lambda count: twister.standard_uniform(count, _FLOAT64) < p)


def bernoulli_probabilities(
    twister: MersenneTwister, probabilities: NDArray[Any], dtype: DTypeLike | None = None
) -> NDArray[Any]:
    """1 with each element's own probability, else 0: `torch.bernoulli(p)`. Equal bit for bit.

    Unlike `bernoulli`, it compares in float32 and uses one word per element, unless the
    probabilities are float64.

    Args:
        twister: The generator.
        probabilities: Reals between 0 and 1, of the shape of the result.
        dtype: The dtype of the result; by default that of the probabilities.

    Raises:
        RuntimeError: A probability is not between 0 and 1.
        NotImplementedError: The probabilities are not of a floating-point dtype, or the dtype of
            the result is complex, uint16, uint32 or uint64.
    """
    dtype = probabilities.dtype if dtype is None else np.dtype(dtype)
    require_real("bernoulli", probabilities.dtype)
    require_number("bernoulli", dtype)
    work = working_dtype(probabilities.dtype)
    limits = probabilities.astype(work, copy=False).ravel()
    if not np.all((limits >= 0) & (limits <= 1)):
        raise RuntimeError(
            "bernoulli needs probabilities between 0 and 1; these lie between "
            f"{limits.min()} and {limits.max()}"
        )
    result = np.empty(limits.size, dtype)
    for part in blocks(limits.size):
        reals = twister.standard_uniform(part.stop - part.start, work)
        result[part] = convert(reals < limits[part], dtype)
    return result.reshape(probabilities.shape)


def geometric(
    twister: MersenneTwister, shape: Sequence[int], dtype: DTypeLike = np.float32, p: float = 0.5
) -> NDArray[Any]:
    """Trials up to the first success of probability p: `Tensor.geometric_`. Equal bit for bit.

    Raises:
        RuntimeError: `p` is not between 0 and 1, ends excluded.
        NotImplementedError: The dtype is bool, complex, uint16, uint32 or uint64.
    """
    dtype = np.dtype(dtype)
    require_number("geometric_", dtype)
    if dtype == np.bool_:
        raise NotImplementedError("geometric_ is not implemented for bool; it counts trials")
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ needs 0 < p < 1; got p={p}")
    scale = math.log1p(-p)

    def block(count: int) -> NDArray[Any]:
        with np.errstate(divide="ignore"):  # a uniform can be exactly 0
            return np.ceil(np.log(twister.standard_uniform(count, _FLOAT64)) / scale)

    return fill(shape, dtype, block)


def integer_range(low: int | None, high: int | None, dtype: np.dtype[Any]) -> IntegerRange:
    """The `IntegerRange` of `integers` for [low, high) in `dtype`; raises its errors."""
    if dtype.kind == "c":
        raise NotImplementedError(
            f"random_ is not implemented for {dtype.name}; draw its two parts"
        )
    for name, bound in (("from", low), ("to", high)):
        if bound is not None and not _INT64_MIN <= bound <= _INT64_MAX:
            raise ValueError(f"random_: {name}={bound} does not fit in 64 bits")
    if low is None:
        return _unbounded_range(high, dtype)
    if high is None and low == _INT64_MIN:
        return _whole_range(dtype)
    if high is not None and low >= high:
        raise RuntimeError(f"random_ draws from [from, to), so from={low} cannot reach to={high}")
    last = _last_integer(dtype) if high is None else high - 1
    _require_in_bounds(low, last, dtype)
    if dtype.name in DIGITS:
        low = _inner_low(low, dtype)
        last = last if high is None else _inner_high(high, dtype) - 1
        # PyTorch requires at least two integers where it sets the end itself.
        if low > last or (low == last and high is None):
            raise RuntimeError(f"random_: too few {dtype.name} lie between {low} and {last}")
    span = last - low + 1
    return IntegerRange(low, span, span >= 2**28)


def _unbounded_range(high: int | None, dtype: np.dtype[Any]) -> IntegerRange:
    if high is not None:
        raise ValueError(f"random_ below {high} needs a lower bound too; pass low=0")
    require_number("random_ without bounds", dtype)
    return IntegerRange(0, _last_integer(dtype) + 1, dtype.itemsize == 8)


def _whole_range(dtype: np.dtype[Any]) -> IntegerRange:
    if dtype.name not in ("int64", "float64", "float32", "bfloat16"):
        raise NotImplementedError(
            f"random_ over all 64-bit integers cannot give {dtype.name}; draw in int64 and convert"
        )
    return IntegerRange(0, 2**64, True)


def _last_integer(dtype: np.dtype[Any]) -> int:
    """The largest integer of `random_` without bounds."""
    if dtype.name in DIGITS:
        return 2 ** DIGITS[dtype.name]
    if dtype == np.bool_:
        return 1
    return int(np.iinfo(dtype).max)


def _first_integer(dtype: np.dtype[Any]) -> int:
    return 0 if dtype == np.bool_ else int(np.iinfo(dtype).min)


def _require_in_bounds(first: int, last: int, dtype: np.dtype[Any]) -> None:
    if dtype.name in DIGITS:
        smallest, largest = -LARGEST[dtype.name], LARGEST[dtype.name]
    else:
        smallest, largest = _first_integer(dtype), _last_integer(dtype)
    for name, bound in (("from", first), ("to - 1", last)):
        if not smallest <= bound <= min(largest, _INT64_MAX):
            raise RuntimeError(f"random_: {name} = {bound} is out of bounds for {dtype.name}")
    if first > last:
        raise RuntimeError(f"random_: from = {first} is past the last {dtype.name}, {last}")


def _inner_low(low: int, dtype: np.dtype[Any]) -> int:
    """The lower bound, moved up to a value of a float `dtype` if rounding would go below it."""
    rounded = _rounded(low + 1, dtype)
    return rounded + _spacing(low + 1, dtype) if rounded < low else low


def _inner_high(high: int, dtype: np.dtype[Any]) -> int:
    """The upper bound, moved down to a value of a float `dtype` if rounding would reach it."""
    rounded = _rounded(high - 1, dtype)
    return rounded - _spacing(high - 1, dtype) if rounded >= high else high


def _rounded(integer: int, dtype: np.dtype[Any]) -> int:
    rounded = int(float(convert(np.asarray(integer, np.int64), dtype)))
    # 2**63 is not an int64; x86 converts it to the smallest one, as PyTorch does.
    return rounded if rounded <= _INT64_MAX else _INT64_MIN


def _spacing(integer: int, dtype: np.dtype[Any]) -> int:
    """The distance between adjacent values of `dtype` around an integer beyond its exact range."""
    return 2 ** (abs(integer).bit_length() - DIGITS[dtype.name])
