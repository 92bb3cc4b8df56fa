"""Rejection sampling from an MT19937 generator, with a random number of words.

The draws match PyTorch word for word, like those of `flambeau.random.draws`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flambeau.random.draws import normal, uniform
from flambeau.random.draws.arithmetic import convert
from flambeau.random.draws.fill import require_real, working_dtype
from flambeau.random.mersenne import MersenneTwister

_FLOAT64 = np.dtype(np.float64)

# From this rate on, rejection is cheaper than multiplying uniforms.
_LARGE_RATE = 10

# The largest count of a C program.
_GREATEST = 2.0**63
# Below this probability mass in the interval, proposals are uniform.
_LARGE_SHARE = 0.3


def poisson(twister: MersenneTwister, rates: NDArray[Any]) -> NDArray[Any]:
    """A count with each element's own rate: `torch.poisson`.

    Counts equal PyTorch's, except for rare draws at the boundary of acceptance.

    Args:
        twister: The generator.
        rates: Reals that are not negative, of the shape and dtype of the result.

    Raises:
        RuntimeError: A rate is negative, or greater than the largest count.
        NotImplementedError: The dtype is not a floating-point one.
    """
    require_real("poisson", rates.dtype)
    if rates.size and not rates.min() >= 0:
        raise RuntimeError(f"poisson needs rates that are not negative; got {rates.min()}")
    if rates.size and not rates.max() < _GREATEST:
        raise RuntimeError(
            f"poisson needs rates below 2 ** 63, beyond which counts do not fit; got {rates.max()}"
        )
    uniforms = _Uniforms(twister)
    counts = [_count(rate, uniforms) for rate in rates.astype(np.float64).ravel().tolist()]
    twister.skip_words(2 * uniforms.taken)
    return np.array(counts, np.float64).astype(rates.dtype).reshape(rates.shape)


class _Uniforms:
    """Uniforms that are read ahead, since the number that a count uses is unknown."""

    def __init__(self, twister: MersenneTwister) -> None:
        self.taken = 0
        self._values = self._read_ahead(twister.copy())

    def _read_ahead(self, twister: MersenneTwister) -> Iterator[float]:
        while True:
            yield from twister.standard_uniform(256, _FLOAT64).tolist()

    def next(self) -> float:
        """The next uniform of [0, 1)."""
        self.taken += 1
        return next(self._values)


def _count(rate: float, uniforms: _Uniforms) -> int:
    if rate == 0:
        return 0
    return _by_rejection(rate, uniforms) if rate >= _LARGE_RATE else _by_products(rate, uniforms)


def _by_products(rate: float, uniforms: _Uniforms) -> int:
    """The number of uniforms whose product stays above exp(-rate) (Knuth)."""
    limit, product, count = math.exp(-rate), uniforms.next(), 0
    while product > limit:
        product *= uniforms.next()
        count += 1
    return count


def _by_rejection(rate: float, uniforms: _Uniforms) -> int:
    """Transformed rejection with a squeeze.

    W. Hörmann, "The transformed rejection method for generating Poisson random variables", 1993,
    algorithm PTRS.
    """
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    squeeze = 0.9277 - 3.6224 / (b - 2)
    while True:
        u = uniforms.next() - 0.5
        v = uniforms.next()
        distance = 0.5 - abs(u)
        if distance == 0:
            continue
        count = math.floor((2 * a / distance + b) * u + rate + 0.43)
        if distance >= 0.07 and v <= squeeze:
            return count
        if count < 0 or (distance < 0.013 and v > distance):
            continue
        density = count * math.log(rate) - rate - math.lgamma(count + 1)
        proposed = inverse_alpha / (a / (distance * distance) + b)
        if v == 0 or math.log(v) + math.log(proposed) <= density:
            return count


def truncated_normal(
    twister: MersenneTwister,
    shape: Sequence[int],
    dtype: np.dtype[Any],
    mean: float = 0.0,
    std: float = 1.0,
    low: float = -2.0,
    high: float = 2.0,
) -> NDArray[Any]:
    """Normals of [low, high]: `torch.nn.init.trunc_normal_`.

    All elements are redrawn until each has been accepted: normals if much of their mass lies in the
    interval, else uniforms of the interval, accepted in proportion to the density. The error is
    that of `normal` and a logarithm.

    Raises:
        RuntimeError: ``std`` is negative, or ``low`` greater than ``high``.
        NotImplementedError: The dtype is not a floating-point one.
        ZeroDivisionError: ``std`` is zero.
    """
    require_real("trunc_normal_", dtype)
    share = _below((high - mean) / std) - _below((low - mean) / std)
    if share > _LARGE_SHARE:
        return _normals_within(twister, shape, dtype, mean, std, low, high)
    return _uniforms_by_density(twister, shape, dtype, mean, std, low, high)


def _below(deviations: float) -> float:
    """The normal cumulative distribution at this many deviations from the mean."""
    return (1 + math.erf(deviations / math.sqrt(2))) / 2


def _normals_within(
    twister: MersenneTwister, shape: Sequence[int], dtype: np.dtype[Any],
    mean: float, std: float, low: float, high: float,
) -> NDArray[Any]:  # fmt: skip
    # PyTorch rounds the bounds to the dtype, so that a value rounded to a bound is inside.
    first, last = convert(np.array([low, high]), dtype)
    values = normal(twister, shape, dtype, mean, std)
    while np.any(outside := (values < first) | (values > last)):
        values = np.where(outside, normal(twister, shape, dtype, mean, std), values)
    return values


def _uniforms_by_density(
    twister: MersenneTwister, shape: Sequence[int], dtype: np.dtype[Any],
    mean: float, std: float, low: float, high: float,
) -> NDArray[Any]:  # fmt: skip
    work = working_dtype(dtype)
    peak = -0.5 * ((max(low, min(mean, high)) - mean) / std) ** 2

    def propose() -> tuple[NDArray[Any], NDArray[Any]]:
        """Proposals, and a mask of rejected ones; rounded at each step, as PyTorch does."""
        candidates = uniform(twister, shape, dtype, low, high)
        density = candidates
        for step in (
            lambda x: x - work.type(mean),
            lambda x: x / work.type(std),
            np.square,
            lambda x: x * work.type(-0.5),
            lambda x: x - work.type(peak),
        ):
            density = convert(step(density.astype(work)), dtype)
        with np.errstate(divide="ignore"):  # a uniform can be exactly 0
            threshold = convert(np.log(uniform(twister, shape, dtype).astype(work)), dtype)
        return candidates, threshold > density

    values, pending = propose()
    while np.any(pending):
        candidates, refused = propose()
        values = np.where(pending, candidates, values)
        pending &= refused
    return values
