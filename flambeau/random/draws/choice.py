"""Draws of indices: permutations, and weighted categories."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from flambeau.random.draws.arithmetic import convert
from flambeau.random.draws.fill import DIGITS, require_number
from flambeau.random.draws.real import exponential
from flambeau.random.mersenne import MersenneTwister

_FLOAT64 = np.dtype(np.float64)

#: From this size on, a permutation uses 64-bit words in another order.
LARGE_PERMUTATION = (2**32 - 1) // 20

# Indices of categories must be exact in float32.
_MOST_CATEGORIES = 2**24


def permutation(twister: MersenneTwister, n: int, dtype: DTypeLike = np.int64) -> NDArray[Any]:
    """0 to n - 1 in random order: `torch.randperm`. Equal bit for bit.

    Raises:
        RuntimeError: `n` is negative, or the dtype cannot hold n - 1 exactly.
        NotImplementedError: The dtype is bool, complex, uint16, uint32 or uint64.

    Example:
        >>> from flambeau.random.draws.choice import permutation
        >>> from flambeau.random.mersenne import MersenneTwister
        >>> permutation(MersenneTwister(0), 5)
        array([4, 0, 1, 3, 2])
    """
    dtype = np.dtype(dtype)
    require_countable(n, dtype)
    if n < LARGE_PERMUTATION:
        return convert(_swapped(_upward_places(twister, n)), dtype)
    return convert(_inside_out(twister, n), dtype)


def multinomial(
    twister: MersenneTwister, weights: NDArray[Any], num_samples: int, replacement: bool = False
) -> NDArray[np.int64]:
    """Indices of categories drawn in proportion to their weights: `torch.multinomial`.

    With replacement, and more than one sample, a float64 uniform is looked up in the cumulative
    weights, equal to PyTorch's bit for bit. Otherwise the categories with the largest quotients of
    weight and exponential number are selected, equal to PyTorch's unless two quotients agree up to
    the last bit, which is common only for many categories in a 16-bit dtype.

    Args:
        twister: The generator.
        weights: `(categories,)` or `(rows, categories)`, floating-point; they need not be
            normalized.
        num_samples: Samples of each row.
        replacement: Whether a category can be drawn again.

    Returns:
        `(num_samples,)` or `(rows, num_samples)`.

    Raises:
        RuntimeError: Weights of a wrong shape or dtype, negative, not finite, or all zero in a row;
            no sample, or more samples than categories, wanted.
    """
    require_weights(weights, num_samples, replacement)
    rows = weights.reshape(-1, weights.shape[-1])
    if replacement and num_samples > 1:
        chosen = _looked_up(twister, rows, num_samples)
    else:
        chosen = _raced(twister, rows, num_samples)
    return chosen.reshape(*weights.shape[:-1], num_samples)


def _upward_places(twister: MersenneTwister, n: int) -> NDArray[np.int64]:
    """For each index, a random index not before it; the last has no choice and uses no word."""
    places = np.arange(n)
    choices = np.arange(n, 1, -1, dtype=np.uint32)
    places[:-1] += twister.random_uint32(choices.size) % choices
    return places


def _swapped(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The permutation of 0 to n - 1 that swaps elements i and `places[i] >= i` for increasing i.

    The swaps depend on one another only through chains of expected length log n. At step i, index j
    holds the number j if no earlier step swapped j; else it holds the element that was at k just
    before step k, where k is the latest such step. Following k to its own latest step, and so on,
    ends at an untouched index. All chains are followed together by pointer doubling.
    """
    n = places.size
    steps = np.arange(n)
    if n < 2:
        return steps
    # Sorted by index and then by step: the previous step with the same index is the neighbour.
    keys = np.sort(places.astype(np.uint64) << np.uint64(32) | steps.astype(np.uint64))
    sorted_places = (keys >> np.uint64(32)).astype(np.int64)
    sorted_steps = (keys & np.uint64(2**32 - 1)).astype(np.int64)
    same_place = sorted_places[1:] == sorted_places[:-1]

    earlier = np.full(n, -1)  # of step i: the latest step before i with the same place
    earlier[sorted_steps[1:][same_place]] = sorted_steps[:-1][same_place]

    # For each index i: the latest step before i with index i. It is the last one for that index,
    # unless that is i.
    is_last = np.append(~same_place, True)
    origin = steps.copy()
    origin[sorted_places[is_last]] = sorted_steps[is_last]
    stays = places == steps
    origin[stays] = np.where(earlier[stays] < 0, steps[stays], earlier[stays])

    while True:
        further = origin[origin]
        if np.array_equal(further, origin):
            break
        origin = further
    return np.where(earlier < 0, places, origin[earlier])


