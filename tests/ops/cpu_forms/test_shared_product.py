"""One matrix times many: the same numbers and gradients, and nothing turned round."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flambeau.ops.cpu_forms.shared_product import shared_product

# The shapes of the matrix and of the arrays.
REPEATED = (4, 3), (2, 3, 60)
TURNED = (80, 60), (2, 60, 5)
GROUPED = (2, 4, 3), (3, 2, 3, 60)


def _arrays(shapes, dtype=jnp.float32):
    rng = np.random.default_rng(0)
    return tuple(jnp.asarray(rng.standard_normal(shape), dtype) for shape in shapes)


def _expected(matrix, arrays):
    return jnp.einsum("...ok,n...kp->n...op", matrix, arrays)


def _with_gradients(product, matrix, arrays):
    result, pull = jax.vjp(product, matrix, arrays)
    return result, *pull(jnp.cos(result))


@pytest.mark.parametrize("shapes", [REPEATED, TURNED, GROUPED])
def test_output_and_gradients(shapes):
    given = _arrays(shapes)
    ours, theirs = (_with_gradients(each, *given) for each in (shared_product, _expected))
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_second_derivatives():
    given = _arrays(REPEATED)

    def slope(product):
        def loss(matrix, arrays):
            return jnp.sum(jnp.sin(product(matrix, arrays)))

        gradients = jax.grad(loss, (0, 1))
        return jax.jvp(gradients, given, given)[1]

    for found, expected in zip(slope(shared_product), slope(_expected), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_vmap_over_the_arrays_and_over_the_matrix():
    matrix, arrays = _arrays(REPEATED)
    many = jnp.stack([arrays, 2 * arrays])
    found = jax.vmap(shared_product, (None, 0))(matrix, many)
    expected = jnp.stack([_expected(matrix, each) for each in many])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    found = jax.vmap(shared_product, (0, None))(jnp.stack([matrix, -matrix]), arrays)
    expected = _expected(matrix, arrays)
    np.testing.assert_allclose(found, jnp.stack([expected, -expected]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "samples", "examples"), [(0, 2, 3), (4, 0, 3), (4, 2, 0)])
def test_vmap_of_nothing(rows, samples, examples):
    matrix, arrays = _arrays(((rows, 3), (examples, samples, 3, 60)))
    found = jax.vmap(shared_product, (None, 0))(matrix, arrays)
    assert found.shape == (examples, samples, rows, 60)
    slope = jax.grad(lambda each: jnp.sum(shared_product(matrix, each)))
    assert jax.vmap(slope)(arrays).shape == arrays.shape


def test_half_precision_sums_the_matrix_gradient_in_float32():
    matrix, arrays = jnp.zeros((1, 1), jnp.bfloat16), jnp.ones((1000, 1, 16), jnp.bfloat16)
    result, pull = jax.vjp(shared_product, matrix, arrays)
    gradient, _ = pull(jnp.ones_like(result))
    assert result.dtype == gradient.dtype == jnp.bfloat16
    assert gradient == 16000


@pytest.mark.parametrize(("shapes", "apart"), [(REPEATED, True), (TURNED, False)])
def test_the_matrix_is_repeated_only_where_it_is_small(shapes, apart):
    (equation,) = (
        each
        for each in _equations(jax.make_jaxpr(shared_product)(*_arrays(shapes)))
        if each.primitive.name in ("dot_general", "shared_product")
    )
    assert (equation.primitive.name == "shared_product") is apart


def _equations(closed):
    for equation in closed.jaxpr.eqns:
        inner = equation.params.get("jaxpr")
        yield from [equation] if inner is None else _equations(inner)
