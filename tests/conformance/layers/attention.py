"""Attention of several heads, and the Transformer."""

from __future__ import annotations

import numpy as np

from tests.conformance.layers.table import normal, row

# Attention: L = 3 queries, S = 4 keys, N = 2 sequences, 4 features, 2 heads

QUERY, KEY, VALUE = (3, 2, 4), (4, 2, 4), (4, 2, 4)
HIDDEN = np.array([[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 1, 1]], bool)
PADDED = np.array([[0, 0, 0, 1], [0, 0, 1, 1]], bool)


def attention(name, *shapes, build=None, tolerance=2e-5, **call):
    build = {} if build is None else build
    row(
        f"MultiheadAttention-{name}",
        lambda lib: lib.nn.MultiheadAttention(4, 2, **build),
        *(normal(*shape) for shape in shapes or (QUERY, KEY, VALUE)),
        call=call,
        tolerance=tolerance,
    )


attention("plain")
attention("no-weights", need_weights=False)
attention("weights-of-heads", average_attn_weights=False)
attention("no-bias", build={"bias": False}, need_weights=False)
attention("mask", attn_mask=HIDDEN)
attention("mask-numbers", attn_mask=normal(3, 4), need_weights=False)
attention("mask-of-heads", attn_mask=normal(4, 3, 4))
attention("mask-of-heads-hidden", attn_mask=np.stack([HIDDEN] * 4), need_weights=False)
attention("padding", key_padding_mask=PADDED)
attention("padding-numbers", key_padding_mask=normal(2, 4), need_weights=False)
attention("both-masks", attn_mask=HIDDEN[::-1].copy(), key_padding_mask=PADDED, need_weights=False)
attention("mixed-masks", attn_mask=normal(3, 4), key_padding_mask=PADDED)
attention(
    "bias-kv",
    build={"add_bias_kv": True, "add_zero_attn": True},
    attn_mask=HIDDEN,
    key_padding_mask=PADDED,
)
attention("bias-kv-no-weights", build={"add_bias_kv": True}, need_weights=False)
attention("dims", QUERY, (4, 2, 3), (4, 2, 5), build={"kdim": 3, "vdim": 5})
attention(
    "dims-bias-kv",
    QUERY,
    (4, 2, 3),
    (4, 2, 4),
    build={"kdim": 3, "add_bias_kv": True, "bias": False},
    need_weights=False,
)
attention("dropout", build={"dropout": 0.4})
attention("dropout-no-weights", build={"dropout": 0.4}, need_weights=False)
attention(
    "batch-first", (2, 3, 4), (2, 4, 4), (2, 4, 4), build={"batch_first": True}, attn_mask=HIDDEN
)
attention("unbatched", (3, 4), (4, 4), (4, 4), key_padding_mask=PADDED[1], attn_mask=HIDDEN)
attention("unbatched-batch-first", (3, 4), (4, 4), (4, 4), build={"batch_first": True})
attention(
    "causal",
    (3, 2, 4),
    (3, 2, 4),
    (3, 2, 4),
    attn_mask=np.triu(np.full((3, 3), -np.inf, "f4"), 1),
    is_causal=True,
    need_weights=False,
)
row(
    "MultiheadAttention-double",
    lambda lib: lib.nn.MultiheadAttention(4, 1, dtype=lib.float64),
    *(normal(*shape).astype("f8") for shape in (QUERY, KEY, VALUE)),
)


