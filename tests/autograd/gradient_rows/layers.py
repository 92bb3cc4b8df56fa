"""Operators that are layers or filters: convolution, pooling, normalization, attention, Fourier."""

from __future__ import annotations

import flambeau
from flambeau import fft
from flambeau.nn import functional as F
from flambeau.ops.neural import multihead
from flambeau.ops.neural.sequences.recurrent import recurrent_layers
from flambeau.ops.neural.spatial import unpooling
from flambeau.ops.signals import short_time_fourier
from tests.autograd.gradient_rows.row import (
    BATCH,
    IMAGE,
    IMAGE_KERNEL,
    INDEX,
    OTHER_BATCH,
    OTHER_SQUARE,
    SIGNAL,
    SIGNAL_KERNEL,
    SQUARE,
    VOLUME,
    VOLUME_KERNEL,
    A,
    B,
    C,
    V,
    W,
    Z,
    rows,
    spread,
)

GATES, MORE_GATES = spread(9, 3, seed=20), spread(9, 3, seed=21)
LSTM_GATES, MORE_LSTM_GATES = spread(12, 3, seed=22), spread(12, 3, seed=23)
THETA = flambeau.tensor([[[0.8, 0.1, 0.05], [-0.2, 0.7, 0.03]]], dtype=flambeau.float64)
GRID = spread(1, 2, 3, 2, low=-0.93, high=0.87, seed=24)
PLACES = flambeau.tensor([[[0, 2, 5], [1, 3, 4]]])
SAMPLES = spread(1, 2, 2, low=0.1, high=0.9, seed=25)


def layers(kind, states):
    """A recurrent layer of one direction, from its input, first states and weights."""

    def compute(x, *tensors):
        return recurrent_layers(
            x, tensors[:states], tensors[states:], (), None, kind, False, 1, False, False, 0.0
        )

    return compute


def attended(query, key, value, projection, bias, out):
    given = {"in_proj_weight": projection, "in_proj_bias": bias, "out_proj_weight": out}
    unused = ("q_proj_weight", "k_proj_weight", "v_proj_weight", "bias_k", "bias_v")
    unused += ("out_proj_bias", "static_k", "static_v", "key_padding_mask", "attn_mask")
    return multihead.multi_head_attention(
        query, key, value, **given, **dict.fromkeys(unused), dropout_mask=None, dropout_p=0.0,
        num_heads=1, add_zero_attn=True, is_causal=False, need_weights=True,
        average_attn_weights=True,
    )  # fmt: skip


