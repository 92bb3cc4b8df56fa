"""PyTorch's CPU generator: MT19937 words, in the order in which PyTorch uses them."""

from __future__ import annotations

import copy
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The seed of a generator without `manual_seed`, as in PyTorch.
DEFAULT_SEED = 67280421310721

_KEY_WORDS = 624

_NO_WORDS = np.empty(0, np.uint32)
_LOW_24_BITS = np.array(2**24 - 1, np.uint32)
_HALF_OF_24_BITS = np.array(2**23, np.float32)
_HALF_OF_53_BITS = np.array(2**52, np.float64)

# The bytes of `torch.get_rng_state()`. PyTorch nests a record of 5048 bytes in one of 5056, so C
# pads after `normal_is_valid` and at the end. `normal_x` and `normal_rho` are always zero.
_STATE = np.dtype(
    [
        ("seed", "<u8"),
        ("left", "<i4"),
        ("seeded", "<i4"),
        ("next", "<u8"),
        ("key", "<u8", (_KEY_WORDS,)),
        ("normal_x", "<f8"),
        ("normal_y", "<f8"),
        ("normal_rho", "<f8"),
        ("normal_is_valid", "<i4"),
        ("padding", "<i4"),
        ("float_normal", "<f4"),
        ("float_normal_is_valid", "?"),
        ("final_padding", "u1", (3,)),
    ]
)


