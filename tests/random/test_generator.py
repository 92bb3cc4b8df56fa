"""Generators: two streams, their seeds and states, inside compiled functions and out."""

import copy
import pickle
import threading

import numpy as np
import pytest

import flambeau
from flambeau.random.generator import Generator, next_key


def equal(left, right) -> bool:
    return bool((left == right).all())


@flambeau.compile
def draw(like):
    return flambeau.rand_like(like)


@pytest.fixture
def like():
    return flambeau.zeros(4)


class TestCompiledDraws:
    def test_each_call_draws_other_numbers(self, like):
        flambeau.manual_seed(0)
        assert not equal(draw(like), draw(like))

    def test_numbers_repeat_under_a_seed(self, like):
        flambeau.manual_seed(5)
        first = draw(like), draw(like)
        flambeau.manual_seed(5)
        again = draw(like), draw(like)
        assert equal(first[0], again[0])
        assert equal(first[1], again[1])

    def test_neighbouring_seeds_draw_other_numbers(self, like):
        flambeau.manual_seed(1)
        draw(like)
        second = draw(like)
        flambeau.manual_seed(2)
        assert not equal(draw(like), second)

    def test_draws_of_one_program_differ(self, like):
        both = flambeau.compile(lambda x: (flambeau.rand_like(x), flambeau.rand_like(x)))
        assert not equal(*both(like))

    def test_the_cpu_stream_does_not_move(self, like):
        flambeau.manual_seed(3)
        expected = flambeau.rand(2)
        flambeau.manual_seed(3)
        draw(like)
        assert equal(flambeau.rand(2), expected)

    def test_a_generator_of_its_own_serves_the_draw(self):
        generator = Generator().manual_seed(1)
        program = flambeau.compile(lambda: flambeau.rand(4, generator=generator))
        first, second = program(), program()
        assert not equal(first, second)
        generator.manual_seed(1)
        assert equal(program(), first)

    def test_seeding_inside_repeats_at_each_call(self, like):
        @flambeau.compile
        def seeded(x):
            flambeau.manual_seed(7)
            return flambeau.rand_like(x)

        assert equal(seeded(like), seeded(like))

    def test_a_generator_made_inside_starts_anew_at_each_call(self):
        program = flambeau.compile(lambda: flambeau.rand(4, generator=Generator()))
        assert equal(program(), program())

    def test_fork_rng_inside_puts_the_key_back(self, like):
        @flambeau.compile
        def forked(x):
            with flambeau.random.fork_rng():
                inner = flambeau.rand_like(x)
            return inner, flambeau.rand_like(x)

        assert equal(*forked(like))

    def test_state_inside_is_taken_and_put_back(self, like):
        @flambeau.compile
        def replayed(x):
            state = flambeau.get_rng_state()
            first = flambeau.rand_like(x)
            flambeau.set_rng_state(state)
            return first, flambeau.rand_like(x)

        first, second = replayed(like)
        assert equal(first, second)
        assert not equal(replayed(like)[0], first)

    def test_a_state_from_outside_is_refused_inside(self, like):
        state = flambeau.get_rng_state()

        @flambeau.compile(fullgraph=True)
        def continued(x):
            flambeau.set_rng_state(state)
            return x

        with pytest.raises(RuntimeError, match="8 bytes; this one has 5056"):
            continued(like)


class TestState:
    def test_it_covers_compiled_draws(self, like):
        flambeau.manual_seed(2)
        draw(like)
        state = flambeau.get_rng_state()
        first = draw(like), flambeau.rand(2)
        flambeau.set_rng_state(state)
        assert equal(draw(like), first[0])
        assert equal(flambeau.rand(2), first[1])

    def test_fork_rng_covers_compiled_draws(self, like):
        with flambeau.random.fork_rng():
            first = draw(like)
        assert equal(draw(like), first)

    def test_fork_rng_can_be_switched_off(self):
        flambeau.manual_seed(0)
        expected = flambeau.rand(2), flambeau.rand(2)
        flambeau.manual_seed(0)
        with flambeau.random.fork_rng(enabled=False):
            flambeau.rand(2)
        assert equal(flambeau.rand(2), expected[1])

    def test_fork_rng_restores_after_an_error(self):
        flambeau.manual_seed(0)
        with pytest.raises(KeyError), flambeau.random.fork_rng():
            flambeau.rand(2)
            raise KeyError
        assert flambeau.rand(1).item() == pytest.approx(0.49625659)

    @pytest.mark.parametrize("copied", [copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g)),
                                        Generator.clone_state])  # fmt: skip
    def test_a_copy_continues_alike_and_alone(self, copied):
        generator = Generator().manual_seed(3)
        flambeau.rand(3, generator=generator)
        generator.take_key()
        twin = copied(generator)
        assert twin.initial_seed() == 3
        assert equal(flambeau.rand(2, generator=twin), flambeau.rand(2, generator=generator))
        np.testing.assert_array_equal(twin.key, generator.key)
        flambeau.rand(2, generator=twin)
        assert not equal(flambeau.rand(2, generator=twin), flambeau.rand(2, generator=generator))

    def test_a_wrong_length_is_refused(self):
        with pytest.raises(RuntimeError, match="has 3"):
            flambeau.set_rng_state(flambeau.zeros(3, dtype=flambeau.uint8))

    @pytest.mark.parametrize("state", [b"", None, [1, 2]])
    def test_a_state_is_a_tensor(self, state):
        with pytest.raises(TypeError, match="a Tensor of uint8"):
            Generator().set_state(state)

    def test_a_state_is_of_bytes(self):
        with pytest.raises(TypeError, match="float32"):
            Generator().set_state(flambeau.zeros(5056))


class TestSeeds:
    def test_a_random_seed_is_returned_and_kept(self):
        generator = Generator()
        seeds = {generator.seed() for _ in range(3)}
        assert len(seeds) == 3
        assert generator.initial_seed() in seeds

    def test_seed_restarts_all(self):
        chosen = flambeau.seed()
        first = flambeau.rand(2)
        assert flambeau.initial_seed() == chosen
        flambeau.manual_seed(chosen)
        assert equal(flambeau.rand(2), first)

    def test_manual_seed_takes_what_has_an_integer_value(self):
        flambeau.manual_seed(flambeau.tensor(3))
        assert flambeau.initial_seed() == 3

    def test_manual_seed_returns_the_default_generator(self):
        assert flambeau.manual_seed(0) is flambeau.default_generator

    def test_it_prints_its_device_and_seed(self):
        generator = Generator().manual_seed(3)
        assert repr(generator) == "<flambeau.Generator device=cpu seed=3>"

    def test_the_low_word_of_a_key_carries_into_the_high(self):
        following = next_key(np.array([1, 2**32 - 1], np.uint32))
        np.testing.assert_array_equal(following, np.array([2, 0], np.uint32))


class TestErrors:
    def test_meta_has_no_generator(self):
        with pytest.raises(RuntimeError, match="meta"):
            Generator("meta")

    def test_an_absent_device_is_named(self):
        with pytest.raises(RuntimeError, match=r"xpu.* is not available"):
            Generator("xpu")

    def test_a_generator_is_no_seed(self):
        with pytest.raises(TypeError, match="int"):
            flambeau.rand(2, generator=5)


def test_threads_take_turns_with_a_generator():
    generator = Generator().manual_seed(0)
    drawn = []

    def work():
        drawn.extend(flambeau.randn(20, generator=generator).tolist() for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    generator.manual_seed(0)
    alone = [flambeau.randn(20, generator=generator).tolist() for _ in range(200)]
    assert sorted(drawn) == sorted(alone)
