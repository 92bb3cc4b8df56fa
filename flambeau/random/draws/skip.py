"""Advancing a generator as a draw would, without drawing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from flambeau.random.draws.choice import LARGE_PERMUTATION
from flambeau.random.draws.discrete import integer_range
from flambeau.random.draws.fill import words_of, working_dtype
from flambeau.random.draws.real import one_by_one, overwritten_words, real_part
from flambeau.random.mersenne import MersenneTwister


def skip(twister: MersenneTwister, kind: str, *arguments: Any, **keywords: Any) -> None:
    """Advance the generator as the draw named `kind` with the same arguments would.

    It uses constant memory; 10**9 numbers take a few seconds.

    Args:
        twister: The generator.
        kind: The name of a draw of `flambeau.random.draws`.
        arguments: The draw's arguments after the generator.
        keywords: The draw's keyword arguments.

    Raises:
        ValueError: There is no such draw.

    Example:
        >>> import numpy as np
        >>> from flambeau.random.draws.skip import skip
        >>> from flambeau.random.mersenne import MersenneTwister
        >>> from flambeau.random.draws import uniform
        >>> left, right = MersenneTwister(0), MersenneTwister(0)
        >>> _ = uniform(left, (1000,), np.float32, low=-1.0)
        >>> skip(right, "uniform", (1000,), np.float32, low=-1.0)
        >>> left.get_state() == right.get_state()
        True
    """
    if kind not in _SKIPS:
        raise ValueError(f"there is no draw {kind!r}; there are {', '.join(sorted(_SKIPS))}")
    _SKIPS[kind](twister, *arguments, **keywords)


def _uniform(
    twister: MersenneTwister,
    shape: Sequence[int],
    dtype: DTypeLike = np.float32,
    *_: Any,
    **__: Any,
) -> None:
    reals, dtype = _reals(shape, np.dtype(dtype))
    twister.skip_words(reals * words_of(working_dtype(dtype)))


def _normal(
    twister: MersenneTwister,
    shape: Sequence[int],
    dtype: DTypeLike = np.float32,
    *_: Any,
    **__: Any,
) -> None:
    reals, dtype = _reals(shape, np.dtype(dtype))
    if reals < 16:
        _one_by_one(twister, reals)
        return
    drawn = reals - reals % 16 + 16 * (reals % 16 > 0)
    words = drawn * words_of(working_dtype(dtype)) + overwritten_words(reals, dtype)
    twister.skip_words(words)


def _log_normal(twister: MersenneTwister, shape: Sequence[int], *_: Any, **__: Any) -> None:
    _one_by_one(twister, math.prod(shape))


def _one_by_one(twister: MersenneTwister, count: int) -> None:
    if count and twister.next_normal is not None:
        twister.next_normal = None
        count -= 1
    twister.skip_words(count // 2 * 4)
    if count % 2:
        one_by_one(twister, 1)  # its partner has to wait in the generator


def _float64_each(twister: MersenneTwister, shape: Sequence[int], *_: Any, **__: Any) -> None:
    twister.skip_words(2 * math.prod(shape))


def _bernoulli_probabilities(
    twister: MersenneTwister, probabilities: NDArray[Any], *_: Any, **__: Any
) -> None:
    twister.skip_words(probabilities.size * words_of(working_dtype(probabilities.dtype)))


def _integers(
    twister: MersenneTwister,
    low: int | None,
    high: int | None,
    shape: Sequence[int],
    dtype: DTypeLike = np.int64,
) -> None:
    wide = integer_range(low, high, np.dtype(dtype)).wide
    twister.skip_words(math.prod(shape) * (2 if wide else 1))


def _permutation(twister: MersenneTwister, n: int, *_: Any, **__: Any) -> None:
    twister.skip_words(2 * n if n >= LARGE_PERMUTATION else max(n - 1, 0))


def _multinomial(
    twister: MersenneTwister, weights: NDArray[Any], num_samples: int, replacement: bool = False
) -> None:
    looked_up = replacement and num_samples > 1
    reals = weights.size // weights.shape[-1] * num_samples if looked_up else weights.size
    twister.skip_words(2 * reals)


def _reals(shape: Sequence[int], dtype: np.dtype[Any]) -> tuple[int, np.dtype[Any]]:
    """The number of reals in a draw of this shape and dtype, and their dtype."""
    if dtype.kind == "c":
        return 2 * math.prod(shape), real_part(dtype)
    return math.prod(shape), dtype


_SKIPS: dict[str, Callable[..., None]] = {
    "bernoulli": _float64_each,
    "bernoulli_probabilities": _bernoulli_probabilities,
    "cauchy": _float64_each,
    "exponential": _float64_each,
    "geometric": _float64_each,
    "integers": _integers,
    "log_normal": _log_normal,
    "multinomial": _multinomial,
    "normal": _normal,
    "permutation": _permutation,
    "uniform": _uniform,
}
