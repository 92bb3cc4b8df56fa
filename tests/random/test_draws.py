"""The draws, one by one. Golden values were printed by PyTorch 2.13 on the CPU."""

import zlib
from fractions import Fraction

import jax
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flambeau.random import draws
from flambeau.random.draws import box_muller, choice
from flambeau.random.draws.arithmetic import convert, multiply_add
from flambeau.random.mersenne import MersenneTwister

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
SIZES = [0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 1000, 70001]
FLOATS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BFLOAT16]

# seed, draw, its arguments, and what PyTorch draws first after that seed.
GOLDEN = [
    (0, "uniform", ((4,),), [0.4962565898895264, 0.7682217955, 0.0884774327, 0.1320304870]),
    (-1, "uniform", ((2,), np.float64), [0.9503951604874923, 0.5600645841090078]),
    (42, "uniform", ((2,), np.float32, -1 / 3, 0.7), [0.5783448815345764, 0.6121706962585449]),
    (42, "uniform", ((3,), BFLOAT16), [0.8828125, 0.9140625, 0.3828125]),
    (0, "normal", ((3,),), [1.5409960746765137, -0.293428897857666, -2.1787893772125244]),
    (42, "normal", ((3,),), [0.33669036626815796, 0.12880940735340118, 0.23446236550807953]),
    (0, "log_normal", ((2,),), [59.2634162902832, 1.5115599632263184]),
    (0, "exponential", ((2,),), [3.508326292037964, 1.2303847074508667]),
    (0, "cauchy", ((2,),), [10.597729682922363, 0.7647672891616821]),
    (42, "geometric", ((5,), np.float32, 0.3), [8, 8, 6, 9, 2]),
    (42, "bernoulli", ((8,), 0.5), [1, 1, 1, 1, 0, 1, 0, 0]),
    (42, "bernoulli_probabilities", (np.full(8, 0.5, np.float32),), [0, 0, 1, 0, 1, 0, 1, 0]),
    (0, "integers", (0, 100, (5,)), [44, 39, 33, 60, 63]),
    (42, "integers", (-(2**40), 2**40, (2,)), [-658003837517, 395924837646]),
    (-1, "permutation", (8,), [3, 6, 4, 7, 2, 1, 5, 0]),
    (42, "multinomial", (np.arange(1.0, 9, dtype=np.float32), 4), [3, 1, 2, 0]),
]


@pytest.mark.parametrize(("seed", "kind", "arguments", "expected"), GOLDEN)
def test_first_draw_after_a_seed_is_pytorchs(seed, kind, arguments, expected):
    drawn = getattr(draws, kind)(MersenneTwister(seed), *arguments)
    np.testing.assert_allclose(drawn.astype(np.float64), expected, rtol=1e-7)


def test_normals_in_blocks_of_sixteen_are_pytorchs():
    drawn = draws.normal(MersenneTwister(0), (17,))
    expected = [-1.1258398294448853, 0.46809640526771545, 0.9318265914916992]
    assert drawn[[0, 8, 16]].tolist() == expected


@pytest.mark.parametrize(
    ("size", "mean", "std", "checksum"),
    [
        (200, 0.0, 1.0, 3838629968),
        (1000, 0.3, 1.7, 367402603),
        (100_003, 0.0, 1.0, 709263748),
        (100_003, 0.3, 1.7, 2727201940),
    ],
)
def test_normals_in_float32_have_pytorchs_bits(size, mean, std, checksum):
    drawn = draws.normal(MersenneTwister(0), (size,), np.float32, mean, std)
    assert zlib.crc32(drawn.tobytes()) == checksum


def test_normals_can_be_drawn_while_jax_traces():
    expected = draws.normal(MersenneTwister(0), (20,))

    @jax.jit
    def constant():
        with jax.ensure_compile_time_eval():
            return draws.normal(MersenneTwister(0), (20,))

    np.testing.assert_array_equal(constant(), expected)


@pytest.mark.parametrize("dtype", FLOATS[:2], ids=str)
@given(
    limit=st.sampled_from([1e-40, 2.0**-101, 2.0**-99, 0.3, 1.0, 7.7, 1e38]),
    count=st.sampled_from([1, 20, 1024, 1025]),
    seed=st.integers(0, 99),
)
def test_symmetric_intervals_are_drawn_as_others_are(dtype, limit, count, seed):
    drawn = draws.uniform(MersenneTwister(seed), (count,), dtype, -limit, limit)
    uniforms = MersenneTwister(seed).standard_uniform(count, dtype)
    bound = dtype.type(limit)
    np.testing.assert_array_equal(drawn, multiply_add(uniforms, bound + bound, -bound))


