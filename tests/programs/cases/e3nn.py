"""a layer of tensor products and spherical harmonics: loss, and how its output turns"""

import numpy as np
import torch

PACKAGE = "e3nn"


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        from e3nn import o3

        self.harmonics = o3.SphericalHarmonics("0e + 1o + 2e", normalize=True)
        self.product = o3.FullyConnectedTensorProduct("4x0e + 2x1o", "0e + 1o + 2e", "3x0e + 2x1o")
        self.linear = o3.Linear("3x0e + 2x1o", "2x0e + 1x1o")

    def forward(self, features, places):
        return self.linear(self.product(features, self.harmonics(places)))


def build():
    rng = np.random.default_rng(0)
    features, places = (
        torch.from_numpy(rng.standard_normal((5, size)).astype("float32")) for size in (10, 3)
    )

    def loss(model, features, places):
        return model(features, places).square().mean()

    return Layer(), (features, places), loss


def more(model, inputs):
    from e3nn import o3

    features, places = inputs
    turn = o3.angles_to_matrix(torch.tensor(0.3), torch.tensor(0.5), torch.tensor(-0.2))
    before, after = (o3.Irreps(each).D_from_matrix(turn) for each in ("4x0e + 2x1o", "2x0e + 1x1o"))
    return {
        "turned before": model(features @ before.T, places @ turn.T),
        "turned after": model(features, places) @ after.T,
        "wigner": o3.wigner_3j(1, 1, 2),
    }
