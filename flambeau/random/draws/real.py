"""Draws of reals: uniform, normal, log-normal, exponential, Cauchy."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from flambeau.random.draws import box_muller
from flambeau.random.draws.arithmetic import convert, multiply_add
from flambeau.random.draws.fill import (
    DIGITS,
    LARGEST,
    fill,
    name_of,
    require_real,
    words_of,
    working_dtype,
)
from flambeau.random.mersenne import MersenneTwister

_FLOAT64 = np.dtype(np.float64)


def uniform(
    twister: MersenneTwister,
    shape: Sequence[int],
    dtype: DTypeLike = np.float32,
    low: float = 0.0,
    high: float = 1.0,
) -> NDArray[Any]:
    """Uniform reals of [low, high): `torch.rand`, `Tensor.uniform_`. Equal bit for bit.

    A float64 uses 53 bits of two words; every other real uses 24 bits of one word. A complex number
    is two reals, the real part first.

    Raises:
        RuntimeError: `low > high`, or a bound or their difference is beyond the dtype's range.
        NotImplementedError: The dtype is neither a floating-point nor a complex one.

    Example:
        >>> from flambeau.random.draws.real import uniform
        >>> from flambeau.random.mersenne import MersenneTwister
        >>> uniform(MersenneTwister(0), (3,))
        array([0.4962566 , 0.7682218 , 0.08847743], dtype=float32)
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return _complex(uniform(twister, (*shape, 2), real_part(dtype), low, high), dtype)
    interval = _interval(low, high, dtype)
    if 0 in shape:
        return np.empty(shape, dtype)
    return fill(shape, dtype, functools.partial(interval.draw, twister))


def normal(
    twister: MersenneTwister,
    shape: Sequence[int],
    dtype: DTypeLike = np.float32,
    mean: float = 0.0,
    std: float = 1.0,
) -> NDArray[Any]:
    """Normals by the Box-Muller transform: `torch.randn`, `Tensor.normal_`.

    Fewer than 16 numbers are drawn one at a time, in float64, as cosine and sine of pairs; the
    second of an incomplete pair is kept in the generator for the next such draw. From 16 on, each
    16 uniforms give 8 cosines and then 8 sines, in float32 (float64 for float64); if the size is
    not a multiple of 16, the last 16 numbers are redrawn. A complex number is two reals of
    deviation std / √2.

    From 16 on, float32 equals PyTorch's bit for bit (see `box_muller`); a standard normal z in
    float64 is within 1e-15 * max(1, |z|); the others are equal up to a rare last bit.

    Raises:
        RuntimeError: `std` is negative.
        NotImplementedError: The dtype is neither a floating-point nor a complex one.
    """
    dtype = np.dtype(dtype)
    if not std >= 0:
        raise RuntimeError(f"normal_ needs std >= 0; got std={std}")
    if dtype.kind == "c":
        parts = normal(twister, (*shape, 2), real_part(dtype), mean, std / math.sqrt(2))
        return _complex(parts, dtype)
    require_real("normal_", dtype)
    size = math.prod(shape)
    if size < 16:
        return fill(shape, dtype, lambda count: one_by_one(twister, count, mean, std))
    if dtype == np.float32:
        return _normal_float32(twister, size, mean, std).reshape(shape)
    work = working_dtype(dtype)

    def block(count: int) -> NDArray[Any]:
        pairs = _box_muller(twister.standard_uniform(count, work))
        return multiply_add(pairs, work.type(std), work.type(mean))

    tail = size % 16
    result = np.empty(size, dtype)
    result[: size - tail] = fill((size - tail,), dtype, block)
    if tail:
        twister.skip_words(overwritten_words(size, dtype))
        result[-16:] = convert(block(16), dtype)
    return result.reshape(shape)


def _normal_float32(
    twister: MersenneTwister, size: int, mean: float, std: float
) -> NDArray[np.float32]:
    tail = size % 16
    whole = size - tail
    result = np.empty(size, np.float32)
    # The redrawn last 16 share a block with the numbers before them.
    for part in box_muller.blocks(whole + 16 if tail else whole):
        words = twister.random_uint32(min(part.stop, whole) - part.start)
        if part.stop <= whole:
            result[part] = box_muller.transform(words, mean, std)
            continue
        twister.skip_words(tail)
        words = np.concatenate((words, twister.random_uint32(16)))
        normals = box_muller.transform(words, mean, std)
        result[part.start : whole], result[-16:] = normals[:-16], normals[-16:]
    return result


