"""Products with a matrix: the same numbers in every form, at any order."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flambeau
from flambeau.core.devices.compiler import cpu_forms
from flambeau.ops.cpu_forms.matrix_product import (
    matrix_product,
    times_matrices,
    times_matrix,
    turns,
)

# The shapes of both matrices, by the dimension of the right one that is summed over.
SHAPES = [((512, 3), (3, 5)), ((8, 3), (512, 3))]
LEFT, RIGHT = (6, 512), (512, 3)


def _arrays(*shapes, dtype=jnp.float32):
    rng = np.random.default_rng(0)
    return tuple(jnp.asarray(rng.standard_normal(shape), dtype) for shape in shapes)


def _expected(left, right, axis):
    return left @ (right.T if axis else right)


def _with_gradients(product, given, axis):
    result, pull = jax.vjp(lambda left, right: product(left, right, axis), *given)
    return result, *pull(jnp.cos(result))


@pytest.mark.parametrize("axis", [0, 1])
def test_output_and_gradients(axis):
    given = _arrays(*SHAPES[axis])
    ours, theirs = (_with_gradients(each, given, axis) for each in (matrix_product, _expected))
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("axis", [0, 1])
def test_second_derivatives(axis):
    given = _arrays(*SHAPES[axis])

    def slope(product):
        gradients = jax.grad(lambda *both: jnp.sum(jnp.sin(product(*both, axis))), (0, 1))
        return jax.jvp(gradients, given, given)[1]

    for found, expected in zip(slope(matrix_product), slope(_expected), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_vmap_of_the_gradient(axes):
    left, right = (
        each if axis is None else jnp.stack([each, -2 * each])
        for each, axis in zip(_arrays(*SHAPES[1]), axes, strict=True)
    )

    def gradients(product):
        slope = jax.grad(lambda *both: jnp.sum(jnp.sin(product(*both, 1))), (0, 1))
        return jax.vmap(slope, axes)(left, right)

    for found, expected in zip(gradients(matrix_product), gradients(_expected), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not cpu_forms(), reason="accelerators take XLA's own product")
def test_only_matrices_whose_columns_are_slow_to_read_are_turned():
    left, right = _arrays(LEFT, RIGHT)
    assert turns(left, right, 0)
    assert turns(left[:, :3], right, 1)
    assert not turns(left, right.T, 1)
    assert not turns(left[:, :511], right[:511], 0)
    assert not turns(left[:3], right, 0)
    assert not turns(left[None], right, 0)
    assert not turns(left.astype(jnp.bfloat16), right.astype(jnp.bfloat16), 0)


BY_NAME = {
    "linear": lambda left, right: flambeau.nn.functional.linear(left, right.T),
    "matmul": lambda left, right: left @ right,
    "mm": flambeau.mm,
    "addmm": lambda left, right: flambeau.addmm(flambeau.zeros(512), left, right),
}


@pytest.mark.skipif(not cpu_forms(), reason="accelerators take XLA's own product")
@pytest.mark.parametrize("name", BY_NAME)
def test_operators_take_it(name):
    given = flambeau.ones(4, 512), flambeau.ones(512, 512)
    assert "matrix_product" in str(jax.make_jaxpr(BY_NAME[name])(*given))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("lead", [(1,), (2,), (5,), (2, 3), (), (0,)], ids=str)
def test_bfloat16_is_summed_in_single_precision(lead, axis):
    left, right = _arrays((*lead, 300), (300, 7) if axis == 0 else (7, 300), dtype=jnp.bfloat16)
    wide = [each.astype(jnp.float32) for each in (left, right)]
    ours, theirs = _with_gradients(times_matrix, (left, right), axis), None
    theirs = _with_gradients(lambda *given: _expected(*given).astype(jnp.bfloat16), wide, axis)
    for found, expected in zip(ours, theirs, strict=True):
        assert found.dtype == jnp.bfloat16
        np.testing.assert_allclose(found, expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("rows", [1, 3, 6])
def test_batches_of_bfloat16(rows):
    left, right = _arrays((2, 3, rows, 40), (2, 3, 40, 5), dtype=jnp.bfloat16)
    wide = [each.astype(jnp.float32) for each in (left, right)]
    ours = _with_gradients(lambda *given: times_matrices(*given[:2]), (left, right), 0)
    theirs = _with_gradients(lambda *given: _expected(*given).astype(jnp.bfloat16), wide, 0)
    for found, expected in zip(ours, theirs, strict=True):
        assert found.dtype == jnp.bfloat16
        np.testing.assert_allclose(found, expected, rtol=2e-2, atol=2e-2)
    doubled = jax.vmap(times_matrices, (None, 0))(left, jnp.stack([right, 2 * right]))
    np.testing.assert_allclose(doubled[1], 2 * ours[0], rtol=2e-2, atol=2e-2)


@pytest.mark.skipif(not cpu_forms(), reason="accelerators take XLA's own product")
@pytest.mark.parametrize("rows", [1, 4])
def test_bfloat16_is_not_converted_before_the_product(rows):
    left, right = _arrays((rows, 256), (512, 256), dtype=jnp.bfloat16)
    program = jax.jit(times_matrix, static_argnums=2).lower(left, right, 1).compile()
    assert "f32[512,256]" not in program.as_text().split("ENTRY")[1]
