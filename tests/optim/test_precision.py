"""In which numbers a step is computed, and how its results are rounded."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flambeau
from flambeau import optim
from flambeau.optim.precision import number, packed, unpacked

DTYPES = ["float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_number_leaves_the_precision_of_arrays_alone(dtype):
    made = number(jnp.asarray(0.5, dtype))
    assert made.dtype == jnp.float64
    for other in DTYPES:
        assert (made * jnp.ones(2, other)).dtype == other


def test_a_number_is_of_double_precision_when_it_is_traced():
    correction = jax.jit(lambda beta, step: 1 - number(beta) ** number(step))
    assert correction(0.999, jnp.float32(1)) == pytest.approx(0.001, rel=1e-12)
    assert correction(jnp.float64(0.999), jnp.int32(3)) == pytest.approx(1 - 0.999**3, rel=1e-12)


def test_gradients_flow_through_a_number():
    assert jax.grad(lambda rate: number(rate) ** 2)(jnp.float32(3)) == 6.0


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64", "complex128"])
def test_what_was_unpacked_is_packed_as_it_was(dtype):
    array = jnp.asarray([0.1, -2.0], dtype) * (1j if dtype.startswith("complex") else 1)
    array = array.astype(dtype)
    given = unpacked(array)
    assert jnp.finfo(given.dtype).bits >= 32
    assert not jnp.iscomplexobj(given)
    again = packed(given, array)
    assert again.dtype == dtype
    np.testing.assert_array_equal(again, array)


@pytest.mark.parametrize("cls", [optim.Adam, optim.Adamax, optim.NAdam, optim.RAdam])
def test_bias_is_corrected_in_double_precision(cls):
    # In single precision, 1 - 0.999 is wrong by 5e-5.
    moves = []
    for dtype in (flambeau.float32, flambeau.float64):
        param = flambeau.zeros(2, dtype=dtype, requires_grad=True)
        param.grad = flambeau.full((2,), 0.3, dtype=dtype)
        cls([param], lr=1.0, betas=(0.999, 0.999)).step()
        moves.append(param.tolist())
    np.testing.assert_allclose(moves[0], moves[1], rtol=1e-6)


@pytest.mark.parametrize("dtype", [flambeau.float16, flambeau.bfloat16])
@pytest.mark.parametrize("cls", [optim.AdamW, optim.NAdam])
def test_half_precision_is_rounded_once(cls, dtype):
    rng = np.random.default_rng(0)
    start, gradient = (flambeau.tensor(rng.standard_normal(5)).to(dtype) for _ in range(2))
    results = []
    for precision in (dtype, flambeau.float32):
        param = start.to(precision, copy=True).requires_grad_()
        param.grad = gradient.to(precision)
        optimizer = cls([param], lr=0.1)
        optimizer.step()
        results.append((param.detach(), optimizer.state[param]["exp_avg_sq"]))
    for half, single in zip(*results, strict=True):
        assert half.dtype is dtype
        assert half.tolist() == single.to(dtype).tolist()


def test_a_small_epsilon_counts_in_half_precision():
    # In float16 itself it would be zero, and 0 / 0 no number.
    param = flambeau.ones(1, dtype=flambeau.float16, requires_grad=True)
    param.grad = flambeau.zeros(1, dtype=flambeau.float16)
    optim.Adam([param]).step()
    assert param.tolist() == [1.0]