def shared(lib):
    """A layer that attends to its own input, so that query, key and value are one tensor."""

    class Own(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = lib.nn.MultiheadAttention(4, 2, batch_first=True, add_zero_attn=True)

        def forward(self, x):
            return self.attention(x, x, x)

    return Own()


row("MultiheadAttention-own", shared, normal(2, 3, 4))

# The Transformer: T = 3 target and S = 4 source positions, N = 2 sequences

CAUSAL = np.triu(np.ones((3, 3), bool), 1)
LAYER = {"dim_feedforward": 5, "dropout": 0.0}


def layer(name, *shapes, build=None, **call):
    options = LAYER | ({} if build is None else build)
    kind = name.split("-")[0]
    row(
        name,
        lambda lib: getattr(lib.nn, kind)(4, 2, **options),
        *(normal(*shape) for shape in shapes),
        call=call,
        tolerance=5e-5,
    )


SOURCE, TARGET = (4, 2, 4), (3, 2, 4)

layer("TransformerEncoderLayer-plain", SOURCE)
layer("TransformerEncoderLayer-dropout", SOURCE, build={"dropout": 0.3, "activation": "gelu"})
layer(
    "TransformerEncoderLayer-masks",
    (2, 3, 4),
    build={"norm_first": True, "batch_first": True, "layer_norm_eps": 1e-3},
    src_mask=CAUSAL,
    src_key_padding_mask=PADDED[:, 1:],
)
layer("TransformerEncoderLayer-unbatched", (3, 4), build={"bias": False}, src_mask=normal(3, 3))
layer(
    "TransformerEncoderLayer-causal",
    TARGET,
    src_mask=np.triu(np.full((3, 3), -np.inf, "f4"), 1),
    is_causal=True,
)
layer("TransformerDecoderLayer-plain", TARGET, SOURCE)
layer(
    "TransformerDecoderLayer-dropout",
    TARGET,
    SOURCE,
    build={"dropout": 0.3, "norm_first": True, "activation": "gelu"},
)
layer(
    "TransformerDecoderLayer-masks",
    (2, 3, 4),
    (2, 4, 4),
    build={"batch_first": True},
    tgt_mask=CAUSAL,
    memory_mask=HIDDEN,
    tgt_key_padding_mask=np.array([[0, 0, 0], [0, 0, 1]], bool),
    memory_key_padding_mask=np.array([[0, 0, 0, 0], [0, 0, 0, 1]], bool),
)
layer("TransformerDecoderLayer-unbatched", (3, 4), (4, 4), build={"bias": False})


def stack(name, build, *shapes, **call):
    row(name, build, *(normal(*shape) for shape in shapes), call=call, tolerance=5e-5)


stack(
    "TransformerEncoder-plain",
    lambda lib: lib.nn.TransformerEncoder(lib.nn.TransformerEncoderLayer(4, 2, **LAYER), 2),
    SOURCE,
)
stack(
    "TransformerEncoder-norm",
    lambda lib: lib.nn.TransformerEncoder(
        lib.nn.TransformerEncoderLayer(4, 2, batch_first=True, **LAYER),
        2,
        norm=lib.nn.LayerNorm(4),
        enable_nested_tensor=False,
    ),
    (2, 4, 4),
    src_key_padding_mask=PADDED,
)
stack(
    "TransformerEncoder-causal",
    lambda lib: lib.nn.TransformerEncoder(lib.nn.TransformerEncoderLayer(4, 2, **LAYER), 1),
    TARGET,
    mask=CAUSAL,
)
stack(
    "TransformerDecoder-norm",
    lambda lib: lib.nn.TransformerDecoder(
        lib.nn.TransformerDecoderLayer(4, 2, **LAYER), 2, norm=lib.nn.LayerNorm(4)
    ),
    TARGET,
    SOURCE,
    tgt_mask=np.triu(np.full((3, 3), -np.inf, "f4"), 1),
)
stack(
    "Transformer-plain",
    lambda lib: lib.nn.Transformer(4, 2, 1, 1, **LAYER),
    SOURCE,
    TARGET,
    src_mask=normal(4, 4),
    tgt_mask=CAUSAL,
    memory_mask=HIDDEN,
)
stack(
    "Transformer-dropout",
    lambda lib: lib.nn.Transformer(
        4, 2, 2, 1, 5, 0.2, "gelu", batch_first=True, norm_first=True, bias=False
    ),
    (2, 4, 4),
    (2, 3, 4),
    src_key_padding_mask=PADDED,
    memory_key_padding_mask=PADDED,
)
stack(
    "Transformer-custom",
    lambda lib: lib.nn.Transformer(
        4,
        2,
        num_decoder_layers=1,
        custom_encoder=lib.nn.TransformerEncoder(lib.nn.TransformerEncoderLayer(4, 1, 3, 0.0), 1),
        **LAYER,
    ),
    (4, 4),
    (3, 4),
)
