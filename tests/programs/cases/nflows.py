"""a flow of masked autoregressive transforms: likelihood, samples, inverse"""

import numpy as np
import torch

PACKAGE = "nflows"


def build():
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow
    from nflows.transforms.autoregressive import MaskedAffineAutoregressiveTransform
    from nflows.transforms.base import CompositeTransform
    from nflows.transforms.permutations import ReversePermutation

    transforms = []
    for _ in range(2):
        transforms.append(ReversePermutation(features=3))
        transforms.append(MaskedAffineAutoregressiveTransform(features=3, hidden_features=8))
    model = Flow(CompositeTransform(transforms), StandardNormal(shape=[3]))
    points = np.random.default_rng(0).standard_normal((8, 3)).astype("float32")

    def loss(model, points):
        return -model.log_prob(inputs=points).mean()

    return model, (torch.from_numpy(points),), loss


def more(model, inputs):
    (points,) = inputs
    with torch.no_grad():
        noise = model.transform_to_noise(points)
        back, scale = model._transform.inverse(noise)
        torch.manual_seed(0)
        return {"noise": noise, "back": back, "scale": scale, "samples": model.sample(4)}
