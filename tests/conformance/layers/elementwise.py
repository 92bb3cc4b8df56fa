"""Activations, dropout, tables, distances and changes of shape."""

from __future__ import annotations

import numpy as np

from tests.conformance.layers.table import Constant, integers, normal, row

# Activations

for name in (
    "ReLU", "ReLU6", "SiLU", "Mish", "SELU", "Hardsigmoid", "Hardswish", "Hardtanh", "CELU", "ELU",
    "LeakyReLU",
):  # fmt: skip
    row(name, lambda lib, name=name: getattr(lib.nn, name)(), 3 * normal(2, 6))
    row(
        f"{name}-inplace",
        lambda lib, name=name: getattr(lib.nn, name)(inplace=True),
        Constant(3 * normal(2, 6)),
    )
for name in (
    "Sigmoid", "Tanh", "LogSigmoid", "Softsign", "Tanhshrink", "GELU", "GLU", "Hardshrink",
    "Softshrink", "Softplus", "PReLU",
):  # fmt: skip
    row(name, lambda lib, name=name: getattr(lib.nn, name)(), 3 * normal(2, 6))
for name, build in {
    "CELU": lambda lib: lib.nn.CELU(0.5),
    "ELU": lambda lib: lib.nn.ELU(0.5),
    "GELU": lambda lib: lib.nn.GELU("tanh"),
    "GLU": lambda lib: lib.nn.GLU(0),
    "Hardshrink": lambda lib: lib.nn.Hardshrink(0.7),
    "Hardtanh": lambda lib: lib.nn.Hardtanh(-2, 3),
    "LeakyReLU": lambda lib: lib.nn.LeakyReLU(0.2),
    "PReLU": lambda lib: lib.nn.PReLU(6, init=0.1),
    "Softplus": lambda lib: lib.nn.Softplus(2, 3),
    "Softshrink": lambda lib: lib.nn.Softshrink(0.7),
    "Threshold": lambda lib: lib.nn.Threshold(0.1, 20),
    "Softmax": lambda lib: lib.nn.Softmax(1),
    "Softmin": lambda lib: lib.nn.Softmin(1),
    "LogSoftmax": lambda lib: lib.nn.LogSoftmax(1),
    "Softmax-implicit": lambda lib: lib.nn.Softmax(),
}.items():
    row(f"{name}-options", build, 3 * normal(2, 6))
# In training PyTorch draws slopes for negative elements only; flambeau draws one for each.
row("RReLU", lambda lib: lib.nn.RReLU(), 3 * normal(2, 6), modes=("evaluation",))
row("RReLU-options", lambda lib: lib.nn.RReLU(0.1, 0.2), normal(2, 6), modes=("evaluation",))
row(
    "RReLU-inplace",
    lambda lib: lib.nn.RReLU(inplace=True),
    Constant(3 * normal(2, 6)),
    modes=("evaluation",),
)
row("Threshold-inplace", lambda lib: lib.nn.Threshold(0, -1, True), Constant(normal(2, 6)))
row("Softmax2d", lambda lib: lib.nn.Softmax2d(), normal(1, 3, 2, 2))

# Dropout

for name in ("Dropout", "AlphaDropout"):
    row(name, lambda lib, name=name: getattr(lib.nn, name)(0.4), normal(4, 5))
for name, shape in {
    "Dropout1d": (3, 4, 2),
    "Dropout2d": (3, 4, 2, 2),
    "Dropout3d": (3, 4, 2, 2, 2),
    "FeatureAlphaDropout": (3, 4, 2),
}.items():
    row(name, lambda lib, name=name: getattr(lib.nn, name)(), normal(*shape))
# Anything but five dimensions has no batch, and its first dimension is its channels.
for count in (1, 2, 3, 4):
    row(f"Dropout3d-{count}", lambda lib: lib.nn.Dropout3d(), normal(*(5, 4, 3, 2)[:count]))
row("Dropout2d-2", lambda lib: lib.nn.Dropout2d(), normal(3, 4))
row("FeatureAlphaDropout-2", lambda lib: lib.nn.FeatureAlphaDropout(), normal(3, 4))
for name in ("Dropout2d", "FeatureAlphaDropout"):
    row(
        f"{name}-1",
        lambda lib, name=name: getattr(lib.nn, name)(),
        normal(4),
        modes=("evaluation",),
    )