def log_normal(
    twister: MersenneTwister,
    shape: Sequence[int],
    dtype: DTypeLike = np.float32,
    mean: float = 1.0,
    std: float = 2.0,
) -> NDArray[Any]:
    """Exponentials of normals drawn one at a time, for every size: `Tensor.log_normal_`.

    `mean` and `std` are those of the logarithm. In float64, within 1e-14 of PyTorch's, relatively;
    shorter floats are equal up to a rare last bit.

    Raises:
        RuntimeError: `std` is not positive.
        NotImplementedError: The dtype is not a floating-point one.
    """
    dtype = np.dtype(dtype)
    require_real("log_normal_", dtype)
    if not std > 0:
        raise RuntimeError(f"log_normal_ needs std > 0; got std={std}")
    return fill(shape, dtype, lambda count: np.exp(one_by_one(twister, count, mean, std)))


def exponential(
    twister: MersenneTwister,
    shape: Sequence[int],
    dtype: DTypeLike = np.float32,
    lambd: float = 1.0,
) -> NDArray[Any]:
    """-log(1 - u) / lambd of a float64 uniform u: `Tensor.exponential_`.

    In float64, within 1e-15 of PyTorch's, relatively; shorter floats are equal up to a rare last
    bit.

    Raises:
        RuntimeError: `lambd` is not positive, or the dtype is not a floating-point one.
    """
    dtype = np.dtype(dtype)
    _require_continuous("exponential_", dtype)
    if not lambd > 0:
        raise RuntimeError(f"exponential_ needs lambda > 0; got lambda={lambd}")
    scale = -1.0 / lambd

    def block(count: int) -> NDArray[Any]:
        return scale * np.log1p(-twister.standard_uniform(count, _FLOAT64))

    return fill(shape, dtype, block)


def cauchy(
    twister: MersenneTwister,
    shape: Sequence[int],
    dtype: DTypeLike = np.float32,
    median: float = 0.0,
    sigma: float = 1.0,
) -> NDArray[Any]:
    """median + sigma * tan(π (u - 1/2)) of a float64 uniform u: `Tensor.cauchy_`.

    In float64, within 1e-15 of PyTorch's, relatively to the larger of value and median; shorter
    floats are equal up to a rare last bit.

    Raises:
        RuntimeError: `sigma` is not positive, or the dtype is not a floating-point one.
    """
    dtype = np.dtype(dtype)
    _require_continuous("cauchy_", dtype)
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ needs sigma > 0; got sigma={sigma}")

    def block(count: int) -> NDArray[Any]:
        tangents = np.tan(math.pi * (twister.standard_uniform(count, _FLOAT64) - 0.5))
        return multiply_add(tangents, np.float64(sigma), np.float64(median))

    return fill(shape, dtype, block)


def slopes(
    twister: MersenneTwister, elements: NDArray[Any], low: float, high: float
) -> NDArray[Any]:
    """For each element that is not positive a uniform real of [low, high), and 1 for the others.

    As in PyTorch's `rrelu`, each uses the two words of a float64, for every dtype.
    """
    result = np.ones_like(elements)
    drawn_for = elements <= 0
    count = (int(np.count_nonzero(drawn_for)),)
    result[drawn_for] = uniform(twister, count, _FLOAT64, low, high).astype(elements.dtype)
    return result


def one_by_one(
    twister: MersenneTwister, count: int, mean: float = 0.0, std: float = 1.0
) -> NDArray[Any]:
    """The next `count` normals, in float64, of the path that caches the second of each pair."""
    result = np.empty(count)
    waiting = int(count > 0 and twister.next_normal is not None)
    if waiting:
        result[0] = twister.next_normal
        twister.next_normal = None
    wanted = count - waiting
    uniforms = twister.standard_uniform(wanted + wanted % 2, _FLOAT64).reshape(-1, 2)
    radius = np.sqrt(-2.0 * np.log1p(-uniforms[:, 1]))
    angle = 2.0 * math.pi * uniforms[:, 0]
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()
    result[waiting:] = pairs[:wanted]
    if wanted % 2:
        # The cached second normal is part of the generator's state; C's functions give PyTorch's
        # bits.
        first, second = uniforms[-1].tolist()
        radius_of_last = math.sqrt(-2.0 * math.log1p(-second))
        twister.next_normal = radius_of_last * math.sin(2.0 * math.pi * first)
    return multiply_add(result, np.float64(std), np.float64(mean))


