"""Scaled dot product attention: its values, the memory that it takes, and its errors."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import flambeau
from flambeau.nn import functional as F
from flambeau.ops.neural import attention

LENGTH = 16_384
RANDOM = np.random.default_rng(0)
Q, K, V = (RANDOM.standard_normal((2, 4, length, 3)).astype(np.float32) for length in (5, 6, 6))


def expected(query, key, value, mask=None, scale=None):
    """Attention by its formula, in double precision."""
    query, key, value = (each.astype(np.float64) for each in (query, key, value))
    scores = query @ key.swapaxes(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value


def attend(*arrays, **options):
    tensors = [None if each is None else flambeau.tensor(each) for each in arrays]
    return F.scaled_dot_product_attention(*tensors, **options).numpy()


def test_without_a_mask():
    np.testing.assert_allclose(attend(Q, K, V), expected(Q, K, V), rtol=1e-4, atol=1e-6)


def test_scale():
    found = attend(Q, K, V, scale=0.1)
    np.testing.assert_allclose(found, expected(Q, K, V, scale=0.1), rtol=1e-4, atol=1e-6)


def test_masks_hide_keys_or_add_to_scores():
    seen = RANDOM.random((5, 6)) > 0.4
    seen[:, 0] = True
    added = RANDOM.standard_normal((2, 1, 5, 6)).astype(np.float32)
    for mask in (seen, added):
        found = attend(Q, K, V, mask)
        np.testing.assert_allclose(found, expected(Q, K, V, mask), rtol=1e-4, atol=1e-6)


def test_causal_queries_see_the_keys_up_to_their_own():
    found = attend(Q, K, V, is_causal=True)
    mask = np.tril(np.ones((5, 6), bool))
    np.testing.assert_allclose(found, expected(Q, K, V, mask), rtol=1e-4, atol=1e-6)


def test_a_query_that_sees_nothing_gives_zeros_and_no_gradient():
    query = flambeau.tensor(Q, requires_grad=True)
    mask = flambeau.ones(5, 6, dtype=flambeau.bool)
    mask[2] = False
    found = F.scaled_dot_product_attention(query, flambeau.tensor(K), flambeau.tensor(V), mask)
    found.sum().backward()
    assert not found[:, :, 2].any()
    assert not query.grad[:, :, 2].any()
    assert query.grad[:, :, 1].any()


def test_heads_are_shared_among_query_heads():
    shared = attend(Q, K[:, :2], V[:, :2], enable_gqa=True)
    repeated = attend(Q, K[:, :2].repeat(2, 1), V[:, :2].repeat(2, 1))
    np.testing.assert_allclose(shared, repeated, rtol=1e-6)


def test_dropped_weights_are_zero_and_the_others_grow():
    eye = np.eye(6, dtype=np.float32)
    flambeau.manual_seed(0)
    weights = attend(Q[0, 0], K[0, 0], eye, dropout_p=0.5)
    whole = attend(Q[0, 0], K[0, 0], eye)
    kept = weights != 0
    assert 0 < kept.sum() < kept.size
    np.testing.assert_allclose(weights[kept], 2 * whole[kept], rtol=1e-6)
    assert not attend(Q, K, V, dropout_p=1.0).any()


@pytest.mark.parametrize("is_causal", [False, True])
def test_blocks_of_queries_give_the_whole(monkeypatch, is_causal):
    def attention_and_slopes():
        def whole(q, k, v):
            return attention.attention(q, k, v, None, None, 0.0, is_causal)

        found, vjp = jax.vjp(whole, Q, K, V)
        return found, *vjp(jax.numpy.cos(found))

    whole = attention_and_slopes()
    # Two queries at once, and a last block of one.
    monkeypatch.setattr(attention, "_SCORES_AT_ONCE", 1)
    monkeypatch.setattr(attention, "_SCORES_IN_BLOCK", 2 * 8 * 6)
    for one, other in zip(attention_and_slopes(), whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


# Memory


def forward(query, key, value, *mask, **options):
    arrays = map(flambeau.as_tensor, (query, key, value, *mask))
    return F.scaled_dot_product_attention(*arrays, **options).jax()


def gradients(cotangent, *arrays, **options):
    query, key, value, *mask = map(flambeau.as_tensor, arrays)
    leaves = [each.requires_grad_() for each in (query, key, value)]
    found = F.scaled_dot_product_attention(*leaves, *mask, **options)
    found.backward(flambeau.as_tensor(cotangent))
    return [each.grad.jax() for each in leaves]


@pytest.mark.parametrize("case", ["plain", "causal", "padding mask"])
@pytest.mark.parametrize("compute", [forward, gradients], ids=lambda each: each.__name__)
def test_long_sequences_take_less_than_a_tenth_of_their_scores(compute, case):
    long = jax.ShapeDtypeStruct((1, 1, LENGTH, 64), np.float32)
    arrays = [long] * (3 if compute is forward else 4)
    if case == "padding mask":
        arrays.append(jax.ShapeDtypeStruct((1, LENGTH), np.bool_))

    def computed(*arrays):
        return compute(*arrays, is_causal=case == "causal")

    # Compiled, and not run.
    memory = jax.jit(computed).lower(*arrays).compile().memory_analysis()
    if memory is None:
        pytest.skip("this backend does not say what memory its programs take")
    scores = LENGTH * LENGTH * 4
    assert 0 < memory.temp_size_in_bytes < scores / 10


REAL_RUN = f"""
import resource
import flambeau
from flambeau.nn.functional import scaled_dot_product_attention

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

