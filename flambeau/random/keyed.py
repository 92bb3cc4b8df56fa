"""Random arrays from a key, by a counter-based generator.

Each function takes the two words of a key first, then the arguments of the draw of the same name in
`flambeau.random.draws`, and returns numbers of the same distribution. They are pure functions, for
compiled programs and for devices other than the CPU. JAX's own generator, Threefry, serves the
draws that JAX computes; `_hashes` the others, in a seventh of its time.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random

from flambeau.random.draws.discrete import integer_range
from flambeau.random.draws.fill import working_dtype
from flambeau.random.draws.real import real_part

Shape = tuple[int, ...]


# The constants of SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
# 2014.
_STEP, _FIRST, _SECOND = map(
    np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def _key(words: Array) -> Array:
    return random.wrap_key_data(words, impl="threefry2x32")


def number_of(words: Array) -> Array:
    """The 64 bits of a key, whose upper half is the first word."""
    return lax.bitcast_convert_type(lax.rev(words, (0,)), jnp.uint64)


def words_of(number: Array) -> Array:
    """The two words of a key."""
    return lax.rev(lax.bitcast_convert_type(number, jnp.uint32), (0,))


def _mixed(bits: Any, inner: Any = 0) -> Any:
    bits = (bits ^ bits >> 30) * _FIRST ^ inner
    bits = (bits ^ bits >> 27) * _SECOND
    return bits ^ bits >> 31


def _hashes(words: Array, count: int) -> Array:
    """Random 64-bit numbers.

    SplitMix64, started at a position that depends on the key. Other bits of the key are added
    between its two multiplications, so that the sequences of two keys do not overlap.
    """
    first = number_of(words) + _STEP
    start, inner = _mixed(first), _mixed(first + _STEP)
    return _mixed(lax.iota(jnp.uint64, count) * _STEP + start, inner)


def _short_hashes(words: Array, shape: Shape) -> Array:
    """Random 32-bit numbers for comparisons, with fewer operations than `_hashes`.

    Each number occurs once in 2**32 elements; larger arrays repeat them. The constants are those of
    triple32: https://github.com/skeeto/hash-prospector
    """
    mixed = _mixed(number_of(words) + _STEP)
    start, inner = mixed.astype(jnp.uint32), (mixed >> 32).astype(jnp.uint32)
    bits = lax.iota(jnp.uint32, math.prod(shape)).reshape(shape) + start
    bits = (bits ^ bits >> 17) * np.uint32(0xED5AD4BB) ^ inner
    bits = (bits ^ bits >> 11) * np.uint32(0xAC4C1B51)
    bits = (bits ^ bits >> 15) * np.uint32(0x31848BAB)
    return bits ^ bits >> 14


def _bits(words: Array, shape: Shape, dtype: Any) -> Array:
    """Random unsigned integers that use all 64 bits of each hash."""
    count, per_hash = math.prod(shape), 8 // np.dtype(dtype).itemsize
    hashes = _hashes(words, -(-count // per_hash))
    parts = lax.bitcast_convert_type(hashes, dtype).reshape(-1)
    return parts[:count].reshape(shape)


def _standard_uniform(words: Array, shape: Shape, work: np.dtype[Any]) -> Array:
    """Uniforms of [0, 1), with as many bits as the significand of the dtype."""
    if work.itemsize == 8:
        return (_bits(words, shape, jnp.uint64) >> 11).astype(work) * work.type(2.0**-53)
    # As signed integers, which processors convert faster.
    return (_bits(words, shape, jnp.uint32) >> 8).astype(jnp.int32).astype(work) * work.type(
        2.0**-24
    )


def _inner_uniform(words: Array, shape: Shape, work: np.dtype[Any]) -> Array:
    """Uniforms of (0, 1), symmetric about 1/2."""
    spacing = 2.0**-53 if work.itemsize == 8 else 2.0**-24
    # A coarser grid than that of `_standard_uniform` leaves room for its midpoints.
    grid = _standard_uniform(words, shape, work)
    coarse = jnp.floor(grid * work.type(0.5 / spacing)) * work.type(2 * spacing)
    return coarse + work.type(spacing)


def uniform(
    words: Array, shape: Shape, dtype: np.dtype[Any], low: Any = 0.0, high: Any = 1.0
) -> Array:
    """Uniform reals of [low, high), or complex numbers of two such parts."""
    if dtype.kind == "c":
        return _complex(uniform(words, (*shape, 2), real_part(dtype), low, high))
    # As in PyTorch, a 16-bit float is a rounded float32.
    work = working_dtype(dtype)
    start, stop = jnp.asarray(low, work), jnp.asarray(high, work)
    reals = _standard_uniform(words, shape, work) * (stop - start) + start
    reals = reals.astype(dtype)
    return jnp.where(reals == stop.astype(dtype), start.astype(dtype), reals)


def slopes(words: Array, elements: Array, low: float, high: float) -> Array:
    """Uniform reals of [low, high) for elements that are not positive, and 1 for the others."""
    drawn = uniform(words, elements.shape, elements.dtype, low, high)
    return jnp.where(elements <= 0, drawn, jnp.ones_like(drawn))


def normal(
    words: Array, shape: Shape, dtype: np.dtype[Any], mean: Any = 0.0, std: Any = 1.0
) -> Array:
    """Normals, or complex numbers of two normal parts of standard deviation std / √2."""
    if dtype.kind == "c":
        parts = normal(words, (*shape, 2), real_part(dtype), 0.0, std / math.sqrt(2))
        return _complex(parts) + jnp.asarray(mean, dtype)
    work = working_dtype(dtype)
    centered = 2 * _inner_uniform(words, shape, work) - 1
    deviation = jnp.asarray(std, work) * work.type(math.sqrt(2))
    return (lax.erf_inv(centered) * deviation + jnp.asarray(mean, work)).astype(dtype)


def log_normal(
    words: Array, shape: Shape, dtype: np.dtype[Any], mean: Any = 1.0, std: Any = 2.0
) -> Array:
    """Exponentials of normals."""
    return jnp.exp(normal(words, shape, working_dtype(dtype), mean, std)).astype(dtype)


def exponential(words: Array, shape: Shape, dtype: np.dtype[Any], lambd: Any = 1.0) -> Array:
    """Exponential reals of rate ``lambd``."""
    work = working_dtype(dtype)
    waits = -jnp.log1p(-_standard_uniform(words, shape, work)) / jnp.asarray(lambd, work)
    return waits.astype(dtype)


def cauchy(
    words: Array, shape: Shape, dtype: np.dtype[Any], median: Any = 0.0, sigma: Any = 1.0
) -> Array:
    """Cauchy-distributed reals."""
    work = working_dtype(dtype)
    standard = jnp.tan(work.type(math.pi) * (_inner_uniform(words, shape, work) - 0.5))
    return (standard * jnp.asarray(sigma, work) + jnp.asarray(median, work)).astype(dtype)


def geometric(words: Array, shape: Shape, dtype: np.dtype[Any], p: Any = 0.5) -> Array:
    """The number of trials up to the first success of probability ``p``."""
    uniforms = _inner_uniform(words, shape, np.dtype(np.float32))
    return jnp.ceil(jnp.log(uniforms) / jnp.log1p(-jnp.asarray(p, jnp.float32))).astype(dtype)


def bernoulli(words: Array, shape: Shape, dtype: np.dtype[Any], p: Any = 0.5) -> Array:
    """1 with probability ``p``, rounded to a multiple of 2**-30, else 0."""
    limit = jnp.round(jnp.asarray(p, jnp.float64) * 2.0**30).astype(jnp.int32)
    # As signed integers, which processors compare faster.
    return ((_short_hashes(words, shape) >> 2).astype(jnp.int32) < limit).astype(dtype)


def bernoulli_probabilities(words: Array, probabilities: Array, dtype: np.dtype[Any]) -> Array:
    """1 with each element's own probability, else 0."""
    uniforms = _standard_uniform(words, probabilities.shape, working_dtype(probabilities.dtype))
    return (uniforms < probabilities).astype(dtype)


