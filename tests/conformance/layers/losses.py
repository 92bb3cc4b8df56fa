"""Losses."""

from __future__ import annotations

import numpy as np

from tests.conformance.layers.table import Constant, integers, normal, row, signs, uniform

# Losses

REDUCTIONS = ("mean", "sum", "none")
probabilities = uniform(4, 3)
probabilities /= probabilities.sum(1, keepdims=True)
for reduction in REDUCTIONS:
    for name, inputs in {
        "L1Loss": (normal(4, 3), normal(4, 3)),
        "MSELoss": (normal(4, 3), normal(4, 3)),
        "SmoothL1Loss": (normal(4, 3), 2 * normal(4, 3)),
        "HuberLoss": (normal(4, 3), 2 * normal(4, 3)),
        "PoissonNLLLoss": (normal(4, 3), Constant(uniform(4, 3) * 5)),
        "GaussianNLLLoss": (normal(4, 3), normal(4, 3), uniform(4, 3)),
        "KLDivLoss": (np.log(uniform(4, 3)), Constant(uniform(4, 3))),
        "NLLLoss": (np.log(uniform(4, 3)), integers(3, 4)),
        "CrossEntropyLoss": (normal(4, 3), integers(3, 4)),
        "BCELoss": (uniform(4, 3), Constant(uniform(4, 3))),
        "BCEWithLogitsLoss": (normal(4, 3), Constant(uniform(4, 3))),
        "HingeEmbeddingLoss": (normal(4, 3), Constant(signs(4, 3))),
        "SoftMarginLoss": (normal(4, 3), Constant(signs(4, 3))),
        "MultiMarginLoss": (normal(4, 3), integers(3, 4)),
        "MultiLabelMarginLoss": (normal(2, 4), np.array([[3, 0, -1, 1], [1, -1, 0, 0]])),
        "MultiLabelSoftMarginLoss": (normal(4, 3), Constant(np.round(uniform(4, 3)))),
        "CosineEmbeddingLoss": (normal(4, 3), normal(4, 3), Constant(signs(4))),
        "MarginRankingLoss": (normal(4), normal(4), Constant(signs(4))),
        "TripletMarginLoss": (normal(4, 3), normal(4, 3), normal(4, 3)),
        "TripletMarginWithDistanceLoss": (normal(4, 3), normal(4, 3), normal(4, 3)),
    }.items():
        row(
            f"{name}-{reduction}",
            lambda lib, name=name, reduction=reduction: getattr(lib.nn, name)(reduction=reduction),
            *inputs,
        )
    row(
        f"CTCLoss-{reduction}",
        lambda lib, reduction=reduction: lib.nn.CTCLoss(reduction=reduction),
        np.log(uniform(6, 2, 4)),
        1 + integers(3, 2, 3),
        np.array([6, 5]),
        np.array([3, 2]),
        tolerance=1e-4,
    )
    row(
        f"LinearCrossEntropyLoss-{reduction}",
        lambda lib, reduction=reduction: lib.nn.LinearCrossEntropyLoss(4, 3, reduction=reduction),
        normal(2, 4),
        integers(3, 2),
    )