x = flambeau.ones(1, 1, {LENGTH}, 4)
part = x[:, :, :2048]
scaled_dot_product_attention(part, part, part)
before = peak()
assert scaled_dot_product_attention(x, x, x, is_causal=True).sum().item() > 0
print((peak() - before) * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere ru_maxrss is in other units")
def test_a_long_sequence_takes_no_more_when_it_is_run():
    run = subprocess.run(
        [sys.executable, "-c", REAL_RUN], capture_output=True, text=True, check=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    assert int(run.stdout) < LENGTH * LENGTH * 4 / 10


# Errors

x, mask = flambeau.ones(2, 4, 3), flambeau.ones(4, 4, dtype=flambeau.bool)
ERRORS = {
    "features": (r"\[2, 4, 3\], key \[2, 4, 2\]", (x, x[..., :2], x), {}),
    "lengths": (r"key \[2, 4, 3\], value \[2, 3, 3\]", (x, x, x[:, :3]), {}),
    "dimensions": (r"at least 2 dimensions.*query \[3\]", (x[0, 0], x, x), {}),
    "dtypes": ("float32 and .*float64", (x, x.double(), x.double()), {}),
    "mask and causal": ("not both", (x, x, x, mask), {"is_causal": True}),
    "dtype of the mask": ("float32.*int64", (x, x, x, mask.long()), {}),
    "probability": ("1.5", (x, x, x), {"dropout_p": 1.5}),
    "heads": (r"multiple.*\[3, 4, 3\].*\[2, 4, 3\]", (flambeau.ones(3, 4, 3), x, x),
              {"enable_gqa": True}),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_state_the_facts(name):
    facts, arguments, options = ERRORS[name]
    with pytest.raises(RuntimeError, match=facts):
        F.scaled_dot_product_attention(*arguments, **options)


def test_half_precision_with_keys_that_batches_share():
    arrays = Q, K[:1], V[:1]
    found = F.scaled_dot_product_attention(*(flambeau.tensor(each).bfloat16() for each in arrays))
    assert found.dtype == flambeau.bfloat16
    np.testing.assert_allclose(found.float().numpy(), expected(*arrays), rtol=0.05, atol=0.05)
