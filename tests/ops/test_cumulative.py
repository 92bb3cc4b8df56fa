import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flambeau
from flambeau.core.devices.compiler import cpu_forms
from flambeau.ops.cpu_forms.running import _row_sums, loop

rng = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [33, 64, 70])
def test_sums_by_blocks_are_running_sums(size, dtype):
    x = rng.standard_normal((2, 3, size)).astype(dtype)
    found = np.asarray(_row_sums(x))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, np.cumsum(x, -1, np.float64), atol=1e-5)


def test_what_is_not_finite_counts_from_its_place_on():
    x = np.ones((4, 70), np.float32)
    x[0, 40], x[1, 3], x[2, 69] = np.inf, np.nan, -np.inf
    np.testing.assert_array_equal(flambeau.tensor(x).cumsum(1).numpy(), np.cumsum(x, 1))


def test_what_is_large_counts_from_its_place_on():
    x = np.ones((1, 70), np.float32)
    x[0, 60] = 1e12
    found = flambeau.tensor(x).cumsum(1).numpy()
    np.testing.assert_array_equal(found[0, :60], np.arange(1, 61))


def test_long_integers_are_summed_exactly():
    x = np.full((2, 70), 2**55 + 1)
    np.testing.assert_array_equal(flambeau.tensor(x).cumsum(1).numpy(), np.cumsum(x, 1))


def test_single_precision_is_summed_in_double():
    x = np.full(20_000, 0.1, np.float32)
    expected = np.cumsum(x, dtype=np.float64)
    columns = np.stack([x, x], 1)
    found = flambeau.tensor(columns).cumsum(0).numpy()
    # Accelerators sum in a tree, of single precision but few roundings.
    tolerance = 1e-7 if cpu_forms() else 1e-6
    np.testing.assert_allclose(found, np.stack([expected, expected], 1), rtol=tolerance)


def test_derivatives_of_sums_by_blocks():
    x, direction = rng.standard_normal((2, 2, 40))
    _, tangent = jax.jvp(_row_sums, (x,), (direction,))
    np.testing.assert_allclose(tangent, np.cumsum(direction, -1), rtol=1e-12)
    gradient = jax.grad(lambda x: jnp.vdot(_row_sums(x), direction))(x)
    np.testing.assert_allclose(gradient, np.cumsum(direction[:, ::-1], -1)[:, ::-1], rtol=1e-12)
    batched = jax.vmap(_row_sums)(x[None])
    np.testing.assert_allclose(batched[0], np.cumsum(x, -1), rtol=1e-12)


def test_second_derivatives_of_a_product_with_zeros():
    x = np.array([2.0, 0.0, 3.0, 0.0])
    found = jax.hessian(lambda x: loop(jnp.multiply, 1, x, 0).sum())(x)
    np.testing.assert_allclose(found, jax.hessian(lambda x: jnp.cumprod(x).sum())(x), atol=1e-12)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_of_equal_records_and_of_nans_the_last_counts(name):
    x = flambeau.tensor([[2.0, 1.0, 2.0, float("nan"), 3.0, float("nan"), 1.0]])
    values, indices = getattr(flambeau, name)(-x if name == "cummin" else x, 1)
    assert indices.tolist() == [[0, 0, 2, 3, 3, 5, 5]]
    assert flambeau.isnan(values)[0, 3:].all()


def test_the_gradient_of_a_record_goes_to_its_place():
    x = flambeau.tensor([1.0, 3.0, 3.0, 2.0], requires_grad=True)
    x.cummax(0).values.backward(flambeau.tensor([1.0, 2.0, 4.0, 8.0]))
    assert x.grad.tolist() == [1.0, 2.0, 12.0, 0.0]


def test_second_derivatives_of_a_running_logarithm_of_sums():
    def gradient_of_gradient(running):
        x = flambeau.tensor([1.3, -0.5, 0.25], requires_grad=True)
        (grad,) = flambeau.autograd.grad(running(x).square().sum(), [x], create_graph=True)
        return flambeau.autograd.grad(grad.square().sum(), [x])[0].numpy()

    found = gradient_of_gradient(lambda x: x.logcumsumexp(0))
    expected = gradient_of_gradient(lambda x: x.exp().cumsum(0).log())
    np.testing.assert_allclose(found, expected, rtol=1e-4)
