"""What the Transformer and its attention refuse, and their masks, as PyTorch has them.

What they compute is in the table of all layers.
"""

import numpy as np
import pytest
import torch

import flambeau
from tests.conformance.expression import check
from tests.conformance.small_layers import normal


def attention(lib, *shapes, **call):
    layer = lib.nn.MultiheadAttention(4, 2)
    return layer(*(lib.zeros(shape) for shape in shapes or [(3, 2, 4)] * 3), **call)


def merged(lib, attn_mask, key_padding_mask):
    layer = lib.nn.MultiheadAttention(4, 2)
    masks = [None if each is None else lib.tensor(each) for each in (attn_mask, key_padding_mask)]
    return layer.merge_masks(*masks, lib.zeros(2, 3, 4))


def transformer(lib, *shapes, **options):
    model = lib.nn.Transformer(4, 2, 1, 1, 3, **options)
    return model(*(lib.zeros(shape) for shape in shapes)).shape


SQUARE = [[0.0, 1.0, 2.0]] * 3

SAME = {
    "causal mask": lambda lib: lib.nn.Transformer.generate_square_subsequent_mask(3),
    "causal mask of one": lambda lib: lib.nn.Transformer.generate_square_subsequent_mask(1),
    "causal mask as double": lambda lib: lib.nn.Transformer.generate_square_subsequent_mask(
        2, dtype=lib.float64
    ),
    "merged nothing": lambda lib: merged(lib, None, None),
    "merged padding": lambda lib: merged(lib, None, [[0.0, 0, 1]] * 2),
    "merged mask": lambda lib: merged(lib, SQUARE, None),
    "merged mask of heads": lambda lib: merged(lib, [SQUARE] * 4, None),
    "merged both": lambda lib: merged(lib, SQUARE, [[0.0, 0, 1]] * 2),
    "no features": lambda lib: lib.nn.MultiheadAttention(0, 1),
    "no heads": lambda lib: lib.nn.MultiheadAttention(4, 0),
    "heads do not divide": lambda lib: lib.nn.MultiheadAttention(4, 3),
    "features of the query": lambda lib: attention(lib, (3, 2, 6), (3, 2, 4), (3, 2, 4)),
    "other dimensions of the key": lambda lib: attention(lib, (3, 2, 4), (3, 4), (3, 4)),
    "other length of the value": lambda lib: attention(lib, (3, 2, 4), (3, 2, 4), (2, 2, 4)),
    "shape of the mask": lambda lib: attention(lib, attn_mask=lib.zeros(3, 4)),
    "shape of the mask of heads": lambda lib: attention(lib, attn_mask=lib.zeros(3, 3, 3)),
    "dimensions of the mask": lambda lib: attention(lib, attn_mask=lib.zeros(3)),
    "integer mask": lambda lib: attention(lib, attn_mask=lib.zeros(3, 3, dtype=lib.int64)),
    "integer padding": lambda lib: attention(
        lib, key_padding_mask=lib.zeros(2, 3, dtype=lib.int64)
    ),
    "dimensions of the padding": lambda lib: attention(lib, key_padding_mask=lib.zeros(3)),
    "causal without mask": lambda lib: attention(lib, is_causal=True, need_weights=False),
    "mixed masks warn": lambda lib: attention(
        lib,
        attn_mask=lib.zeros(3, 3),
        key_padding_mask=lib.zeros(2, 3, dtype=lib.bool),
    )[0].dim(),
    "mixed masks of an encoder layer warn": lambda lib: lib.nn.TransformerEncoderLayer(4, 2, 3)(
        lib.zeros(3, 2, 4), lib.zeros(3, 3), lib.zeros(2, 3, dtype=lib.bool)
    ).dim(),
    "unknown activation": lambda lib: lib.nn.TransformerEncoderLayer(4, 2, activation="tanh"),
    "unknown activation of a decoder": lambda lib: lib.nn.TransformerDecoderLayer(
        4, 2, activation="tanh"
    ),
    "activation as a module": lambda lib: lib.nn.TransformerEncoderLayer(
        4, 2, activation=lib.nn.GELU()
    ).activation_relu_or_gelu,
    "activation as a function": lambda lib: lib.nn.TransformerEncoderLayer(
        4, 2, activation=lib.tanh
    ).activation_relu_or_gelu,
    "activation by default": lambda lib: lib.nn.TransformerEncoderLayer(
        4, 2
    ).activation_relu_or_gelu,
    "attributes": lambda lib: tuple(
        getattr(lib.nn.MultiheadAttention(4, 2, kdim=3), name)
        for name in (
            "embed_dim", "kdim", "vdim", "_qkv_same_embed_dim", "num_heads", "dropout",
            "batch_first", "head_dim", "in_proj_weight", "bias_k", "add_zero_attn",
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_same_as_pytorch(name):
    check(SAME[name])


# PyTorch also warns that it will not use its nested tensors, which do not exist here.
@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
@pytest.mark.parametrize(
    ("shapes", "options"),
    [
        ([(3, 2, 4), (3, 1, 4)], {}),
        ([(3, 2, 4), (2, 2, 4)], {"batch_first": True}),
        ([(3, 2, 4), (3, 2, 5)], {}),
    ],
)
def test_transformer_refuses_sequences_that_do_not_fit(shapes, options):
    for lib in (torch, flambeau):
        with pytest.raises(RuntimeError):
            transformer(lib, *shapes, **options)


def test_a_checkpoint_passes_between_the_libraries():
    options = {"batch_first": True, "dropout": 0.0}
    theirs = torch.nn.Transformer(8, 2, 2, 2, 16, **options).eval()
    ours = flambeau.nn.Transformer(8, 2, 2, 2, 16, **options).eval()
    state = {key: flambeau.tensor(value.numpy()) for key, value in theirs.state_dict().items()}
    ours.load_state_dict(state)
    inputs = [(2, 5, 8), (2, 4, 8)]
    expected = theirs(*(normal(torch, *shape) for shape in inputs)).detach().numpy()
    found = ours(*(normal(flambeau, *shape) for shape in inputs)).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