def _inside_out(twister: MersenneTwister, n: int) -> NDArray[np.int64]:
    """The algorithm of large permutations.

    For increasing i, i is put at a random index up to i, whose previous element moves to i. In
    reverse order of indices and steps, this inverts `_swapped`.
    """
    places = (twister.random_uint64(n) % np.arange(1, n + 1, dtype=np.uint64)).astype(np.int64)
    mirrored = _swapped(n - 1 - places[::-1])
    result = np.empty(n, np.int64)
    result[n - 1 - mirrored] = np.arange(n - 1, -1, -1)
    return result


def _looked_up(twister: MersenneTwister, rows: NDArray[Any], num_samples: int) -> NDArray[np.int64]:
    work = rows.dtype if rows.dtype == np.float64 else np.dtype(np.float32)
    cumulated = np.cumsum(rows.astype(work, copy=False), axis=1, dtype=work)
    cumulated /= cumulated[:, -1:].copy()
    cumulated[:, -1] = 1
    chosen = np.empty((rows.shape[0], num_samples), np.int64)
    for row, limits in enumerate(cumulated.astype(np.float64, copy=False)):
        chosen[row] = np.searchsorted(limits, twister.standard_uniform(num_samples, _FLOAT64))
    return chosen


def _raced(twister: MersenneTwister, rows: NDArray[Any], num_samples: int) -> NDArray[np.int64]:
    waits = exponential(twister, rows.shape, rows.dtype)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # a wait can be exactly 0
        speeds = (rows / waits).astype(np.float64)
    if num_samples == 1:
        return np.argmax(speeds, axis=1, keepdims=True)
    return np.argsort(-speeds, axis=1, kind="stable")[:, :num_samples]


def require_countable(n: int, dtype: np.dtype[Any]) -> None:
    """Raise the errors of `permutation` for these arguments."""
    require_number("randperm", dtype)
    if dtype == np.bool_:
        raise NotImplementedError("randperm is not implemented for bool; use int64")
    if n < 0:
        raise RuntimeError(f"randperm needs n >= 0; got n={n}")
    if dtype.name == "bfloat16":
        return  # PyTorch rounds here without a word
    most = 2 ** DIGITS[dtype.name] + 1 if dtype.name in DIGITS else int(np.iinfo(dtype).max) + 1
    if n > most:
        raise RuntimeError(f"randperm: {dtype.name} holds at most n={most} exactly; got n={n}")


def require_weights(weights: NDArray[Any], num_samples: int, replacement: bool) -> None:
    """Raise the errors of `multinomial` for these arguments."""
    if weights.ndim not in (1, 2):
        raise RuntimeError(f"multinomial needs weights of 1 or 2 dimensions; got {weights.ndim}")
    if weights.dtype.name not in DIGITS:
        raise RuntimeError(f"multinomial needs floating-point weights; got {weights.dtype.name}")
    categories = weights.shape[-1]
    if num_samples <= 0:
        raise RuntimeError(f"multinomial needs num_samples > 0; got {num_samples}")
    if categories == 0 or (num_samples > categories and not replacement):
        raise RuntimeError(
            f"multinomial cannot draw {num_samples} samples of {categories} categories "
            f"with replacement={replacement}"
        )
    if categories > _MOST_CATEGORIES:
        raise RuntimeError(f"multinomial takes up to 2**24 categories; got {categories}")
    wide = weights.astype(np.float64)
    if not np.all((wide >= 0) & (wide < np.inf)):
        raise RuntimeError("multinomial needs weights that are finite and not negative")
    if weights.size and not np.all(wide.sum(axis=-1) > 0):
        raise RuntimeError("multinomial needs at least one weight above zero in each row")
