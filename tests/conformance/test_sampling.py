"""Random tensors, generators and their states, against PyTorch's after the same seed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import flambeau
from tests.conformance.expression import check, compare, observe

# Last bits of logarithms and cosines differ between libraries.
CLOSE = 1e-6

NEW = {
    "rand": lambda lib: lib.rand(3, 5),
    "rand of a tuple": lambda lib: lib.rand((2, 3)),
    "rand by name": lambda lib: lib.rand(size=(2, 3)),
    "rand scalar": lambda lib: lib.rand(()),
    "rand of no elements": lambda lib: lib.rand(2, 0),
    "rand requires grad": lambda lib: lib.rand(3, requires_grad=True),
    "rand out": lambda lib: lib.rand(3, out=lib.empty(3)),
    "rand complex": lambda lib: lib.rand(5, dtype=lib.complex64),
    "rand of integers": lambda lib: lib.rand(3, dtype=lib.int64),
    "rand of nothing": lambda lib: lib.rand(),
    "randn": lambda lib: lib.randn(3, 5),
    "randn of 16": lambda lib: lib.randn(4, 4),
    "randn of 37": lambda lib: lib.randn(37),
    "randn complex": lambda lib: lib.randn(9, dtype=lib.complex128),
    "randn of integers": lambda lib: lib.randn(3, dtype=lib.int64),
    "randint": lambda lib: lib.randint(10, (7,)),
    "randint of a range": lambda lib: lib.randint(-5, 5, (7,)),
    "randint by name": lambda lib: lib.randint(low=2, high=8, size=(3, 3)),
    "randint wide": lambda lib: lib.randint(0, 2**40, (5,)),
    "randint of int32": lambda lib: lib.randint(100, (5,), dtype=lib.int32),
    "randint of floats": lambda lib: lib.randint(100, (5,), dtype=lib.float32),
    "randint of nothing": lambda lib: lib.randint(5, 5, (3,)),
    "randint too large": lambda lib: lib.randint(0, 300, (3,), dtype=lib.uint8),
    "randint without size": lambda lib: lib.randint(5),
    "randint of a float": lambda lib: lib.randint(5.5, (3,)),
    "randperm": lambda lib: lib.randperm(20),
    "randperm of int32": lambda lib: lib.randperm(20, dtype=lib.int32),
    "randperm of none": lambda lib: lib.randperm(0),
    "randperm negative": lambda lib: lib.randperm(-1),
    "randperm of bool": lambda lib: lib.randperm(3, dtype=lib.bool),
    "rand_like": lambda lib: lib.rand_like(lib.ones(3, dtype=lib.float64)),
    "randn_like": lambda lib: lib.randn_like(lib.ones(2, 3, requires_grad=True)),
    "randn_like of dtype": lambda lib: lib.randn_like(lib.ones(3), dtype=lib.float64),
    "randint_like": lambda lib: lib.randint_like(lib.ones(5), 10),
    "randint_like of a range": lambda lib: lib.randint_like(lib.ones(5, dtype=lib.int16), -4, 10),
    "rand_like of integers": lambda lib: lib.rand_like(lib.ones(3, dtype=lib.int64)),
    "normal of a size": lambda lib: lib.normal(2.0, 3.0, (5,)),
    "normal of means": lambda lib: lib.normal(lib.arange(20.0), 0.5),
    "normal of deviations": lambda lib: lib.normal(1.0, lib.arange(1.0, 6.0)),
    "normal of both": lambda lib: lib.normal(lib.arange(4.0), lib.ones(3, 1)),
    "normal of numbers": lambda lib: lib.normal(0.0, 1.0),
    "normal of negative deviation": lambda lib: lib.normal(0.0, -1.0, (3,)),
    "normal of negative deviations": lambda lib: lib.normal(0.0, lib.tensor([1.0, -1.0])),
    "bernoulli": lambda lib: lib.bernoulli(lib.linspace(0, 1, 11)),
    "bernoulli of float64": lambda lib: lib.bernoulli(lib.full((9,), 0.5, dtype=lib.float64)),
    "bernoulli method": lambda lib: lib.full((9,), 0.5).bernoulli(),
    "bernoulli of p": lambda lib: lib.zeros(9, dtype=lib.int64).bernoulli(0.5),
    "bernoulli of too much": lambda lib: lib.bernoulli(lib.full((2,), 1.5)),
    "bernoulli of integers": lambda lib: lib.bernoulli(lib.ones(2, dtype=lib.int64)),
    "multinomial": lambda lib: lib.multinomial(lib.tensor([1.0, 2.0, 3.0, 0.0]), 2),
    "multinomial of rows": lambda lib: lib.multinomial(lib.arange(12.0).reshape(3, 4), 2),
    "multinomial of one": lambda lib: lib.multinomial(lib.arange(12.0).reshape(3, 4), 1),
    "multinomial replacing": lambda lib: lib.multinomial(lib.tensor([1.0, 2.0]), 9, True),
    "multinomial of too many": lambda lib: lib.multinomial(lib.tensor([1.0, 2.0]), 3),
    "multinomial of a scalar": lambda lib: lib.multinomial(lib.tensor(1.0), 1),
    "multinomial of none": lambda lib: lib.multinomial(lib.tensor([1.0, 2.0]), 0),
    "multinomial of negative": lambda lib: lib.multinomial(lib.tensor([1.0, -2.0]), 1),
    "poisson": lambda lib: lib.poisson(lib.tensor([0.0, 0.5, 3.0, 9.9, 10.0, 1e3, 1e6] * 9)),
    "poisson of float64": lambda lib: lib.poisson(lib.full((20,), 30.0, dtype=lib.float64)),
    "poisson of negative": lambda lib: lib.poisson(lib.tensor([-1.0])),
    "poisson of integers": lambda lib: lib.poisson(lib.ones(2, dtype=lib.int64)),
}

IN_PLACE = {
    "uniform_": lambda lib: lib.empty(7).uniform_(),
    "uniform_ of bounds": lambda lib: lib.empty(7).uniform_(-1, 3),
    "uniform_ by name": lambda lib: lib.empty(7).uniform_(to=0.5, **{"from": 0.25}),
    "uniform_ backwards": lambda lib: lib.empty(7).uniform_(1, 0),
    "uniform_ of a leaf": lambda lib: lib.ones(7, requires_grad=True).uniform_(),
    "uniform_ of integers": lambda lib: lib.ones(7, dtype=lib.int64).uniform_(),
    "uniform_ of three": lambda lib: lib.ones(7).uniform_(1, 2, 3),
    "uniform_ of a view": lambda lib: _changed(lib.zeros(3, 4), lambda x: x[1:, ::2].uniform_()),
    "normal_": lambda lib: lib.empty(40).normal_(1.0, 2.0),
    "normal_ by name": lambda lib: lib.empty(5).normal_(mean=1.0, std=0.5),
    "normal_ of negative deviation": lambda lib: lib.empty(7).normal_(0, -1),
    "bernoulli_": lambda lib: lib.empty(20).bernoulli_(),
    "bernoulli_ of p": lambda lib: lib.empty(20, dtype=lib.bool).bernoulli_(0.3),
    "bernoulli_ of a tensor": lambda lib: lib.empty(4, 3).bernoulli_(lib.tensor([0.1, 0.5, 0.9])),
    "bernoulli_ of too much": lambda lib: lib.empty(3).bernoulli_(1.5),
    "exponential_": lambda lib: lib.empty(20).exponential_(1.5),
    "exponential_ of none": lambda lib: lib.empty(20).exponential_(0),
    "geometric_": lambda lib: lib.empty(20).geometric_(0.3),
    "geometric_ of one": lambda lib: lib.empty(20).geometric_(1.0),
    "cauchy_": lambda lib: lib.empty(20).cauchy_(1.0, 0.5),
    "log_normal_": lambda lib: lib.empty(20).log_normal_(0.5, 0.25),
    "random_": lambda lib: lib.empty(9, dtype=lib.int64).random_(),
    "random_ of floats": lambda lib: lib.empty(9).random_(),
    "random_ below": lambda lib: lib.empty(9).random_(10),
    "random_ of a range": lambda lib: lib.empty(9, dtype=lib.int32).random_(-3, 3),
    "random_ of an empty range": lambda lib: lib.empty(9).random_(3, 3),
    "random_ of bytes": lambda lib: lib.empty(9, dtype=lib.uint8).random_(),
}

GRADIENTS = {
    "uniform_": lambda lib: _gradient(lib, lambda y: y.uniform_()),
    "normal_ of a part": lambda lib: _gradient(
        lib, lambda y: _changed(y, lambda y: y[1:].normal_())
    ),
    "bernoulli": lambda lib: _gradient(lib, lambda y: y.sigmoid().bernoulli()),
    "normal": lambda lib: _gradient(lib, lambda y: lib.normal(y, 1.0)),
    "poisson": lambda lib: _gradient(lib, lambda y: lib.poisson(y)),
}

ON_META = {
    "rand": lambda lib: lib.rand(2, 3, device="meta"),
    "randn": lambda lib: lib.randn(2, 3, device="meta"),
    "randint": lambda lib: lib.randint(3, (2, 3), device="meta"),
    "randperm": lambda lib: lib.randperm(3, device="meta"),
    "normal": lambda lib: lib.normal(0.0, 1.0, (3,), device="meta"),
    "uniform_": lambda lib: lib.empty(3, device="meta").uniform_(),
    "normal_ of negative deviation": lambda lib: lib.empty(3, device="meta").normal_(0, -1),
    "randint of nothing": lambda lib: lib.randint(5, 5, (3,), device="meta"),
    "bernoulli": lambda lib: lib.bernoulli(lib.empty(3, device="meta")),
    "bernoulli_": lambda lib: lib.empty(3, device="meta").bernoulli_(0.5),
    "multinomial": lambda lib: lib.multinomial(lib.empty(2, 3, device="meta"), 2),
    "exponential_": lambda lib: lib.empty(3, device="meta").exponential_(),
    "random_": lambda lib: lib.empty(3, device="meta").random_(5),
}


def _changed(tensor: Any, change: Callable[[Any], Any]) -> Any:
    change(tensor)
    return tensor


def _gradient(lib: Any, draw: Callable[[Any], Any]) -> Any:
    leaf = lib.arange(1.0, 2.5, 0.5, requires_grad=True)
    result = draw(leaf * 2)
    result.sum().backward()
    return result, leaf.grad


def _seeded(compute: Callable[[Any], Any], seed: int = 0) -> Callable[[Any], Any]:
    """``compute`` after a seed, followed by the state that it leaves."""

    def run(lib: Any) -> Any:
        lib.manual_seed(seed)
        result = compute(lib)
        results = result if isinstance(result, tuple) else (result,)
        return (*results, lib.get_rng_state())

    return run


TABLES = {"new": NEW, "in place": IN_PLACE, "gradients": GRADIENTS, "on meta": ON_META}
CASES = {f"{table}: {name}": case for table, rows in TABLES.items() for name, case in rows.items()}


@pytest.mark.parametrize("name", CASES)
def test_draw_and_state_are_pytorchs(name: str) -> None:
    check(_seeded(CASES[name]), CLOSE)


@pytest.mark.parametrize("name", CASES)
def test_failure_leaves_the_state(name: str) -> None:
    flambeau.manual_seed(0)
    before = flambeau.get_rng_state().numpy()
    if observe(CASES[name], flambeau).raised is not None:
        np.testing.assert_array_equal(flambeau.get_rng_state().numpy(), before)


DRAWS: dict[str, Callable[[Any, Any, int], Any]] = {
    "rand": lambda lib, dtype, n: lib.rand(n, dtype=dtype),
    "randn": lambda lib, dtype, n: lib.randn(n, dtype=dtype),
    "randint": lambda lib, dtype, n: lib.randint(7, (n,)),
    "randperm": lambda lib, dtype, n: lib.randperm(n),
    "uniform_": lambda lib, dtype, n: lib.empty(n, dtype=dtype).uniform_(-2, 5),
    "normal_": lambda lib, dtype, n: lib.empty(n, dtype=dtype).normal_(0.5, 2),
    "bernoulli_": lambda lib, dtype, n: lib.empty(n, dtype=dtype).bernoulli_(0.25),
}


@given(
    st.integers(-(2**63), 2**64 - 1),
    st.lists(
        st.tuples(
            st.sampled_from(sorted(DRAWS)),
            st.sampled_from(["float32", "float64"]),
            st.sampled_from([0, 1, 5, 15, 16, 17, 40]),
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_sequences_of_draws_are_pytorchs(seed: int, steps: list[tuple[str, str, int]]) -> None:
    def run(lib: Any) -> Any:
        draws = [DRAWS[draw](lib, getattr(lib, dtype), size) for draw, dtype, size in steps]
        return tuple(draws)

    check(_seeded(run, seed), CLOSE)


@pytest.mark.parametrize("p", [0.0, 0.25, 0.5, 1.0])
def test_keep_mask_is_what_pytorchs_dropout_keeps(p: float) -> None:
    torch.manual_seed(3)
    kept = torch.nn.functional.dropout(torch.ones(50), p) != 0
    flambeau.manual_seed(3)
    mask = flambeau.ops.draws.sampling.keep_mask((50,), p)
    assert mask.dtype is flambeau.bool
    np.testing.assert_array_equal(mask.numpy(), kept.numpy())


class TestGenerators:
    """A generator of one's own, its state and its copies."""

    def test_generator_gives_pytorchs_numbers(self) -> None:
        def run(lib: Any) -> Any:
            generator = lib.Generator().manual_seed(7)
            draws = (
                lib.rand(3, generator=generator),
                lib.randn(20, generator=generator),
                lib.randperm(5, generator=generator),
                lib.randint(9, (4,), generator=generator),
                lib.bernoulli(lib.full((6,), 0.5), generator=generator),
                lib.multinomial(lib.ones(6), 3, generator=generator),
                lib.poisson(lib.full((6,), 3.0), generator),
                lib.empty(5).exponential_(generator=generator),
            )
            return (*draws, generator.get_state(), generator.initial_seed())

        check(run, CLOSE)

    def test_default_generator_is_not_touched(self) -> None:
        def run(lib: Any) -> Any:
            lib.manual_seed(1)
            lib.rand(3, generator=lib.Generator())
            return lib.get_rng_state(), lib.initial_seed()

        check(run)

    def test_unseeded_generator_has_pytorchs_seed(self) -> None:
        check(lambda lib: (lib.Generator().initial_seed(), lib.rand(3, generator=lib.Generator())))

    def test_state_is_taken_and_put_back(self) -> None:
        def run(lib: Any) -> Any:
            lib.manual_seed(4)
            lib.randn(3)
            state = lib.get_rng_state()
            first = lib.randn(5)
            lib.set_rng_state(state)
            return first, lib.randn(5)

        check(run, CLOSE)

    def test_fork_rng_puts_the_state_back(self) -> None:
        def run(lib: Any) -> Any:
            lib.manual_seed(4)
            with lib.random.fork_rng():
                lib.manual_seed(5)
                inner = lib.rand(2)
            return inner, lib.rand(2)

        check(run)

    def test_negative_seed_is_pytorchs(self) -> None:
        check(lambda lib: (lib.manual_seed(-3).initial_seed(), lib.rand(3)))

    @pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
    def test_seed_beyond_64_bits_is_refused(self, seed: int) -> None:
        with pytest.raises((ValueError, RuntimeError)):
            torch.manual_seed(seed)
        with pytest.raises(ValueError, match=str(seed)):
            flambeau.manual_seed(seed)

    def test_pytorch_continues_from_a_state_of_ours(self) -> None:
        flambeau.manual_seed(9)
        flambeau.randn(5)
        torch.set_rng_state(torch.from_numpy(flambeau.get_rng_state().numpy().copy()))
        compare(
            observe(lambda lib: lib.rand(20), flambeau).values[0],
            observe(lambda lib: lib.rand(20), torch).values[0],
        )

    def test_pytorch_takes_a_state_that_compiled_draws_have_moved(self) -> None:
        generator = flambeau.Generator().manual_seed(9)
        generator.take_key()
        state = torch.from_numpy(generator.get_state().numpy().copy())
        theirs = torch.Generator()
        theirs.set_state(state)
        np.testing.assert_array_equal(
            torch.rand(4, generator=theirs).numpy(),
            flambeau.rand(4, generator=generator).numpy(),
        )


VIEWS = {
    "transposed": lambda x: x.transpose(0, 1),
    "permuted": lambda x: x.permute(2, 0, 1),
    "sliced": lambda x: x[:, ::2],
    "expanded": lambda x: x[0, 0].expand(5, 4),
}


@pytest.mark.parametrize("name", VIEWS)
def test_dropout_of_a_view_draws_in_the_order_of_memory(name: str) -> None:
    for kind in ("dropout", "alpha_dropout"):
        check(
            lambda lib, kind=kind: getattr(lib.nn.functional, kind)(
                VIEWS[name](seeded(lib).ones(2, 3, 4)), 0.4, training=True
            ),
            CLOSE,
        )


def seeded(lib: Any) -> Any:
    lib.manual_seed(1)
    return lib