ROWS = [
    *rows(
        "convolution",
        ("conv1d", lambda x, w, b: F.conv1d(x, w, b, padding=1), SIGNAL, SIGNAL_KERNEL, V[:2]),
        ("conv2d", lambda x, w: F.conv2d(x, w, padding=1), IMAGE, IMAGE_KERNEL),
        ("conv2d, strided", lambda x, w: F.conv2d(x, w, None, 2, 1), IMAGE, IMAGE_KERNEL),
        ("conv2d, groups", lambda x, w: F.conv2d(x, w, groups=2), IMAGE, IMAGE_KERNEL[:, :1]),
        ("conv2d, dilated", lambda x, w: F.conv2d(x, w, None, 1, 2, 2), IMAGE, IMAGE_KERNEL),
        ("conv3d", F.conv3d, VOLUME, VOLUME_KERNEL),
        ("conv_tbc", lambda x, w, b: F.conv_tbc(x, w, b, 1), BATCH, OTHER_BATCH, V),
        ("conv_transpose1d", F.conv_transpose1d, SIGNAL, SIGNAL_KERNEL),
        (
            "conv_transpose2d",
            lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1),
            IMAGE,
            IMAGE_KERNEL,
        ),
        ("conv_transpose3d", F.conv_transpose3d, VOLUME, VOLUME_KERNEL),
        twice="conv2d",
    ),
    *rows(
        "pooling",
        ("max_pool1d", lambda x: F.max_pool1d(x, 2), SIGNAL),
        ("max_pool2d", lambda x: F.max_pool2d(x, 2), IMAGE),
        ("max_pool2d, overlapping", lambda x: F.max_pool2d(x, 3, 1, 1), IMAGE),
        ("max_pool3d", lambda x: F.max_pool3d(x, 2), VOLUME),
        ("max_pool_with_indices", lambda x: F.max_pool2d(x, 2, return_indices=True)[0], IMAGE),
        ("avg_pool1d", lambda x: F.avg_pool1d(x, 2), SIGNAL),
        ("avg_pool2d", lambda x: F.avg_pool2d(x, 2, padding=1), IMAGE),
        ("avg_pool3d", lambda x: F.avg_pool3d(x, 2), VOLUME),
        ("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 2), SIGNAL),
        ("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 3), IMAGE),
        ("adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, 2), VOLUME),
        ("adaptive_max_pool", lambda x: F.adaptive_max_pool2d(x, 3), IMAGE),
        twice="max_pool2d",
    ),
    *rows(
        "unpooling",
        ("lp_pool", lambda x: F.lp_pool2d(x, 3.0, 2), IMAGE.abs()),
        (
            "max_unpool",
            lambda x: unpooling.max_unpool(x, PLACES, 1, (6,)),
            A[None],
        ),
        (
            "fractional_max_pool",
            lambda x: unpooling.fractional_max_pool(x, SAMPLES, (2, 2), (2, 2))[0],
            IMAGE,
        ),
    ),
    *rows(
        "normalization",
        ("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), BATCH, V, W),
        ("batch_norm, evaluated", lambda x: F.batch_norm(x, V, W.abs()), A),
        ("instance_norm", lambda x: F.instance_norm(x), IMAGE),
        ("layer_norm", lambda x, w, b: F.layer_norm(x, (3,), w, b), A, V, W),
        ("group_norm", lambda x, w, b: F.group_norm(x, 1, w, b), IMAGE, V[:2], W[:2]),
        ("rms_norm", lambda x, w: F.rms_norm(x, (3,), w), A, V),
        ("local_response_norm", lambda x: F.local_response_norm(x, 2, 0.1), IMAGE),
        ("normalize", lambda x: F.normalize(x), A),
        twice="batch_norm layer_norm",
    ),
    *rows(
        "attention",
        ("scaled_dot_product_attention", F.scaled_dot_product_attention, A, B, C),
        (
            "scaled_dot_product_attention, causal",
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            BATCH,
            OTHER_BATCH,
            BATCH,
        ),
        (
            "scaled_dot_product_attention, masked",
            lambda q, k, v, s: F.scaled_dot_product_attention(q, k, v, s),
            A,
            SQUARE,
            OTHER_SQUARE,
            B,
        ),
        twice="scaled_dot_product_attention",
    ),
    *rows(
        "multihead",
        (
            "multi_head_attention",
            attended,
            BATCH,
            OTHER_BATCH,
            BATCH,
            GATES,
            spread(9, seed=26),
            SQUARE,
        ),
    ),
    *rows(
        "recurrent",
        (
            "recurrent_layers",
            layers("gru", 1),
            BATCH,
            A[:, None][:1].repeat(1, 3, 1),
            GATES,
            MORE_GATES,
        ),
        (
            "recurrent_layers, lstm",
            layers("lstm", 2),
            A[:, None],
            V[None, None],
            W[None, None],
            LSTM_GATES,
            MORE_LSTM_GATES,
        ),
        ("cell", flambeau.gru_cell, A, B, GATES, MORE_GATES),
        (
            "cell, lstm",
            lambda x, h, c, w, u: flambeau.lstm_cell(x, (h, c), w, u),
            A,
            B,
            C,
            LSTM_GATES,
            MORE_LSTM_GATES,
        ),
        ("cell, tanh", flambeau.rnn_tanh_cell, A, B, SQUARE, OTHER_SQUARE),
        twice="cell",
    ),
    *rows(
        "embedding",
        ("embedding", lambda w: F.embedding(INDEX, w), SQUARE),
        ("embedding_bag", lambda w: F.embedding_bag(INDEX, w, mode="mean"), SQUARE),
        (
            "embedding_bag, weighted",
            lambda w, s: F.embedding_bag(INDEX, w, mode="sum", per_sample_weights=s),
            SQUARE,
            A,
        ),
        ("embedding_bag, max", lambda w: F.embedding_bag(INDEX, w, mode="max"), SQUARE),
        twice="embedding",
    ),
    *rows(
        "grids",
        (
            "affine_grid_generator",
            lambda t: F.affine_grid(t, (1, 2, 2, 3), align_corners=False),
            THETA,
        ),
        ("grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False), IMAGE, GRID),
        (
            "grid_sample, bicubic",
            lambda x, g: F.grid_sample(x, g, "bicubic", "border", align_corners=True),
            IMAGE,
            GRID,
        ),
    ),
    *rows(
        "fourier",
        ("complex_to_complex", lambda z: fft.ifft(z, 4), Z),
        ("real_to_complex", lambda x: fft.rfft(x), A),
        ("complex_to_real", lambda z: fft.irfft(z, norm="ortho"), Z),
    ),
    *rows(
        "short_time_fourier",
        ("overlap_add", lambda x: short_time_fourier._overlap_add(x, 1), A),
    ),
    *rows(
        "resampling",
        ("interpolate_nearest", lambda x: F.interpolate(x, 7), SIGNAL),
        ("interpolate_smoothly", lambda x: F.interpolate(x, (3, 5), mode="bicubic"), IMAGE),
        ("interpolate_smoothly, linear", lambda x: F.interpolate(x, 7, mode="linear"), SIGNAL),
    ),
]
