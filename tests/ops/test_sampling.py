"""Draws by keys, as compiled functions and other devices make them; masks; errors."""

import math

import numpy as np
import pytest

import flambeau
from flambeau.ops.draws.sampling import keep_mask
from flambeau.random import sample

SIZE = 4000

# The mean and standard deviation of each distribution, and a bound that no draw passes.
DISTRIBUTIONS = {
    "uniform": (lambda x: x.uniform_(-1, 3), 1.0, 4 / math.sqrt(12), (-1, 3)),
    "normal": (lambda x: x.normal_(2.0, 0.5), 2.0, 0.5, (-2, 6)),
    "log_normal": (
        lambda x: x.log_normal_(0.0, 0.25), math.exp(1 / 32),
        math.sqrt(math.expm1(1 / 16) * math.exp(1 / 16)), (0, 6),
    ),
    "exponential": (lambda x: x.exponential_(2.0), 0.5, 0.5, (0, math.inf)),
    "geometric": (lambda x: x.geometric_(0.25), 4.0, math.sqrt(12.0), (1, math.inf)),
    "bernoulli": (lambda x: x.bernoulli_(0.25), 0.25, math.sqrt(3 / 16), (0, 1)),
    "bernoulli of a tensor": (
        lambda x: x.bernoulli_(flambeau.tensor(0.25)), 0.25, math.sqrt(3 / 16), (0, 1)
    ),
    "integers": (lambda x: x.random_(-4, 5), 0.0, math.sqrt(80 / 12), (-4, 4)),
    "wide integers": (lambda x: x.random_(0, 2**33), 2.0**32, 2**33 / math.sqrt(12), (0, 2**33)),
    "poisson": (lambda x: flambeau.poisson(x.fill_(4.0)), 4.0, 2.0, (0, math.inf)),
    "permutation": (
        lambda x: flambeau.randperm(SIZE, dtype=flambeau.float32), (SIZE - 1) / 2,
        SIZE / math.sqrt(12), (0, SIZE - 1),
    ),
    "truncated normal": (lambda x: flambeau.nn.init.trunc_normal_(x), 0.0, 0.8796, (-2, 2)),
}  # fmt: skip


def check_moments(drawn: flambeau.Tensor, name: str) -> None:
    _, mean, deviation, (low, high) = DISTRIBUTIONS[name]
    values = drawn.double().numpy()
    assert values.shape == (SIZE,)
    assert values.min() >= low
    assert values.max() <= high
    # Five standard errors of the mean; the deviation of the widest tails here stays within 15 %.
    assert abs(values.mean() - mean) < 5 * deviation / math.sqrt(SIZE)
    assert abs(values.std() - deviation) < 0.15 * deviation


@pytest.fixture
def as_elsewhere(monkeypatch):
    """Let eager draws take the path of devices other than the CPU."""
    monkeypatch.setattr(sample, "_uses_twister", lambda source: False)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_compiled_draws_have_the_distribution(name):
    flambeau.manual_seed(0)
    draw = DISTRIBUTIONS[name][0]
    drawn = flambeau.compile(lambda x: draw(x.clone()))(flambeau.zeros(SIZE))
    assert drawn.dtype is flambeau.float32
    check_moments(drawn, name)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_draws_elsewhere_have_the_distribution(name, as_elsewhere):
    flambeau.manual_seed(1)
    before = flambeau.default_generator.key
    check_moments(DISTRIBUTIONS[name][0](flambeau.zeros(SIZE)), name)
    assert not np.array_equal(flambeau.default_generator.key, before)


def test_cauchy_draws_by_key_have_their_quartiles(as_elsewhere):
    flambeau.manual_seed(0)
    quartiles = np.quantile(flambeau.empty(SIZE).cauchy_(3.0, 2.0).numpy(), [0.25, 0.5, 0.75])
    np.testing.assert_allclose(quartiles, [1.0, 3.0, 5.0], atol=0.25)


def test_complex_draws_by_key_have_both_parts(as_elsewhere):
    flambeau.manual_seed(0)
    normals = flambeau.randn(SIZE, dtype=flambeau.complex64).numpy()
    assert abs(normals.var() - 1) < 0.1
    uniforms = flambeau.rand(SIZE, dtype=flambeau.complex64).numpy()
    assert abs(uniforms.mean() - (0.5 + 0.5j)) < 0.05


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_uniforms_by_key_stay_below_the_upper_bound(dtype, as_elsewhere):
    drawn = flambeau.rand(SIZE, dtype=getattr(flambeau, dtype))
    assert drawn.double().numpy().max() < 1
    assert len(set(drawn.double().tolist())) > 200


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_by_key_follows_the_weights(replacement, as_elsewhere):
    flambeau.manual_seed(0)
    weights = flambeau.tensor([[1.0, 0.0, 3.0], [1.0, 1.0, 0.0]] * 1000)
    drawn = flambeau.multinomial(weights, 2, replacement).numpy()
    assert drawn.shape == (2000, 2)
    first = drawn[:, 0].reshape(1000, 2)
    assert set(first[:, 0]) == {0, 2}
    assert abs((first[:, 0] == 2).mean() - 0.75) < 0.07
    assert set(first[:, 1]) == {0, 1}
    if not replacement:
        assert np.all(drawn[:, 0] != drawn[:, 1])


