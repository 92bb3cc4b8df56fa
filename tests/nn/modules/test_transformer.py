"""Attention and the Transformer: hidden positions, hints, compiled programs."""

import pytest

import flambeau
from flambeau import nn


def steps(*shape):
    return flambeau.linspace(-1, 1, flambeau.zeros(shape).numel()).reshape(shape)


def close(found, expected):
    return flambeau.allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_a_query_that_sees_nothing_finds_zeros():
    attention = nn.MultiheadAttention(4, 2, bias=False)
    x = steps(3, 1, 4)
    hidden = flambeau.ones(3, 3, dtype=flambeau.bool)
    output, weights = attention(x, x, x, attn_mask=hidden)
    assert (output == 0).all()
    assert (weights == 0).all()


def test_hidden_keys_change_nothing():
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    x = steps(1, 4, 4)
    other = x.clone()
    other[:, 3] = 100.0
    padding = flambeau.tensor([[False, False, False, True]])
    query = x[:, :2]
    expected, _ = attention(query, x, x, key_padding_mask=padding)
    found, weights = attention(query, other, other, key_padding_mask=padding)
    assert close(found, expected)
    assert (weights[..., 3] == 0).all()


@pytest.mark.parametrize("need_weights", [True, False])
def test_the_causal_hint_changes_nothing(need_weights):
    attention = nn.MultiheadAttention(4, 2)
    x = steps(5, 2, 4)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    expected, _ = attention(x, x, x, attn_mask=mask)
    found, _ = attention(x, x, x, attn_mask=mask, is_causal=True, need_weights=need_weights)
    assert close(found, expected)


def test_masks_as_booleans_and_as_numbers_agree():
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)
    x = steps(4, 2, 4)
    hidden = flambeau.ones(4, 4, dtype=flambeau.bool).triu(1)
    numbers = nn.Transformer.generate_square_subsequent_mask(4)
    assert close(layer(x, hidden), layer(x, numbers))


def test_a_stack_starts_with_copies_of_its_layer():
    layer = nn.TransformerEncoderLayer(4, 2, 8)
    stack = nn.TransformerEncoder(layer, 2)
    first, second = stack.layers
    assert first is not layer
    assert first.linear1.weight is not second.linear1.weight
    assert (first.linear1.weight == second.linear1.weight).all()


def test_a_custom_decoder_gets_the_hints():
    class Decoder(nn.Module):
        def forward(self, tgt, memory, **options):
            self.options = options
            return tgt

    model = nn.Transformer(4, 2, 1, dim_feedforward=8, custom_decoder=Decoder())
    model(steps(3, 1, 4), steps(2, 1, 4), tgt_is_causal=True)
    assert model.decoder.options["tgt_is_causal"] is True
    assert model.decoder.options["memory_is_causal"] is False


def test_positions_are_decoded_one_by_one_as_all_at_once():
    decoder = nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    memory, target = steps(1, 3, 4), steps(1, 4, 4)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    whole = decoder(target, memory, tgt_mask=mask, tgt_is_causal=True)
    for length in (1, 3):
        part = decoder(target[:, :length], memory, tgt_mask=mask[:length, :length])
        assert close(part[:, -1], whole[:, length - 1])


def test_a_compiled_step_trains_as_an_eager_one():
    def make():
        flambeau.manual_seed(5)
        model = nn.Transformer(4, 2, 1, 1, 8, dropout=0.0)
        optimizer = flambeau.optim.SGD(model.parameters(), lr=0.5)

        def step(source, target):
            optimizer.zero_grad()
            mask = nn.Transformer.generate_square_subsequent_mask(target.size(0))
            loss = (model(source, target, tgt_mask=mask) ** 3).mean()
            loss.backward()
            optimizer.step()
            return loss

        return model, step

    sequences = steps(4, 2, 4), steps(3, 2, 4) ** 2
    (model, step), (other, other_step) = make(), make()
    compiled = flambeau.compile(other_step)
    for _ in range(3):
        assert compiled(*sequences).item() == pytest.approx(step(*sequences).item(), rel=1e-4)
    for found, expected in zip(other.parameters(), model.parameters(), strict=True):
        # Gradients of up to 30 are rounded.
        assert flambeau.allclose(found, expected, rtol=1e-4, atol=5e-5)