def overwritten_words(size: int, dtype: np.dtype[Any]) -> int:
    """The number of words that `normal` uses past the last multiple of 16, before it redraws.

    PyTorch fills a float32 or float64 tensor with uniforms before it transforms any; a 16-bit float
    is transformed 16 at a time, and the rest is never drawn.
    """
    work = working_dtype(dtype)
    return size % 16 * words_of(work) if dtype == work else 0


def real_part(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the parts of a complex dtype."""
    return np.dtype(f"f{dtype.itemsize // 2}")


def _box_muller(uniforms: NDArray[Any]) -> NDArray[Any]:
    """Standard normals from uniforms, 16 at a time: 8 radii and 8 angles."""
    # Groups of eight as one opaque item: NumPy copies these much faster than rows of eight.
    eights = np.dtype((np.void, 8 * uniforms.itemsize))
    pairs = uniforms.view(eights).reshape(-1, 2)
    radius = pairs[:, 0].copy().view(uniforms.dtype)
    angle = pairs[:, 1].copy().view(uniforms.dtype)
    np.subtract(1, radius, out=radius)
    np.log(radius, out=radius)
    radius *= -2
    np.sqrt(radius, out=radius)
    angle *= 2 * math.pi
    result = np.empty_like(uniforms)
    halves = result.view(eights).reshape(-1, 2)
    halves[:, 0] = (radius * np.cos(angle)).view(eights)
    halves[:, 1] = (radius * np.sin(angle)).view(eights)
    return result


def _complex(parts: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    return parts.view(dtype)[..., 0]


class _Interval:
    """The interval and working precision of a uniform draw.

    Raises:
        RuntimeError: See `uniform`.
        NotImplementedError: See `uniform`.
    """

    __slots__ = ("dtype", "excluded", "included", "spacing", "start", "width", "work")

    def __init__(self, low: float, high: float, dtype: np.dtype[Any]) -> None:
        require_real("uniform_", dtype)
        _require_bounds(low, high, dtype)
        self.dtype, self.work = dtype, working_dtype(dtype)
        self.start, stop = self.work.type(low), self.work.type(high)
        self.width = stop - self.start
        self.included, self.excluded = convert(self.start, dtype), convert(stop, dtype)
        # Initial weights are drawn from [-a, a), which has a faster path.
        is_symmetric = self.start == -stop and stop > _SMALLEST_LIMIT
        half = 2.0 ** (DIGITS[self.work.name] - 1)
        self.spacing = np.array(stop / self.work.type(half)) if is_symmetric else None

    def draw(self, twister: MersenneTwister, count: int) -> NDArray[Any]:
        """The next `count` reals."""
        if self.spacing is not None:
            reals = twister.symmetric_uniform(count, self.spacing)
            if self.dtype is self.work:
                # The largest value, a - spacing, is below a even after rounding.
                return reals
        else:
            uniforms = twister.standard_uniform(count, self.work)
            reals = multiply_add(uniforms, self.width, self.start)
        reals = convert(reals, self.dtype)
        # Rounding can reach the excluded end; PyTorch then returns the included end.
        at_the_end = reals == self.excluded
        if np.count_nonzero(at_the_end):
            reals[at_the_end] = self.included
        return reals


_interval = functools.lru_cache(maxsize=1024)(_Interval)

# For symmetric intervals whose spacing is not a subnormal float32.
_SMALLEST_LIMIT = 2.0**-100


def _require_bounds(low: float, high: float, dtype: np.dtype[Any]) -> None:
    largest = LARGEST[name_of(dtype)]
    for name, bound in (("from", low), ("to", high)):
        if not -largest <= bound <= largest:
            raise RuntimeError(f"uniform_: {name}={bound} is out of bounds for {dtype.name}")
    if low > high:
        raise RuntimeError(f"uniform_ draws from [from, to), so from={low} cannot exceed to={high}")
    if high - low > largest:
        raise RuntimeError(
            f"uniform_: to - from = {high - low} is beyond the largest {dtype.name}, {largest}"
        )


def _require_continuous(operator: str, dtype: np.dtype[Any]) -> None:
    if dtype.name not in DIGITS:
        raise RuntimeError(f"{operator} gives reals, so its dtype cannot be {dtype.name}")