class MersenneTwister:
    """The random words and the state of PyTorch's CPU generator.

    After `MersenneTwister(s)` the words are those that PyTorch draws after `torch.manual_seed(s)`.
    `flambeau.random.draws` turns words into uniforms, normals, integers and permutations.

    The words are NumPy's. A call costs more than a few words, so small draws are served from a
    prefetched remainder of the current key.

    Example:
        >>> from flambeau.random.mersenne import MersenneTwister
        >>> MersenneTwister(0).random_uint32(3)
        array([2357136044, 2546248239, 3071714933], dtype=uint32)

    Args:
        seed: See `seed`.

    Attributes:
        next_normal: The cached second normal of the last pair, for the next draw of single normals;
            None when there is none.
    """

    __slots__ = (
        "_ahead", "_bits", "_centred", "_float_normal", "_initial_seed", "_left", "_taken",
        "_untouched", "_words", "next_normal",
    )  # fmt: skip

    def __init__(self, seed: int = DEFAULT_SEED) -> None:
        self._bits = np.random.MT19937()
        # NumPy guarantees the stream of the legacy interface only.
        self._words = np.random.RandomState(self._bits)
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Set the seed.

        Args:
            seed: From -2**63 to 2**64 - 1. A negative seed means `seed + 2**64`. As in PyTorch,
                only the lowest 32 bits affect the numbers; `initial_seed` returns all of them.

        Raises:
            ValueError: The seed does not fit in 64 bits.
        """
        seed = operator.index(seed)
        if not -(2**63) <= seed < 2**64:
            raise ValueError(f"a seed lies between -2**63 and 2**64 - 1; got {seed}")
        self._initial_seed = seed % 2**64
        self._words.seed(self._initial_seed % 2**32)
        self._forget_ahead(left=0)
        self.next_normal: float | None = None
        # No single-precision pairs are drawn here; the slot preserves a restored state.
        self._float_normal: float | None = None
        self._untouched = True

    @property
    def initial_seed(self) -> int:
        """The most recent seed, between 0 and 2**64 - 1."""
        return self._initial_seed

    def random_uint32(self, count: int) -> NDArray[np.uint32]:
        """The next `count` words."""
        self._untouched &= count == 0
        words = self._ahead[self._taken : self._taken + count]
        self._taken += len(words)
        count -= len(words)
        if not count:
            return words.copy()
        if count <= _KEY_WORDS:
            self._look_ahead()
            more = self.random_uint32(count)
        else:
            more = self._words.randint(0, 2**32, count, dtype=np.uint32)
            self._forget_ahead(self._left - count)
        return np.concatenate((words, more)) if len(words) else more

    def _look_ahead(self) -> None:
        """Prefetch the rest of the current key, or the next one."""
        self._ahead = self._bits.random_raw(self._left or _KEY_WORDS).astype(np.uint32)
        self._taken, self._left, self._centred = 0, 0, None

    def _forget_ahead(self, left: int) -> None:
        """Drop the prefetched words, and reposition NumPy's key at ``left`` remaining words."""
        self._ahead, self._taken, self._left, self._centred = _NO_WORDS, 0, left % _KEY_WORDS, None

    def random_uint64(self, count: int) -> NDArray[np.uint64]:
        """The next `count` pairs of words, the first of each pair in the upper half."""
        if 2 * count > _KEY_WORDS and self._taken == len(self._ahead):
            self._untouched = False
            self._forget_ahead(self._left - 2 * count)
            return self._words.randint(0, 2**64, count, dtype=np.uint64)
        first, second = self.random_uint32(2 * count).reshape(count, 2).T.astype(np.uint64)
        return first << np.uint64(32) | second

    def standard_uniform(self, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The next `count` reals of [0, 1), converted from words like PyTorch's.

        Args:
            count: The number of reals.
            dtype: float32, for the low 24 bits of one word each, or float64, for the low 53 bits of
                a pair.
        """
        if dtype.itemsize == 8:
            pairs = self.random_uint64(count)
            pairs &= np.uint64(2**53 - 1)
            # As signed integers, which processors convert several times faster.
            values = pairs.view(np.int64).astype(np.float64)
            values *= 2.0**-53
            return values
        words = self.random_uint32(count)
        words &= np.uint32(2**24 - 1)
        values = words.view(np.int32).astype(np.float32)
        values *= np.float32(2.0**-24)
        return values

    def symmetric_uniform(self, count: int, spacing: NDArray[Any]) -> NDArray[Any]:
        """The next `count` reals of [-a, a): `standard_uniform` times 2a minus a, rounded once.

        The factors are integers that the dtype represents exactly, so there is only one rounding,
        without `flambeau.random.draws.arithmetic.multiply_add`.

        Args:
            count: The number of reals.
            spacing: a * 2**-23 as a float32, or a * 2**-52 as a float64; not subnormal. A
                0-dimensional array, which NumPy multiplies faster than its scalars.
        """
        if spacing.itemsize == 8:
            pairs = self.random_uint64(count)
            pairs &= np.uint64(2**53 - 1)
            values = pairs.view(np.int64).astype(np.float64)
            values -= _HALF_OF_53_BITS
            values *= spacing
            return values
        start, stop = self._taken, self._taken + count
        if stop <= len(self._ahead):
            if self._centred is None:
                self._centred = _centred(self._ahead)
            self._untouched &= count == 0
            self._taken = stop
            return self._centred[start:stop] * spacing
        values = _centred(self.random_uint32(count))
        values *= spacing
        return values

    def skip_words(self, count: int) -> None:
        """Skip the next `count` 32-bit words, in constant memory.

        2**30 words take about three seconds.
        """
        self._untouched &= count == 0
        ahead = min(count, len(self._ahead) - self._taken)
        self._taken += ahead
        if count > ahead:
            self._bits.random_raw(count - ahead, output=False)
            self._forget_ahead(self._left - (count - ahead))

    def get_state(self) -> bytes:
        """The 5056 bytes of `torch.get_rng_state()` for the same history of draws."""
        state: Any = self._bits.state["state"]
        position = state["pos"] - (len(self._ahead) - self._taken)
        record = np.zeros((), _STATE)
        record["seed"] = self._initial_seed
        record["seeded"] = 1
        record["key"] = state["key"]
        # PyTorch refills the key lazily and counts down to it; a new key has not been counted.
        record["left"] = max(_KEY_WORDS + 1 - position, 1)
        record["next"] = 0 if self._untouched else position
        if self.next_normal is not None:
            record["normal_is_valid"] = 1
            record["normal_y"] = self.next_normal
        if self._float_normal is not None:
            record["float_normal_is_valid"] = True
            record["float_normal"] = self._float_normal
        return record.tobytes()

    def set_state(self, state: bytes) -> None:
        """Restore a state from `get_state`, or from `torch.get_rng_state()` as bytes.

        Raises:
            RuntimeError: The bytes are not such a state; the generator is unchanged.
        """
        if len(state) != _STATE.itemsize:
            raise RuntimeError(
                f"a generator state has {_STATE.itemsize} bytes, but this one has {len(state)}; "
                "pass what get_state() or torch.get_rng_state() returned"
            )
        record = np.frombuffer(state, _STATE)[0]
        left, following = int(record["left"]), int(record["next"])
        exhausted = left == 1 and following in (0, _KEY_WORDS)
        within = 1 < left <= _KEY_WORDS and left + following == _KEY_WORDS + 1
        if not record["seeded"] or not (exhausted or within):
            raise RuntimeError(
                "not a valid MT19937 state: seeded is "
                f"{bool(record['seeded'])}, with {left} words left and the next at {following}; "
                "pass what get_state() or torch.get_rng_state() returned"
            )
        position = _KEY_WORDS if exhausted else following
        self._bits.state = {
            "bit_generator": "MT19937",
            "state": {"key": record["key"].astype(np.uint32), "pos": position},
        }
        self._forget_ahead(left=_KEY_WORDS - position)
        self._initial_seed = int(record["seed"])
        self.next_normal = float(record["normal_y"]) if record["normal_is_valid"] else None
        float_is_valid = record["float_normal_is_valid"]
        self._float_normal = float(record["float_normal"]) if float_is_valid else None
        self._untouched = exhausted and following == 0

    def copy(self) -> MersenneTwister:
        """An independent generator in the same state."""
        return copy.copy(self)

    def __reduce__(self) -> tuple[type[MersenneTwister], tuple[int], bytes]:
        return MersenneTwister, (self._initial_seed,), self.get_state()

    def __setstate__(self, state: bytes) -> None:
        self.set_state(state)


def _centred(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    """The low 24 bits of each word, minus the midpoint of their range."""
    values = (words & _LOW_24_BITS).view(np.int32).astype(np.float32)
    values -= _HALF_OF_24_BITS
    return values
