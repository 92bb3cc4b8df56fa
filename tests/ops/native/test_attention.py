"""Attention by native kernels computes what XLA's operators compute."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flambeau
from flambeau.core.devices.native import native_kernels
from flambeau.nn import functional as F
from flambeau.ops.native import attention as native
from flambeau.ops.neural.attention import attention

pytestmark = pytest.mark.skipif(
    "flambeau_attention" not in native_kernels(),
    reason="the native kernels are not installed; `make kernels` builds them",
)

RNG = np.random.default_rng(0)
QUERIES, KEYS, SIZE, VALUE_SIZE = 20, 23, 6, 5
BATCH = (2, 3)
INFINITY = float("inf")


def _normal(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


ARRAYS = (
    _normal(*BATCH, QUERIES, SIZE),
    _normal(*BATCH, KEYS, SIZE),
    _normal(*BATCH, KEYS, VALUE_SIZE),
)
SEEN = RNG.random((QUERIES, KEYS)) > 0.4
SEEN[3] = False
HIDING = np.where(SEEN, _normal(QUERIES, KEYS), -np.float32("inf"))
MASKS = {
    "none": None,
    "seen": SEEN,
    "padding": RNG.random((2, 1, 1, KEYS)) > 0.3,
    "queries": RNG.random((3, QUERIES, 1)) > 0.3,
    "added": _normal(2, 1, QUERIES, KEYS),
    "hiding": HIDING,
    "one row": _normal(KEYS),
    "least": np.where(SEEN, np.float32(0), np.finfo(np.float32).min),
}


def _by_xla(monkeypatch):
    monkeypatch.setattr(native, "takes", lambda *_: False)


def _attend(query, key, value, mask, is_causal=False, scale=None):
    return attention(query, key, value, mask, None, 0.0, is_causal, scale)


def _value_and_gradients(mask, is_causal, *arrays):
    result, pull = jax.vjp(lambda q, k, v: _attend(q, k, v, mask, is_causal), *arrays)
    return result, *pull(jnp.cos(result))


def _close(found, expected, tolerance=2e-6):
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        scale = np.abs(theirs).max(initial=1.0)
        np.testing.assert_allclose(ours / scale, theirs / scale, atol=tolerance)


@pytest.mark.parametrize("name", [*MASKS, "causal"])
def test_values_and_gradients(monkeypatch, name):
    mask, is_causal = MASKS.get(name), name == "causal"
    compute = jax.jit(lambda *arrays: _value_and_gradients(mask, is_causal, *arrays))
    assert "flambeau_attention" in compute.lower(*ARRAYS).as_text()
    found = compute(*ARRAYS)
    _by_xla(monkeypatch)
    _close(found, jax.jit(lambda *each: _value_and_gradients(mask, is_causal, *each))(*ARRAYS))


@pytest.mark.parametrize("is_causal", [False, True])
def test_several_blocks_of_queries_and_of_keys(monkeypatch, is_causal):
    arrays = [_normal(1, length, 16) for length in (400, 300, 300)]
    found = jax.jit(lambda *each: _value_and_gradients(None, is_causal, *each))(*arrays)
    _by_xla(monkeypatch)
    _close(found, jax.jit(lambda *each: _value_and_gradients(None, is_causal, *each))(*arrays))


def test_gradients_are_those_of_finite_differences():
    mask = MASKS["added"].astype(np.float64)
    with jax.enable_x64(True):
        arrays = [jnp.asarray(each, jnp.float64) for each in ARRAYS]
        moves = [jnp.asarray(_normal(*each.shape), jnp.float64) for each in ARRAYS]

        def loss(step):
            moved = (each + step * move for each, move in zip(arrays, moves, strict=True))
            return jnp.sum(jnp.sin(_attend(*moved, mask)))

        expected = (loss(1e-5) - loss(-1e-5)) / 2e-5
    gradients = jax.grad(
        lambda q, k, v: jnp.sum(jnp.sin(_attend(q, k, v, MASKS["added"]))), (0, 1, 2)
    )(*ARRAYS)
    found = sum(float(np.vdot(a, b)) for a, b in zip(gradients, moves, strict=True))
    assert found == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.parametrize("name", ["added", "hiding", "one row"])
def test_the_gradient_of_what_is_added(monkeypatch, name):
    def gradient(mask):
        return jax.grad(lambda m: jnp.sum(jnp.sin(_attend(*ARRAYS, m))))(mask)

    found = jax.jit(gradient)(MASKS[name])
    _by_xla(monkeypatch)
    _close(found, jax.jit(lambda mask: gradient(mask))(MASKS[name]))


def test_second_derivatives_in_both_directions(monkeypatch):
    def both(*arrays):
        def loss(*arrays):
            return jnp.sum(_attend(*arrays) ** 3)

        places = (0, 1, 2, 3)
        slopes = jax.grad(
            lambda *each: sum(jnp.sum(g**2) for g in jax.grad(loss, places)(*each)), places
        )
        moves = tuple(map(jnp.cos, arrays))
        return slopes(*arrays), jax.jvp(jax.grad(loss, places), arrays, moves)

    arrays = (*ARRAYS, MASKS["added"])
    found = jax.jit(both)(*arrays)
    _by_xla(monkeypatch)
    _close(found, jax.jit(lambda *each: both(*each))(*arrays), 2e-5)


def test_second_derivatives_of_long_sequences_by_blocks(monkeypatch):
    from flambeau.ops.neural import attention as forms

    monkeypatch.setattr(forms, "_SCORES_AT_ONCE", 1)
    monkeypatch.setattr(forms, "_SCORES_IN_BLOCK", 6 * KEYS * 7)

    def slopes(*arrays):
        gradient = jax.grad(lambda q, k, v: jnp.sum(_attend(q, k, v, None) ** 3))
        return jax.grad(lambda *each: jnp.sum(gradient(*each) ** 2), (0, 1, 2))(*arrays)

    found = jax.jit(slopes)(*ARRAYS)
    _by_xla(monkeypatch)
    _close(found, jax.jit(lambda *each: slopes(*each))(*ARRAYS), 2e-5)


@pytest.mark.parametrize("axes", [(0, 0, 0, None), (0, None, None, 0), (None, 1, 1, None)])
def test_batches_are_one_call(monkeypatch, axes):
    arrays = [
        each if axis is None else np.stack([each, each[::-1], -each], axis)
        for each, axis in zip((*ARRAYS, MASKS["added"]), axes, strict=True)
    ]

    def compute(query, key, value, mask):
        return _value_and_gradients(mask, False, query, key, value)

    batched = jax.jit(jax.vmap(compute, axes))
    text = batched.lower(*arrays).as_text()
    assert text.count("custom_call @flambeau_attention_gradients(") == 1
    found = batched(*arrays)
    _by_xla(monkeypatch)
    _close(found, jax.jit(jax.vmap(lambda *each: compute(*each), axes))(*arrays))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precisions_are_computed_in_single(dtype):
    arrays = [jnp.asarray(each, dtype) for each in ARRAYS]
    found = jax.jit(lambda *each: _value_and_gradients(None, False, *each))(*arrays)
    expected = _value_and_gradients(None, False, *(each.astype(jnp.float32) for each in arrays))
    assert all(each.dtype == dtype for each in found)
    _close([each.astype(jnp.float32) for each in found], expected, 1e-2)


def test_a_query_that_sees_nothing_gives_zeros_and_no_gradient():
    for mask in (SEEN, HIDING):
        result, by_query, *others = _value_and_gradients(mask, False, *ARRAYS)
        assert not result[..., 3, :].any()
        assert not by_query[..., 3, :].any()
        assert all(jnp.isfinite(each).all() for each in others)


def test_nan_and_infinite_elements_spread_as_in_the_formula():
    query, key, value = (each.copy() for each in ARRAYS)
    query[0, 0, 4, 1] = np.nan
    query[0, 1, 5, :] = np.inf
    value[1, 0, 2, 3] = np.inf
    key[1, 1, 0, 0] = np.nan
    found = np.asarray(_attend(query, key, value, None))
    assert np.isnan(found[0, 0, 4]).all()
    assert np.isfinite(found[0, 0, :4]).all()
    assert np.isnan(found[0, 1, 5]).all()
    assert np.isposinf(found[1, 0, :, 3]).all()
    assert np.isfinite(found[1, 0, :, :3]).all()
    assert np.isnan(found[1, 1]).all()
    # A key that is hidden does not count, whatever its elements are.
    seen = np.ones((1, KEYS), bool)
    seen[0, 0] = False
    assert np.isfinite(np.asarray(_attend(query, key, value, seen))[1, 1]).all()


@pytest.mark.parametrize(
    "shape", [(0, QUERIES, KEYS, 4, 4), (2, QUERIES, 0, 4, 4), (2, QUERIES, KEYS, 0, 4),
              (2, QUERIES, KEYS, 4, 0)]
)  # fmt: skip
def test_empty_arrays(monkeypatch, shape):
    batch, queries, keys, size, value_size = shape
    arrays = [_normal(batch, queries, size), _normal(batch, keys, size),
              _normal(batch, keys, value_size)]  # fmt: skip
    found = _value_and_gradients(None, False, *arrays)
    _by_xla(monkeypatch)
    _close(found, _value_and_gradients(None, False, *arrays))


def test_few_queries_dropout_and_doubles_are_left_to_xla():
    query = jnp.ones((2, QUERIES, 4), jnp.float32)
    assert native.takes(query, None)
    assert not native.takes(query[:, :4], None)
    assert not native.takes(query, jnp.ones((2, QUERIES, KEYS), bool))
    assert not native.takes(query.astype(jnp.int32), None)


def test_eager_tensors_and_compiled_ones_have_one_gradient():
    def gradients():
        leaves = [flambeau.tensor(each, requires_grad=True) for each in ARRAYS]
        found = F.scaled_dot_product_attention(*leaves, is_causal=True, scale=0.3)
        found.sin().sum().backward()
        return [each.grad for each in leaves]

    for eager, compiled in zip(gradients(), flambeau.compile(gradients)(), strict=True):
        np.testing.assert_allclose(eager.numpy(), compiled.numpy(), rtol=1e-5, atol=1e-6)


def test_a_call_whose_shapes_do_not_fit_is_refused():
    shapes = [jax.ShapeDtypeStruct(each, jnp.float32) for each in ((2, 5, 3), (2, 5), (2, 5))]
    call = jax.ffi.ffi_call("flambeau_attention", shapes)
    how = {"is_causal": False, "scale": np.float32(1)}
    query, key = jnp.ones((2, 5, 4), jnp.float32), jnp.ones((2, 6, 3), jnp.float32)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"queries \[2, 5, 4\], keys \[2, 6, 3\]"):
        jax.block_until_ready(call(query, key, key, **how))
    mask = jnp.ones((2, 5, 7), bool)
    key = jnp.ones((2, 6, 4), jnp.float32)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"a mask \[2, 5, 7\] does not fit"):
        jax.block_until_ready(call(query, key, key[..., :3], mask, **how))
