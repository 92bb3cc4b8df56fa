"""Random arrays from keys: their bits, and that keys next to each other have nothing in common."""

import jax
import numpy as np
import pytest

from flambeau.random import keyed
from flambeau.random.generator import next_key

COUNT = 1 << 18


def key_of(number):
    return np.array([number >> 32, number % 2**32], np.uint32)


@pytest.fixture(scope="module")
def streams():
    """Long and short hashes of one key, of the next one, and the first ones of many keys."""
    longs = jax.jit(lambda key: keyed._hashes(key, COUNT // 2))
    shorts = jax.jit(lambda key: keyed._short_hashes(key, (COUNT,)))
    keys = np.stack([key_of(each) for each in range(2**32 - COUNT // 64, 2**32 + COUNT // 64)])
    found = {}
    for name, draw in {"long": longs, "short": shorts}.items():
        first, second = (np.asarray(draw(key_of(each))).view(np.uint32) for each in (6, 7))
        found[f"{name}, one key"] = first
        found[f"{name}, two keys"] = first ^ second
    first_ones = jax.jit(jax.vmap(lambda key: keyed._short_hashes(key, (32,))))
    found["short, many keys"] = np.asarray(first_ones(keys)).ravel()
    first_ones = jax.jit(jax.vmap(lambda key: keyed._hashes(key, 16)))
    found["long, many keys"] = np.asarray(first_ones(keys)).ravel().view(np.uint32)
    return found


KINDS = [
    f"{name}, {of}" for name in ("long", "short") for of in ("one key", "two keys", "many keys")
]


@pytest.mark.parametrize("kind", KINDS)
def test_bits_are_balanced_and_independent_of_each_other(streams, kind):
    numbers = streams[kind]
    bits = np.unpackbits(numbers.view(np.uint8)).reshape(len(numbers), 32).astype(np.float64) - 0.5
    # Standard deviations of a mean of signs, and of a mean of products of signs.
    assert abs(bits.mean(0)).max() * 2 * len(bits) ** 0.5 < 5
    together = bits.T @ bits / len(bits) * 4
    together[np.diag_indices(32)] = 0
    assert abs(together).max() * len(bits) ** 0.5 < 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lag", [1, 2, 31, 32, 1024])
def test_numbers_that_follow_each_other_are_independent(streams, kind, lag):
    numbers = streams[kind]
    # The upper four bits of two numbers, whose 256 pairs are equally frequent.
    pairs = (numbers[:-lag] >> 28) * 16 + (numbers[lag:] >> 28)
    counts = np.bincount(pairs, minlength=256)
    expected = len(pairs) / 256
    deviation = ((counts - expected) ** 2 / expected).sum() - 255
    assert abs(deviation) / (2 * 255) ** 0.5 < 5


@pytest.mark.parametrize("p", [0.0, 1e-3, 0.1, 0.5, 0.9, 1.0])
def test_the_probability_of_a_draw(p):
    draw = jax.jit(lambda key: keyed.bernoulli(key, (1 << 20,), np.dtype(bool), p))
    mean = np.asarray(draw(key_of(11))).mean()
    assert abs(mean - p) <= 5 * (p * (1 - p) / 2**20) ** 0.5


@pytest.mark.parametrize("number", [0, 2**32 - 1, 2**32, 2**64 - 1])
def test_keys_are_counted(number):
    words = np.asarray(jax.jit(next_key)(key_of(number)))
    assert (words == key_of((number + 1) % 2**64)).all()
    assert int(keyed.number_of(key_of(number))) == number


def test_programs_grow_in_proportion_to_their_draws():
    def draws(count):
        def run(key):
            found = []
            for _ in range(count):
                found.append(keyed.bernoulli(key, (8, 16), np.dtype(bool), 0.9))
                key = next_key(key)
            return found

        return len(jax.jit(run).lower(key_of(5)).compile().as_text())

    # A key that each draw computed from all keys before it would make the ratio 4.
    assert draws(64) / draws(32) < 2.5
