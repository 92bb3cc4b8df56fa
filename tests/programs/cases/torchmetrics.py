"""24 metrics, over batches; a loss that is a metric"""

import numpy as np
import torch

PACKAGE = "torchmetrics"
CLASSES = {"num_classes": 3}


def build():
    from torchmetrics.functional import structural_similarity_index_measure as similarity

    rng = np.random.default_rng(0)
    images, targets = (
        torch.from_numpy(rng.random((2, 1, 16, 16)).astype("float32")) for _ in range(2)
    )
    model = torch.nn.Conv2d(1, 1, 3, padding=1)

    def loss(model, images, targets):
        return 1 - similarity(torch.sigmoid(model(images)), targets, data_range=1.0)

    return model, (images, targets), loss


def more(model, inputs):
    import torchmetrics

    rng = np.random.default_rng(1)
    scores = torch.from_numpy(rng.dirichlet(np.ones(3), (3, 20)).astype("float32"))
    labels = torch.from_numpy(rng.integers(0, 3, (3, 20)))
    values = torch.from_numpy(rng.standard_normal((2, 3, 20)).astype("float32"))
    found = {}
    for name in (
        "Accuracy", "AUROC", "AveragePrecision", "CohenKappa", "ConfusionMatrix", "F1Score",
        "HammingDistance", "JaccardIndex", "MatthewsCorrCoef", "Precision", "Recall", "Specificity",
        "CalibrationError", "ExactMatch",
    ):  # fmt: skip
        metric = getattr(torchmetrics, name)(task="multiclass", **CLASSES)
        for score, label in zip(scores, labels, strict=True):
            metric.update(score.argmax(1)[None] if name == "ExactMatch" else score,
                          label[None] if name == "ExactMatch" else label)  # fmt: skip
        found[name] = metric.compute()
    for name in (
        "MeanSquaredError", "MeanAbsoluteError", "ExplainedVariance", "R2Score", "PearsonCorrCoef",
        "SpearmanCorrCoef", "ConcordanceCorrCoef", "KendallRankCorrCoef", "LogCoshError",
        "MeanAbsolutePercentageError",
    ):  # fmt: skip
        metric = getattr(torchmetrics, name)()
        for one, other in zip(*values, strict=True):
            metric.update(one, other)
        found[name] = metric.compute()
    return found
