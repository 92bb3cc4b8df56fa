"""triplet margin loss with a miner, and three other losses"""

import numpy as np
import torch

PACKAGE = "pytorch-metric-learning"


def build():
    from pytorch_metric_learning import losses

    rng = np.random.default_rng(0)
    inputs = torch.from_numpy(rng.standard_normal((12, 8)).astype("float32"))
    labels = torch.from_numpy(np.arange(12) % 3)
    criterion = losses.NTXentLoss(temperature=0.2)

    def loss(model, inputs, labels):
        return criterion(model(inputs), labels)

    return torch.nn.Linear(8, 6), (inputs, labels), loss


def more(model, inputs):
    from pytorch_metric_learning import losses, miners

    values, labels = inputs
    embedded = model(values).detach()
    hard = miners.MultiSimilarityMiner(epsilon=0.1)(embedded, labels)
    return {
        "triplets": losses.TripletMarginLoss(margin=0.2)(embedded, labels, hard),
        "contrastive": losses.ContrastiveLoss()(embedded, labels),
        "circle": losses.CircleLoss()(embedded, labels),
    }