def integers(
    words: Array, shape: Shape, dtype: np.dtype[Any], low: int | None, high: int | None
) -> Array:
    """Integers of [low, high); see `draws.integers` for missing bounds."""
    base, span, wide = integer_range(low, high, dtype)
    if wide:
        bits = _bits(words, shape, jnp.uint64)
        remainders = bits if span == 2**64 else bits % np.uint64(span)
    else:
        remainders = _bits(words, shape, jnp.uint32) % np.uint32(span)
    return (remainders.astype(jnp.int64) + np.int64(base)).astype(dtype)


def permutation(words: Array, n: int, dtype: np.dtype[Any]) -> Array:
    """0 to n - 1 in random order."""
    return random.permutation(_key(words), n).astype(dtype)


def permutations(words: Array, n: int, count: int) -> Array:
    """``count`` permutations of 0 to n - 1, each a row."""
    rows = jnp.broadcast_to(jnp.arange(n, dtype=jnp.int64), (count, n))
    return random.permutation(_key(words), rows, axis=1, independent=True)


def truncated_normal(
    words: Array, shape: Shape, dtype: np.dtype[Any], mean: Any, std: Any, low: Any, high: Any
) -> Array:
    """Normals of [low, high]."""
    work = working_dtype(dtype)
    mean, std, low, high = (jnp.asarray(each, work) for each in (mean, std, low, high))
    standard = random.truncated_normal(
        _key(words), (low - mean) / std, (high - mean) / std, shape, work
    )
    return jnp.clip(standard * std + mean, low, high).astype(dtype)


def poisson(words: Array, rates: Array) -> Array:
    """Poisson-distributed counts with each element's own rate, in the dtype of the rates."""
    counts = random.poisson(_key(words), rates.astype(working_dtype(rates.dtype)), rates.shape)
    return counts.astype(rates.dtype)


def multinomial(words: Array, weights: Array, num_samples: int, replacement: bool) -> Array:
    """Indices of categories drawn in proportion to their weights, row by row."""
    wide = weights.astype(working_dtype(weights.dtype))
    if replacement:
        return _looked_up(words, wide, num_samples)
    # The order of exponential variables with these rates is a sample without replacement.
    speeds = wide / exponential(words, wide.shape, wide.dtype)
    return lax.top_k(speeds, num_samples)[1].astype(jnp.int64)


def _looked_up(words: Array, weights: Array, num_samples: int) -> Array:
    limits = jnp.cumsum(weights, axis=-1)
    shape = (*weights.shape[:-1], num_samples)
    places = _standard_uniform(words, shape, weights.dtype) * limits[..., -1:]

    def search(row: Array, wanted: Array) -> Array:
        return jnp.searchsorted(row, wanted, side="right")

    found = search(limits, places) if weights.ndim == 1 else jax.vmap(search)(limits, places)
    return jnp.minimum(found, weights.shape[-1] - 1).astype(jnp.int64)


def _complex(parts: Array) -> Array:
    return lax.complex(parts[..., 0], parts[..., 1])