def test_permutations_by_key_hold_each_number_once():
    drawn = flambeau.compile(lambda: flambeau.randperm(50))().numpy()
    assert sorted(drawn) == list(range(50))
    assert list(drawn) != list(range(50))


@pytest.mark.parametrize("dtype", [flambeau.bool, flambeau.int64, flambeau.float64])
def test_bernoulli_writes_what_it_draws_into_an_out_of_any_dtype(dtype):
    out = flambeau.empty(3, dtype=dtype)
    result = flambeau.bernoulli(flambeau.tensor([0.0, 1.0, 1.0]), out=out)
    assert result is out
    assert out.dtype is dtype
    assert out.tolist() == [0, 1, 1]


class TestKeepMask:
    def test_it_keeps_with_the_complement_of_p(self):
        flambeau.manual_seed(0)
        kept = keep_mask((SIZE,), 0.1)
        assert kept.dtype is flambeau.bool
        assert abs(kept.numpy().mean() - 0.9) < 0.03

    def test_it_can_be_of_floats(self):
        assert keep_mask((3,), 0.0, dtype=flambeau.float32).tolist() == [1.0, 1.0, 1.0]

    def test_it_differs_at_each_call_of_a_compiled_function(self):
        program = flambeau.compile(lambda: keep_mask((64,), 0.5))
        assert program().tolist() != program().tolist()

    @pytest.mark.parametrize("p", [0.0, 1.0])
    def test_certainty_is_certain_in_compiled_functions(self, p):
        kept = flambeau.compile(lambda: keep_mask((SIZE,), p))()
        assert kept.sum().item() == (1 - p) * SIZE

    def test_a_probability_finer_than_the_bits_of_a_draw_is_met_on_average(self):
        flambeau.manual_seed(0)
        dropped = flambeau.compile(lambda: 2**16 - keep_mask((2**16,), 2.0**-17).sum())
        total = sum(dropped().item() for _ in range(200))
        # 200 times one half, with a deviation of 12.
        assert 50 < total < 150

    def test_nothing_is_drawn_on_meta(self):
        before = flambeau.get_rng_state().tolist()
        assert keep_mask((2, 3), 0.5, device="meta").shape == (2, 3)
        assert flambeau.get_rng_state().tolist() == before

    def test_a_generator_can_be_given(self):
        masks = [
            keep_mask((30,), 0.5, generator=flambeau.Generator().manual_seed(2)) for _ in range(2)
        ]
        assert masks[0].tolist() == masks[1].tolist()


class TestErrors:
    """Messages name the call and the offending value, on every device and in every mode."""

    @pytest.mark.parametrize("device", ["cpu", "meta"])
    @pytest.mark.parametrize(
        ("draw", "facts"),
        [
            (lambda x: x.uniform_(2, 1), ["uniform_", "from=2", "to=1"]),
            (lambda x: x.normal_(0, -3.5), ["normal_", "-3.5"]),
            (lambda x: x.bernoulli_(1.5), ["bernoulli_", "1.5"]),
            (lambda x: x.random_(7, 7), ["random_", "7"]),
            (lambda x: flambeau.randint(5, 5, (3,), device=x.device), ["5"]),
            (lambda x: flambeau.multinomial(x, 9), ["multinomial", "9", "3"]),
        ],
    )
    def test_parameters_are_checked(self, draw, facts, device):
        with pytest.raises(RuntimeError) as caught:
            draw(flambeau.ones(3, device=device))
        assert all(fact in str(caught.value) for fact in facts)

    def test_parameters_are_checked_in_compiled_functions(self):
        with pytest.raises(RuntimeError, match=r"-3\.5"):
            flambeau.compile(lambda x: x + flambeau.empty(3).normal_(0, -3.5))(flambeau.ones(3))

    def test_a_leaf_that_requires_grad_is_named(self):
        leaf = flambeau.ones(3, requires_grad=True)
        with pytest.raises(RuntimeError, match=r"uniform_\(\): a leaf"):
            leaf.uniform_()
        assert leaf.tolist() == [1.0, 1.0, 1.0]

    def test_a_missing_size_is_explained(self):
        with pytest.raises(TypeError, match=r"rand\(2, 3\)"):
            flambeau.rand()

    def test_an_unknown_bound_is_named(self):
        with pytest.raises(TypeError, match="got high"):
            flambeau.ones(3).uniform_(high=2)

    def test_a_bound_cannot_be_given_twice(self):
        with pytest.raises(TypeError, match="once"):
            flambeau.ones(3).uniform_(1, **{"from": 2})


def test_draws_follow_the_default_device():
    with flambeau.device("meta"):
        assert flambeau.randn(3).is_meta


def test_draws_of_a_subclass_keep_it():
    class Tagged(flambeau.Tensor):
        pass

    tagged = flambeau.zeros(3).as_subclass(Tagged)
    assert type(tagged.uniform_()) is Tagged
    assert type(flambeau.rand_like(tagged)) is Tagged


@pytest.mark.parametrize("rate", [float("inf"), 1e30])
def test_poisson_refuses_rates_that_no_count_reaches(rate):
    with pytest.raises(RuntimeError, match="rates below"):
        flambeau.poisson(flambeau.tensor([1.0, rate]))