def test_an_odd_normal_leaves_its_partner_to_the_next():
    together = draws.normal(MersenneTwister(3), (4,), np.float64)
    twister = MersenneTwister(3)
    apart = [draws.normal(twister, (count,), np.float64) for count in (1, 2, 1)]
    np.testing.assert_allclose(np.concatenate(apart), together, rtol=1e-15)
    assert twister.next_normal is None


def cases_of(size):
    """Draws of `size` numbers, each with its arguments."""
    shape = (size,)
    for dtype in [*FLOATS, np.dtype(np.complex64), np.dtype(np.complex128)]:
        yield "uniform", (shape, dtype)
        yield "normal", (shape, dtype)
    for dtype in FLOATS:
        yield "log_normal", (shape, dtype)
        yield "exponential", (shape, dtype, 2.0)
        yield "cauchy", (shape, dtype)
        yield "geometric", (shape, dtype, 0.25)
        yield "bernoulli", (shape, 0.25, dtype)
        yield "bernoulli_probabilities", (np.full(shape, 0.25, dtype), np.bool_)
        yield "multinomial", (np.ones(size + 1, dtype), 3, True)
        yield "multinomial", (np.ones((2, size + 2), dtype), 2)
    for low, high in [(0, 10), (0, 2**28), (-5, 2**40), (-(2**63), None)]:
        yield "integers", (low, high, shape)
    for dtype in (np.uint8, np.int32, np.int64, np.float32, np.float64, np.bool_):
        yield "integers", (None, None, shape, dtype)
    yield "permutation", (size,)


