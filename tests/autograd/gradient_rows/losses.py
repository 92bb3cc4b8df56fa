"""Losses."""

from __future__ import annotations

import flambeau
from flambeau.nn import functional as F
from flambeau.ops.neural.losses import margin_loss
from tests.autograd.gradient_rows.row import (
    LABELS,
    POSITIVE,
    PROBABILITY,
    SIGNS,
    SQUARE,
    A,
    B,
    C,
    V,
    rows,
    spread,
)

TARGETS = flambeau.tensor([[1, 2]])
LENGTHS = flambeau.tensor([4]), flambeau.tensor([2])
SCORES = spread(4, 1, 3, seed=30)
BOTH = flambeau.tensor([[1.0, 0, 1], [0, 1, 1]], dtype=flambeau.float64)
CLASSES = flambeau.tensor([[2, 0, -1], [1, -1, 0]])

ROWS = [
    *rows(
        "loss",
        ("binary_cross_entropy", F.binary_cross_entropy, PROBABILITY, PROBABILITY.flip(0)),
        (
            "binary_cross_entropy_with_logits",
            lambda x, y: F.binary_cross_entropy_with_logits(x, y, pos_weight=V.abs()),
            A,
            PROBABILITY,
        ),
        ("cross_entropy", lambda x: F.cross_entropy(x, LABELS, V.abs(), label_smoothing=0.1), A),
        ("cross_entropy, of probabilities", lambda x, y: F.cross_entropy(x, y), A, PROBABILITY),
        ("nll_loss", lambda x: F.nll_loss(x, LABELS, V.abs()), A),
        ("kl_div", lambda x, y: F.kl_div(x, y, reduction="batchmean"), A, POSITIVE),
        ("poisson_nll_loss", lambda x: F.poisson_nll_loss(x, POSITIVE, full=True), A),
        ("gaussian_nll_loss", F.gaussian_nll_loss, A, B, POSITIVE),
        twice="cross_entropy",
    ),
    *rows(
        "regression_loss",
        ("mse_loss", F.mse_loss, A, B),
        ("l1_loss", F.l1_loss, A, C),
        ("huber_loss", lambda x, y: F.huber_loss(x, y, delta=0.8), A, C),
        ("smooth_l1_loss", lambda x, y: F.smooth_l1_loss(x, y, beta=0.8), A, C),
        twice="huber_loss",
    ),
    *rows(
        "margin_loss",
        ("cosine_embedding_loss", lambda x, y: F.cosine_embedding_loss(x, y, SIGNS, -0.5), A, B),
        ("hinge_embedding_loss", lambda x: F.hinge_embedding_loss(x, SIGNS[:, None]), A),
        (
            "margin_ranking_loss",
            lambda x, y: F.margin_ranking_loss(x, y, SIGNS[:, None], 0.3),
            A,
            C,
        ),
        ("multi_margin_loss", lambda x: F.multi_margin_loss(x, LABELS), A),
        ("multilabel_margin_loss", lambda x: F.multilabel_margin_loss(x, CLASSES), A),
        ("multilabel_soft_margin_loss", lambda x: F.multilabel_soft_margin_loss(x, BOTH), A),
        ("soft_margin_loss", lambda x: F.soft_margin_loss(x, SIGNS[:, None]), A),
        ("triplet_margin_loss", lambda x, y, z: F.triplet_margin_loss(x, y, z, 3.0), A, B, C),
        (
            "triplet_of_distances",
            lambda x, y: margin_loss.triplet_of_distances(x, y, None, 3.0, "sum"),
            A,
            C,
        ),
    ),
    *rows(
        "ctc",
        # The gradient is the one for probabilities that sum to 1, as PyTorch's.
        ("ctc_loss", lambda x: F.ctc_loss(x.log_softmax(-1), TARGETS, *LENGTHS), SCORES),
    ),
    *rows(
        "linear_cross_entropy",
        (
            "linear_cross_entropy",
            lambda x, w, b: F.linear_cross_entropy(x, w, LABELS, linear_bias=b),
            A,
            SQUARE,
            V,
        ),
    ),
]
