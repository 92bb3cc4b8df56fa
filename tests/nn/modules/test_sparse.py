"""Tables of vectors."""

import pytest

import flambeau
from flambeau import nn


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_padding_row_counts_from_either_end(kind):
    layer = kind(4, 2, padding_idx=-1)
    assert layer.padding_idx == 3
    assert layer.weight[3].tolist() == [0.0, 0.0]
    assert layer.weight.abs().sum(1).ne(0).tolist() == [True, True, True, False]
    for wrong in (4, -5):
        with pytest.raises(AssertionError, match=f"from -4 to 3, got {wrong}"):
            kind(4, 2, padding_idx=wrong)


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_pretrained_table_is_shared_and_frozen(kind):
    table = flambeau.ones(3, 2)
    layer = kind.from_pretrained(table)
    assert not layer.weight.requires_grad
    table[0] = 5.0
    assert layer.weight[0].tolist() == [5.0, 5.0]
    assert kind.from_pretrained(table, freeze=False).weight.requires_grad
    with pytest.raises(AssertionError, match=r"must be a matrix, got shape \[3\]"):
        kind.from_pretrained(flambeau.ones(3))


def test_given_weight_must_have_the_shape_named():
    with pytest.raises(AssertionError, match=r"shape \[3, 2\].*\[3, 4\]"):
        nn.Embedding(3, 4, _weight=flambeau.ones(3, 2))


def test_rows_are_scaled_down_in_place():
    layer = nn.Embedding.from_pretrained(flambeau.full((3, 4), 2.0), max_norm=1.0)
    layer(flambeau.tensor([0, 2]))
    assert layer.weight.norm(dim=1).round().tolist() == [1.0, 4.0, 1.0]
