"""`flex_attention`: what PyTorch cannot show on a CPU, and what is this library's own."""

from __future__ import annotations

import math

import pytest

import flambeau
from flambeau.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    create_block_mask,
    flex_attention,
    noop_mask,
)


def tensors(requires_grad=False, dtype=None):
    flambeau.manual_seed(0)
    return [
        flambeau.randn(2, 4, 6, 8).to(dtype or flambeau.float32).requires_grad_(requires_grad)
        for _ in range(3)
    ]


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def test_the_greatest_scores_take_no_gradient():
    query, key, value = tensors(requires_grad=True)
    _, aux = flex_attention(query, key, value, return_aux=AuxRequest(max_scores=True))
    scores = query @ key.mT / math.sqrt(8)
    assert flambeau.allclose(aux.max_scores, scores.amax(-1))
    assert not aux.max_scores.requires_grad
    assert aux.lse is None


def test_return_lse_is_deprecated_and_works():
    query, key, value = tensors()
    with pytest.warns(FutureWarning, match="return_aux"):
        result, lse = flex_attention(query, key, value, return_lse=True)
    assert result.shape == (2, 4, 6, 8)
    assert lse.shape == (2, 4, 6)


def test_half_precision_is_computed_in_single_precision():
    given = tensors(dtype=flambeau.bfloat16)
    result, aux = flex_attention(*given, return_aux=AuxRequest(lse=True))
    assert result.dtype is flambeau.bfloat16
    assert aux.lse.dtype is flambeau.float32
    exact = flex_attention(*(each.float() for each in given))
    assert flambeau.allclose(result.float(), exact, atol=0.05)


def test_gradients_are_those_of_differences():
    flambeau.manual_seed(0)
    query, key, value = (
        flambeau.randn(1, 1, 3, 2, dtype=flambeau.float64, requires_grad=True) for _ in range(3)
    )
    bias = flambeau.randn(5, dtype=flambeau.float64, requires_grad=True)
    mask = create_block_mask(causal, None, None, 3, 3)

    def attend(query, key, value, bias):
        def relative(score, b, h, q_idx, kv_idx):
            return score.tanh() + bias[q_idx - kv_idx + 2]

        return flex_attention(query, key, value, relative, mask)

    assert flambeau.autograd.gradcheck(attend, (query, key, value, bias))
    assert flambeau.autograd.gradgradcheck(attend, (query, key, value, bias))


def test_a_compiled_function_takes_masks_and_captured_tensors_as_they_are():
    given = tensors()
    documents = flambeau.tensor([0, 0, 0, 1, 1, 1])
    mask = create_block_mask(
        lambda b, h, q, kv: documents[q] == documents[kv], None, None, 6, 6, BLOCK_SIZE=2
    )
    compiled = flambeau.compile(lambda *given: flex_attention(*given, block_mask=mask))
    for ids in ([0, 0, 0, 1, 1, 1], [0, 1, 1, 1, 2, 2]):
        documents.copy_(flambeau.tensor(ids))
        same = flambeau.tensor(ids)[:, None] == flambeau.tensor(ids)
        expected = flambeau.nn.functional.scaled_dot_product_attention(*given, attn_mask=same)
        assert flambeau.allclose(compiled(*given), expected, atol=1e-6)


def test_a_compiled_step_trains_a_captured_bias():
    given = tensors()
    biases = [flambeau.nn.Parameter(flambeau.zeros(4)) for _ in range(2)]

    def step(bias, optimizer):
        optimizer.zero_grad()
        result = flex_attention(*given, lambda score, b, h, q, kv: score * bias[h])
        loss = result.square().mean()
        loss.backward()
        optimizer.step()
        return loss

    optimizers = [flambeau.optim.SGD([each], lr=1.0) for each in biases]
    compiled = flambeau.compile(step)
    for _ in range(3):
        one, other = step(biases[0], optimizers[0]), compiled(biases[1], optimizers[1])
        assert flambeau.allclose(one, other)
    assert flambeau.allclose(biases[0], biases[1])
    assert biases[0].abs().min() > 0


def test_masks_are_made_in_compiled_functions():
    make = flambeau.compile(
        lambda: create_block_mask(causal, None, None, 8, 6, BLOCK_SIZE=2).kv_indices
    )
    assert (
        make().tolist()
        == create_block_mask(causal, None, None, 8, 6, BLOCK_SIZE=2).kv_indices.tolist()
    )


def test_one_key_and_value_serve_a_batch_of_queries():
    query, key, value = tensors()
    mask = create_block_mask(noop_mask, 2, 1, 6, 6)
    found = flex_attention(query, key[:1], value[:1], block_mask=mask)
    expected = flex_attention(query, key[:1].expand(2, -1, -1, -1), value[:1].expand(2, -1, -1, -1))
    assert flambeau.allclose(found, expected)


def test_a_mask_is_made_of_blocks():
    counts = flambeau.tensor([[[1, 2]]], dtype=flambeau.int32)
    columns = flambeau.tensor([[[[0, 1], [0, 1]]]], dtype=flambeau.int32)
    mask = BlockMask.from_kv_blocks(counts, columns, BLOCK_SIZE=4, mask_mod=causal)
    assert mask.shape == (1, 1, 8, 8)
    assert mask.q_num_blocks.tolist() == [[[2, 1]]]
    assert mask.to_dense().tolist() == [[[[1, 0], [1, 1]]]]
    assert mask.as_tuple()[:2] == (8, 8)
    assert mask.as_tuple()[-1] is causal
    assert mask.as_tuple(flatten=False)[0] == (8, 8)


def test_a_mask_is_shown():
    mask = create_block_mask(causal, None, None, 8, 8, BLOCK_SIZE=4)
    assert str(mask).splitlines() == [
        "BlockMask(shape=(1, 1, 8, 8), sparsity=25.00%, ",
        "(0, 0)",
        "██  ",
        "████",
        ")",
    ]
    assert "mask_mod=causal" in repr(mask)
    assert "kv_num_blocks=flambeau.Size([1, 1, 2])" in repr(mask)


def test_errors_say_what_to_do():
    query, key, value = tensors()
    mask = create_block_mask(causal, None, None, 8, 8)
    with pytest.raises(ValueError, match="_adjust"):
        flex_attention(query, key, value, block_mask=mask)
    with pytest.raises(ValueError, match="enable_gqa=True"):
        flex_attention(query, key[:, :2], value[:, :2])
    with pytest.raises(RuntimeError, match="sliced"):
        flex_attention(query, key, value, block_mask=mask[0])