row("KLDivLoss-batch", lambda lib: lib.nn.KLDivLoss(reduction="batchmean"), *2 * [-uniform(4, 3)])
row("KLDivLoss-log", lambda lib: lib.nn.KLDivLoss(log_target=True), *2 * [-uniform(4, 3)])
row(
    "NLLLoss-weight",
    lambda lib: lib.nn.NLLLoss(weight=lib.tensor([1.0, 2.0, 0.5]), ignore_index=1),
    normal(4, 3, 2),
    integers(3, 4, 2),
)
row(
    "CrossEntropyLoss-options",
    lambda lib: lib.nn.CrossEntropyLoss(
        weight=lib.tensor([1.0, 2.0, 0.5]), ignore_index=1, label_smoothing=0.2
    ),
    normal(4, 3),
    integers(3, 4),
)
row(
    "CrossEntropyLoss-probabilities",
    lambda lib: lib.nn.CrossEntropyLoss(label_smoothing=0.1),
    normal(4, 3),
    Constant(probabilities),
)
row(
    "CrossEntropyLoss-legacy",
    lambda lib: lib.nn.CrossEntropyLoss(None, False),
    normal(3),
    integers(3),
)
row(
    "LinearCrossEntropyLoss-options",
    lambda lib: lib.nn.LinearCrossEntropyLoss(
        4, 3, out_features=(2,), bias=True, weight=lib.tensor([1.0, 2.0, 0.5]), ignore_index=1
    ),
    normal(2, 4),
    integers(3, 2, 2),
)
row(
    "LinearCrossEntropyLoss-chunks",
    lambda lib: lib.nn.LinearCrossEntropyLoss(
        4, 3, options=lib.nn.LinearCrossEntropyOptions(batch_chunk_size=2)
    ),
    normal(4, 4),
    integers(3, 4),
)
row(
    "BCELoss-weight", lambda lib: lib.nn.BCELoss(lib.tensor([1.0, 2.0])), uniform(4, 2),
    Constant(uniform(4, 2)),
)  # fmt: skip
row(
    "BCEWithLogitsLoss-options",
    lambda lib: lib.nn.BCEWithLogitsLoss(lib.tensor([1.0, 2.0]), pos_weight=lib.tensor([3.0, 0.5])),
    normal(4, 2),
    Constant(uniform(4, 2)),
)
row(
    "PoissonNLLLoss-options",
    lambda lib: lib.nn.PoissonNLLLoss(log_input=False, full=True, eps=1e-3),
    uniform(4, 3),
    Constant(uniform(4, 3) * 5),
)
row(
    "GaussianNLLLoss-options",
    lambda lib: lib.nn.GaussianNLLLoss(full=True, eps=0.5),
    normal(4, 3),
    normal(4, 3),
    uniform(4, 1),
)
row("SmoothL1Loss-beta", lambda lib: lib.nn.SmoothL1Loss(beta=0.3), normal(4), normal(4))
row("HuberLoss-delta", lambda lib: lib.nn.HuberLoss(delta=0.3), normal(4), normal(4))
row(
    "MultiMarginLoss-options",
    lambda lib: lib.nn.MultiMarginLoss(p=2, margin=0.5, weight=lib.tensor([1.0, 2.0, 0.5])),
    normal(4, 3),
    integers(3, 4),
)
row(
    "TripletMarginLoss-options",
    lambda lib: lib.nn.TripletMarginLoss(margin=0.5, p=1.0, swap=True),
    *[normal(4, 3) for _ in range(3)],
)
row(
    "TripletMarginWithDistanceLoss-options",
    lambda lib: lib.nn.TripletMarginWithDistanceLoss(
        distance_function=lambda a, b: (a - b).abs().sum(-1), margin=2.0, swap=True
    ),
    *[normal(4, 3) for _ in range(3)],
)
row(
    "CosineEmbeddingLoss-margin", lambda lib: lib.nn.CosineEmbeddingLoss(0.3), normal(4, 3),
    normal(4, 3), Constant(signs(4)),
)  # fmt: skip
row(
    "AdaptiveLogSoftmaxWithLoss",
    lambda lib: lib.nn.AdaptiveLogSoftmaxWithLoss(8, 10, [2, 5], div_value=2.0),
    normal(6, 8),
    np.array([0, 1, 2, 4, 5, 9]),
)
row(
    "AdaptiveLogSoftmaxWithLoss-unbatched",
    lambda lib: lib.nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3], head_bias=True),
    normal(8),
    np.array(7),
)
# Clusters without a target take no gradient at all.
row(
    "AdaptiveLogSoftmaxWithLoss-unused",
    lambda lib: lib.nn.AdaptiveLogSoftmaxWithLoss(8, 10, [2, 5, 7], div_value=2.0),
    normal(3, 8),
    np.array([0, 6, 1]),
)
for name, inputs in {
    "HingeEmbeddingLoss": (normal(4, 3), signs(4, 3)),
    "CosineEmbeddingLoss": (normal(4, 3), normal(4, 3), signs(4)),
}.items():
    row(
        f"{name}-target",
        lambda lib, name=name: getattr(lib.nn, name)(),
        *inputs,
    )
