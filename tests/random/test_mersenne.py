"""The generator's words and state. Golden values were printed by PyTorch 2.13 on the CPU."""

import copy
import hashlib
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flambeau.random import draws
from flambeau.random.mersenne import DEFAULT_SEED, MersenneTwister

STATE_BYTES = 5056

# seed: the first pair of `torch.empty(3, dtype=torch.int64).random_(-2**63, None)` modulo 2**64.
FIRST_PAIRS = {42: [0x5FE1DC66CBEA3DB3, 0xF362035C2EF5950E, 0xBB63F46AC799D447]}

# seed: the SHA-256 of `torch.get_rng_state()` after `torch.manual_seed(seed); torch.randn(3)`.
STATE_AFTER_THREE_NORMALS = {
    0: "5f273c33f4160de64fac7c23955badc140a32e236e861b993e52685fd195d97d",
    42: "465eb69e777fa9219f5c7fe27ddd8c19305fee009fb9ff06a4c8ea775fec0b7d",
    -1: "8663d7cedf2349a09fae4e857869cfb4f38a9aea2f94e6be9dddfc7540369a84",
}


def used(seed=3, words=1000):
    """A generator in the middle of its key, with a normal waiting."""
    twister = MersenneTwister(seed)
    twister.skip_words(words)
    draws.normal(twister, (1,))
    return twister


@pytest.mark.parametrize(("seed", "pairs"), FIRST_PAIRS.items())
def test_pairs_are_pytorchs(seed, pairs):
    assert MersenneTwister(seed).random_uint64(3).tolist() == pairs


@pytest.mark.parametrize(("seed", "digest"), STATE_AFTER_THREE_NORMALS.items())
def test_state_has_pytorchs_bytes(seed, digest):
    twister = MersenneTwister(seed)
    draws.normal(twister, (3,))
    assert hashlib.sha256(twister.get_state()).hexdigest() == digest


def test_a_pair_is_two_words_the_first_one_above():
    words = MersenneTwister(5).random_uint32(6).astype(np.uint64)
    pairs = MersenneTwister(5).random_uint64(3)
    np.testing.assert_array_equal(pairs, words[0::2] << np.uint64(32) | words[1::2])


@pytest.mark.parametrize(
    ("seed", "initial"),
    [
        (0, 0),
        (2**64 - 1, 2**64 - 1),
        (-1, 2**64 - 1),
        (-(2**63), 2**63),
        (np.int32(-5), 2**64 - 5),
    ],
)
def test_a_seed_is_remembered_as_64_unsigned_bits(seed, initial):
    assert MersenneTwister(seed).initial_seed == initial


def test_only_the_low_half_of_a_seed_decides_the_words():
    one, other = MersenneTwister(7), MersenneTwister(7 + 2**40)
    np.testing.assert_array_equal(one.random_uint32(5), other.random_uint32(5))
    assert one.get_state() != other.get_state()


def test_an_unseeded_generator_has_pytorchs_default_seed():
    assert MersenneTwister().initial_seed == DEFAULT_SEED == 67280421310721


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_a_seed_beyond_64_bits_is_refused_and_changes_nothing(seed):
    twister = used()
    before = twister.get_state()
    with pytest.raises(ValueError, match=str(seed)):
        twister.seed(seed)
    assert twister.get_state() == before


def test_seeding_again_forgets_words_and_waiting_normal():
    twister = used()
    twister.seed(11)
    assert twister.get_state() == MersenneTwister(11).get_state()
    assert twister.next_normal is None


@given(
    seed=st.integers(-(2**63), 2**64 - 1),
    words=st.sampled_from([0, 1, 7, 623, 624, 625, 1248, 5000]),
    normals=st.integers(0, 3),
)
def test_a_state_set_elsewhere_continues_the_same_stream(seed, words, normals):
    twister = MersenneTwister(seed)
    twister.skip_words(words)
    draws.normal(twister, (normals,))
    other = MersenneTwister(0)
    other.set_state(twister.get_state())
    assert other.get_state() == twister.get_state()
    assert other.initial_seed == twister.initial_seed
    assert other.next_normal == twister.next_normal
    np.testing.assert_array_equal(other.random_uint32(700), twister.random_uint32(700))
    assert other.get_state() == twister.get_state()


def test_a_single_precision_normal_of_a_foreign_state_survives():
    state = bytearray(MersenneTwister(1).get_state())
    state[5048:5053] = np.float32(0.25).tobytes() + b"\x01"
    twister = MersenneTwister(2)
    twister.set_state(bytes(state))
    assert twister.get_state() == bytes(state)


@pytest.mark.parametrize(
    ("state", "facts"),
    [
        (b"", "5056 bytes"),
        (bytes(50), "has 50"),
        (bytes(STATE_BYTES), "seeded is False"),
        (MersenneTwister(1).get_state()[:8] + b"\x00" * 4 + b"\x01" + bytes(5043), "with 0 words"),
    ],
)
def test_bytes_that_are_no_state_are_refused_and_change_nothing(state, facts):
    twister = used()
    before = twister.get_state()
    with pytest.raises(RuntimeError, match=facts):
        twister.set_state(state)
    assert twister.get_state() == before


@pytest.mark.parametrize(
    "duplicate",
    [
        MersenneTwister.copy,
        copy.copy,
        copy.deepcopy,
        lambda twister: pickle.loads(pickle.dumps(twister)),
    ],
)
def test_a_copy_continues_alike_and_apart(duplicate):
    twister = used()
    twin = duplicate(twister)
    before = twin.get_state()
    assert before == twister.get_state()
    twister.random_uint32(10)
    assert twin.get_state() == before
    np.testing.assert_array_equal(twin.random_uint32(20)[10:], twister.random_uint32(10))


@pytest.mark.parametrize("count", [0, 1, 623, 624, 625, 3000])
def test_skipped_words_are_those_that_would_have_come(count):
    drawn, skipped = MersenneTwister(9), MersenneTwister(9)
    drawn.random_uint32(count)
    skipped.skip_words(count)
    assert drawn.get_state() == skipped.get_state()
    np.testing.assert_array_equal(drawn.random_uint32(3), skipped.random_uint32(3))


@pytest.mark.parametrize(("dtype", "digits"), [(np.float32, 24), (np.float64, 53)])
def test_standard_uniforms_are_the_low_bits_of_words(dtype, digits):
    dtype = np.dtype(dtype)
    reals = MersenneTwister(4).standard_uniform(1000, dtype)
    source = MersenneTwister(4)
    words = source.random_uint32(1000) if digits == 24 else source.random_uint64(1000)
    assert reals.dtype == dtype
    assert (reals * 2.0**digits).tolist() == [word % 2**digits for word in words.tolist()]
