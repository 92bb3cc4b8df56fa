"""The tangents by hand are JAX's own, forward, backward and twice."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.ops.neural import standardization
from flambeau.ops.neural.standardization import standardized_groups, standardized_rows

rng = np.random.default_rng(0)
EPS = 1e-5


def plain_rows(rows, weight, bias):
    centered = rows - rows.mean(1, keepdims=True)
    found = centered / jnp.sqrt(jnp.square(centered).mean(1, keepdims=True) + EPS)
    return found * (1 if weight is None else weight) + (0 if bias is None else bias)


def plain_groups(channels, weight, bias):
    rows = channels.reshape(channels.shape[0] * 2, -1)
    found = plain_rows(rows, None, None).reshape(channels.shape)
    scale = 1 if weight is None else weight[:, None]
    return found * scale + (0 if bias is None else bias[:, None])


def by_hand_rows(rows, weight, bias):
    return standardized_rows(rows, weight, bias, EPS)


def by_hand_groups(channels, weight, bias):
    return standardized_groups(channels, weight, bias, 2, EPS)


CASES = {
    "rows": (by_hand_rows, plain_rows, (3, 4)),
    "rows of many": (by_hand_rows, plain_rows, (2, 32)),
    "rows by blocks": (by_hand_rows, plain_rows, (7, 4)),
    "groups": (by_hand_groups, plain_groups, (2, 4, 3)),
    "groups of many": (by_hand_groups, plain_groups, (1, 2, 16)),
}


def arguments(shape, affine):
    array = rng.standard_normal(shape)
    vector = shape[1:2]
    if not affine:
        return array, None, None
    return array, rng.standard_normal(vector), rng.standard_normal(vector)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_first_and_second_derivatives(case, affine, monkeypatch):
    by_hand, plain, shape = CASES[case]
    if case == "rows by blocks":
        # Two rows at a time, and one that is left.
        monkeypatch.setattr(standardization, "_BLOCK", 8)
        monkeypatch.setattr(standardization, "_LEAST_FOR_SEVERAL_CORES", 0)
    given = arguments(shape, affine)
    present = (0, 1, 2) if affine else (0,)

    def total(function, *args):
        return jnp.sum(jnp.sin(function(*args)))

    derivatives = [
        lambda function, given: function(*given),
        lambda function, given: jax.grad(functools.partial(total, function), present)(*given),
        lambda function, given: jax.jacfwd(function, present)(*given),
        lambda function, given: jax.hessian(lambda x: total(function, x, *given[1:]))(given[0]),
    ]
    for derivative in derivatives:
        found, expected = (
            jax.tree.leaves(jax.jit(functools.partial(derivative, each))(given))
            for each in (by_hand, plain)
        )
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_a_mean_far_from_zero_costs_no_more_than_its_own_rounding(case):
    by_hand, plain, shape = CASES[case]
    array = (rng.standard_normal((*shape[:-1], 4 * shape[-1])) + 1000).astype(np.float32)
    found = by_hand(array, None, None)
    np.testing.assert_allclose(found, plain(array.astype(np.float64), None, None), atol=2e-4)


def test_what_is_not_finite_stays_in_its_row(monkeypatch):
    monkeypatch.setattr(standardization, "_BLOCK", 8)
    rows, weight, bias = arguments((7, 4), True)
    rows[3, 1] = np.inf
    by_rows, by_weight = jax.grad(lambda *args: by_hand_rows(*args).sum(), (0, 1))(
        rows, weight, bias
    )
    assert np.isnan(by_rows).all(1).tolist() == [False, False, False, True, False, False, False]
    assert np.isfinite(by_rows[:3]).all()
    assert np.isnan(by_weight).all()


NORMS = {
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True, eps=1e-20),
    "instance_norm": lambda x: F.instance_norm(x, eps=1e-20),
    "group_norm": lambda x: F.group_norm(x, 1, eps=1e-20),
    "layer_norm": lambda x: F.layer_norm(x, (4,), eps=1e-20),
    "rms_norm": lambda x: F.rms_norm(x, (4,), eps=1e-20),
}


@pytest.mark.parametrize("name", NORMS)
def test_gradients_of_large_numbers_are_those_of_small_ones_divided(name):
    def gradient(x, cotangent):
        x = x.detach().requires_grad_()
        return flambeau.autograd.grad(NORMS[name](x), x, cotangent)[0]

    gradient = flambeau.compile(gradient)
    x, cotangent = (flambeau.tensor(rng.standard_normal((5, 2, 4)).astype("f")) for _ in "ab")
    expected = gradient(x, cotangent)
    for scale in (2.0**-20, 2.0**30, 2.0**50, 2.0**55):
        found = gradient(x * scale, cotangent) * scale
        np.testing.assert_allclose(found, expected, 1e-4, 1e-5, err_msg=str(scale))
