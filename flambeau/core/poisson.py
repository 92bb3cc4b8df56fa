"""Poisson counts as PyTorch's CPU operator draws them from an MT19937 generator."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flambeau.core.draws.fill import require_real
from flambeau.core.mersenne import MersenneTwister

_FLOAT64 = np.dtype(np.float64)

# From this rate on, rejection is cheaper than multiplying uniforms.
_LARGE_RATE = 10


def poisson(twister: MersenneTwister, rates: NDArray[Any]) -> NDArray[Any]:
    """A count with each element's own rate: `torch.poisson`.

    Counts equal PyTorch's, but for a rare draw at the very edge of acceptance.

    Args:
        twister: The generator.
        rates: Reals that are not negative, of the shape and dtype of the result.

    Raises:
        RuntimeError: A rate is negative.
        NotImplementedError: The dtype is not a floating-point one.
    """
    check_rates(rates)
    uniforms = _Uniforms(twister)
    counts = [_count(rate, uniforms) for rate in rates.astype(np.float64).ravel().tolist()]
    twister.skip_words(2 * uniforms.taken)
    return np.array(counts, np.float64).astype(rates.dtype).reshape(rates.shape)


def check_rates(rates: NDArray[Any]) -> None:
    """Raise what `poisson` raises for these rates."""
    require_real("poisson", rates.dtype)
    if rates.size and not rates.min() >= 0:
        raise RuntimeError(f"poisson needs rates that are not negative; got {rates.min()}")


class _Uniforms:
    """Uniforms read ahead of the generator, since nobody knows how many a count will take."""

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
    """How many uniforms can be multiplied before the product falls to exp(-rate) (Knuth)."""
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