row("Dropout-inplace", lambda lib: lib.nn.Dropout(0.4, inplace=True), Constant(normal(4, 5)))
row("Dropout-1", lambda lib: lib.nn.Dropout(1.0), normal(4, 5))
row("Dropout-0", lambda lib: lib.nn.Dropout(0.0), normal(4, 5))

# Tables

row("Embedding", lambda lib: lib.nn.Embedding(5, 3), integers(5, 2, 4))
row("Embedding-padding", lambda lib: lib.nn.Embedding(5, 3, padding_idx=-2), integers(5, 2, 4))
row("Embedding-norm", lambda lib: lib.nn.Embedding(5, 3, max_norm=0.7), integers(5, 2, 4))
row(
    "Embedding-frequency",
    lambda lib: lib.nn.Embedding(5, 3, norm_type=1.0, scale_grad_by_freq=True),
    integers(5, 2, 4),
)
row(
    "Embedding-pretrained",
    lambda lib: lib.nn.Embedding.from_pretrained(lib.ones(4, 2), freeze=False, padding_idx=1),
    integers(4, 3),
)
for mode in ("sum", "mean", "max"):
    row(
        f"EmbeddingBag-{mode}",
        lambda lib, mode=mode: lib.nn.EmbeddingBag(5, 3, mode=mode, padding_idx=1),
        integers(5, 2, 4),
    )
    row(
        f"EmbeddingBag-{mode}-offsets",
        lambda lib, mode=mode: lib.nn.EmbeddingBag(5, 3, mode=mode, include_last_offset=True),
        integers(5, 6),
        np.array([0, 2, 2, 6]),
    )
row(
    "EmbeddingBag-weights",
    lambda lib: lib.nn.EmbeddingBag(5, 3, max_norm=1.0, mode="sum"),
    integers(5, 6),
    np.array([0, 2, 4]),
    normal(6),
)

# Distances and shapes

row("PairwiseDistance", lambda lib: lib.nn.PairwiseDistance(), normal(2, 4), normal(2, 4))
row(
    "PairwiseDistance-options",
    lambda lib: lib.nn.PairwiseDistance(p=1, eps=1e-3, keepdim=True),
    normal(2, 4),
    normal(2, 4),
)
row("CosineSimilarity", lambda lib: lib.nn.CosineSimilarity(), normal(2, 4), normal(2, 4))
row("CosineSimilarity-0", lambda lib: lib.nn.CosineSimilarity(dim=0), normal(2, 4), normal(2, 4))
row("Flatten", lambda lib: lib.nn.Flatten(), normal(2, 3, 2))
row("Flatten-options", lambda lib: lib.nn.Flatten(0, 1), normal(2, 3, 2))
row("Unflatten", lambda lib: lib.nn.Unflatten(1, (2, -1)), normal(2, 4))
row("ChannelShuffle", lambda lib: lib.nn.ChannelShuffle(2), normal(1, 4, 2, 2))
row("PixelShuffle", lambda lib: lib.nn.PixelShuffle(2), normal(1, 4, 2, 3))
row("PixelUnshuffle", lambda lib: lib.nn.PixelUnshuffle(2), normal(1, 1, 4, 6))
row("Upsample", lambda lib: lib.nn.Upsample(scale_factor=2), normal(1, 2, 3))
row("Upsample-size", lambda lib: lib.nn.Upsample((4, 5), mode="nearest"), normal(1, 2, 3, 3))
row(
    "Upsample-linear",
    lambda lib: lib.nn.Upsample(scale_factor=1.5, mode="linear", align_corners=True),
    normal(1, 2, 4),
)
row(
    "Upsample-bicubic",
    lambda lib: lib.nn.Upsample(scale_factor=(2, 1.5), mode="bicubic"),
    normal(1, 1, 4, 4),
)
row("Upsample-trilinear", lambda lib: lib.nn.Upsample(3, mode="trilinear"), normal(1, 1, 2, 2, 2))
row("UpsamplingNearest2d", lambda lib: lib.nn.UpsamplingNearest2d(4), normal(1, 1, 3, 3))
row(
    "UpsamplingBilinear2d",
    lambda lib: lib.nn.UpsamplingBilinear2d(scale_factor=2),
    normal(1, 1, 3, 3),
)