@pytest.mark.parametrize("waiting", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_skipping_a_draw_leaves_the_state_that_drawing_leaves(size, waiting):
    for kind, arguments in cases_of(size):
        drawn = MersenneTwister(size)
        if waiting:
            draws.normal(drawn, (1,))
        skipped = drawn.copy()
        getattr(draws, kind)(drawn, *arguments)
        draws.skip(skipped, kind, *arguments)
        assert skipped.get_state() == drawn.get_state(), (kind, arguments)


def test_skipping_takes_arguments_by_name():
    drawn, skipped = MersenneTwister(0), MersenneTwister(0)
    draws.uniform(drawn, shape=(5,), dtype=np.float64, high=3.0)
    draws.skip(skipped, "uniform", shape=(5,), dtype=np.float64, high=3.0)
    assert skipped.get_state() == drawn.get_state()


def test_skipping_an_unknown_draw_names_those_there_are():
    with pytest.raises(ValueError, match=r"'gaussian'.*normal"):
        draws.skip(MersenneTwister(0), "gaussian", (3,))


@pytest.mark.parametrize("size", [17, 70001])
def test_the_same_seed_draws_the_same_again(size):
    for kind, arguments in cases_of(size):
        one, other = (getattr(draws, kind)(MersenneTwister(6), *arguments) for _ in range(2))
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_draw_has_the_shape_and_dtype_asked_for(dtype):
    for kind in ("uniform", "normal", "log_normal", "exponential", "cauchy"):
        drawn = getattr(draws, kind)(MersenneTwister(0), (3, 0, 2), dtype)
        assert (drawn.shape, drawn.dtype) == ((3, 0, 2), dtype)
        drawn = getattr(draws, kind)(MersenneTwister(0), (), dtype)
        assert (drawn.shape, drawn.dtype) == ((), dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_uniform_never_reaches_its_upper_end(dtype):
    low, high = 1.0, 1.0 + 2.0**-6
    drawn = draws.uniform(MersenneTwister(0), (20000,), dtype, low, high).astype(np.float64)
    assert drawn.min() >= low
    assert drawn.max() < high


def rounded_once(exact, dtype):
    """The value of `dtype` nearest to a Fraction; the even one in the middle."""
    if dtype == np.float64:
        return float(exact)
    guess = np.float32(float(exact))
    around = [
        np.nextafter(guess, np.float32(-np.inf)),
        guess,
        np.nextafter(guess, np.float32(np.inf)),
    ]
    return min(
        around, key=lambda near: (abs(Fraction(float(near)) - exact), int(near.view(np.int32)) & 1)
    )


def reals_of(width):
    """Floats of `width` bits whose products are normal numbers."""
    return st.floats(-(2.0**30), 2.0**30, width=width).map(
        lambda real: real if abs(real) > 2**-30 else 0.0
    )


@pytest.mark.parametrize(("dtype", "width"), [(np.float32, 32), (np.float64, 64)])
def test_a_product_and_a_sum_are_rounded_once(dtype, width):
    @given(
        values=st.lists(reals_of(width), min_size=1), factor=reals_of(width), term=reals_of(width)
    )
    def check(values, factor, term):
        result = multiply_add(np.array(values, dtype), dtype(factor), dtype(term))
        exact = [Fraction(value) * Fraction(factor) + Fraction(term) for value in values]
        np.testing.assert_array_equal(result, [rounded_once(one, dtype) for one in exact])

    check()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_float32_sum_in_the_middle_is_rounded_by_what_was_cut_off(sign):
    # The exact sum lies just below the middle of two float32; float64 rounds it to the middle.
    term = np.float32(sign * (1 + 2.0**-23))
    value, factor = sign * np.float32(1 + 2.0**-23), np.float32(2.0**-24 * (1 - 2.0**-23))
    assert np.float32(float(value) * float(factor) + float(term)) != term
    assert multiply_add(np.array([value]), factor, term)[0] == term


@pytest.mark.parametrize("factor", [np.inf, 1e300, 1e-300])
def test_a_product_of_extreme_magnitude_is_no_nan(factor):
    result = multiply_add(np.array([0.5, 2.0]), np.float64(factor), np.float64(3.0))
    np.testing.assert_array_equal(result, np.array([0.5, 2.0]) * factor + 3.0)


def test_a_16_bit_float_is_reached_through_float32():
    # Just above the middle of two float16: in one step it rounds up, through float32 to even.
    value = np.array([1 + 2.0**-11 + 2.0**-40])
    assert convert(value, np.dtype(np.float16))[0] == 1
    assert value.astype(np.float16)[0] > 1


@pytest.mark.parametrize("size", [0, 1, 2, 3, 10, 257])
def test_a_permutation_is_that_of_exchanges_made_in_turn(size):
    words = MersenneTwister(size).random_uint32(max(size - 1, 0)).tolist()
    expected = list(range(size))
    for step, word in enumerate(words):
        place = step + word % (size - step)
        expected[step], expected[place] = expected[place], expected[step]
    assert draws.permutation(MersenneTwister(size), size).tolist() == expected


@pytest.mark.parametrize("size", [0, 1, 2, 3, 10, 257])
def test_a_large_permutation_is_built_from_the_inside_out(size, monkeypatch):
    monkeypatch.setattr(choice, "LARGE_PERMUTATION", 0)
    expected = []
    for step, word in enumerate(MersenneTwister(size).random_uint64(size).tolist()):
        place = word % (step + 1)
        expected.append(step)
        expected[step], expected[place] = expected[place], step
    assert draws.permutation(MersenneTwister(size), size).tolist() == expected


def test_sampling_without_replacement_never_repeats_and_never_takes_weight_zero():
    weights = np.tile(np.array([0, 1, 2, 3, 0, 4], np.float32), (50, 1))
    chosen = draws.multinomial(MersenneTwister(0), weights, 4)
    assert {tuple(sorted(row)) for row in chosen.tolist()} == {(1, 2, 3, 5)}


NO_DRAW = [
    ("uniform", ((3,), np.float32, 2, 1), RuntimeError, "from=2"),
    ("uniform", ((3,), np.float16, 0, 1e5), RuntimeError, "to=100000.0"),
    ("uniform", ((3,), np.float16, -6e4, 6e4), RuntimeError, "120000"),
    ("uniform", ((3,), np.float32, float("nan"), 1), RuntimeError, "nan"),
    ("uniform", ((3,), np.int32), NotImplementedError, "int32"),
    ("normal", ((3,), np.float32, 0, -1), RuntimeError, "std=-1"),
    ("normal", ((3,), np.bool_), NotImplementedError, "bool"),
    ("log_normal", ((3,), np.float32, 0, 0), RuntimeError, "std=0"),
    ("log_normal", ((3,), np.int64), NotImplementedError, "int64"),
    ("exponential", ((3,), np.float32, 0), RuntimeError, "lambda=0"),
    ("exponential", ((3,), np.int64), RuntimeError, "int64"),
    ("cauchy", ((3,), np.float32, 0, 0), RuntimeError, "sigma=0"),
    ("cauchy", ((3,), np.complex64), RuntimeError, "complex64"),
    ("geometric", ((3,), np.float32, 1), RuntimeError, "p=1"),
    ("geometric", ((3,), np.bool_, 0.5), NotImplementedError, "bool"),
    ("geometric", ((3,), np.uint16, 0.5), NotImplementedError, "uint16"),
    ("bernoulli", ((3,), 1.5), RuntimeError, "p=1.5"),
    ("bernoulli", ((3,), 0.5, np.complex64), NotImplementedError, "complex64"),
    ("bernoulli_probabilities", (np.array([0.5, 2.0]),), RuntimeError, "2.0"),
    ("bernoulli_probabilities", (np.array([0.5, np.nan]),), RuntimeError, "nan"),
    ("bernoulli_probabilities", (np.array([0, 1]),), NotImplementedError, "int64"),
    ("integers", (5, 5, (3,)), RuntimeError, "from=5"),
    ("integers", (-1, 5, (3,), np.uint8), RuntimeError, "from = -1"),
    ("integers", (0, 257, (3,), np.uint8), RuntimeError, "256"),
    ("integers", (0, 2**63, (3,)), ValueError, "9223372036854775808"),
    ("integers", (None, 5, (3,)), ValueError, "low=0"),
    ("integers", (None, None, (3,), np.uint32), NotImplementedError, "uint32"),
    ("integers", (-(2**63), None, (3,), np.int8), NotImplementedError, "int8"),
    ("integers", (255, None, (3,), np.int8), RuntimeError, "from = 255"),
    ("integers", (2049, None, (3,), np.float16), RuntimeError, "2049"),
    ("integers", (0, 5, (3,), np.complex64), NotImplementedError, "complex64"),
    ("permutation", (-1,), RuntimeError, "n=-1"),
    ("permutation", (2050, np.float16), RuntimeError, "n=2050"),
    ("permutation", (257, np.uint8), RuntimeError, "n=257"),
    ("permutation", (3, np.bool_), NotImplementedError, "bool"),
    ("multinomial", (np.ones(3), 0), RuntimeError, "got 0"),
    ("multinomial", (np.ones(3), 4), RuntimeError, "4 samples of 3"),
    ("multinomial", (np.ones(0), 4, True), RuntimeError, "4 samples of 0"),
    ("multinomial", (np.ones((1, 1, 1)), 1), RuntimeError, "got 3"),
    ("multinomial", (np.ones(()), 1), RuntimeError, "got 0"),
    ("multinomial", (np.ones(3, np.int64), 1), RuntimeError, "int64"),
    ("multinomial", (np.array([1.0, -1.0]), 1), RuntimeError, "not negative"),
    ("multinomial", (np.array([1.0, np.inf]), 2, True), RuntimeError, "finite"),
    ("multinomial", (np.array([[1.0, 0.0], [0.0, 0.0]]), 1), RuntimeError, "above zero"),
]


@pytest.mark.parametrize(("kind", "arguments", "error", "facts"), NO_DRAW)
def test_a_draw_that_cannot_be_says_why_and_takes_no_word(kind, arguments, error, facts):
    twister = MersenneTwister(0)
    before = twister.get_state()
    with pytest.raises(error, match=facts):
        getattr(draws, kind)(twister, *arguments)
    assert twister.get_state() == before


def test_normals_are_the_same_by_a_larger_program(monkeypatch):
    expected = draws.normal(MersenneTwister(0), (20000,))
    sizes = {1 << 16}
    monkeypatch.setattr(box_muller, "_SIZES_IN_USE", sizes)
    np.testing.assert_array_equal(draws.normal(MersenneTwister(0), (20000,)), expected)
    assert sizes == {1 << 16}


def test_few_normals_are_not_drawn_by_a_large_program(monkeypatch):
    sizes = {1 << 16}
    monkeypatch.setattr(box_muller, "_SIZES_IN_USE", sizes)
    draws.normal(MersenneTwister(0), (100,))
    assert sizes == {1 << 16, 1 << 10}
