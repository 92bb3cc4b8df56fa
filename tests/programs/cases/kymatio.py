"""a classifier on scattered images; coefficients and gradients in 1, 2 and 3 dimensions"""

import numpy as np
import torch

PACKAGE = "kymatio"
# It imports a function that later ones have dropped.
REQUIRES = ["scipy<1.17"]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        from kymatio.torch import Scattering2D

        self.before = torch.nn.Conv2d(1, 1, 3, padding=1)
        self.scattering = Scattering2D(J=2, shape=(16, 16), L=4)
        self.head = torch.nn.Linear(25 * 16, 3)

    def forward(self, images):
        return self.head(self.scattering(self.before(images)).flatten(1))


def build():
    images = np.random.default_rng(0).standard_normal((2, 1, 16, 16)).astype("float32")

    def loss(model, images, labels):
        return torch.nn.functional.cross_entropy(model(images), labels)

    return Net(), (torch.from_numpy(images), torch.tensor([0, 2])), loss


def more(model, inputs):
    from kymatio.scattering3d.backend.torch_backend import TorchBackend3D
    from kymatio.torch import HarmonicScattering3D, Scattering1D, Scattering2D

    rng = np.random.default_rng(1)
    found = {}

    def note(name, scattering, *shape):
        given = torch.from_numpy(rng.standard_normal(shape).astype("float32")).requires_grad_()
        found[name] = scattering(given)
        (found[f"gradient, {name}"],) = torch.autograd.grad(found[name].square().sum(), given)

    note("sounds", Scattering1D(J=4, shape=128, Q=4), 2, 128)
    note("one order", Scattering1D(J=4, shape=100, Q=(4, 2), max_order=1, T=8), 2, 100)
    note("images", Scattering2D(J=2, shape=(12, 16), L=3, max_order=1), 2, 12, 16)
    note("volumes", HarmonicScattering3D(J=1, shape=(8, 8, 8), L=1, sigma_0=1), 1, 8, 8, 8)
    lists = Scattering1D(J=3, shape=64, Q=2, out_type="list")
    parts = lists(torch.from_numpy(rng.standard_normal(64).astype("float32")))
    found["parts"] = torch.stack([each["coef"].norm() for each in parts])
    complex_ = torch.from_numpy(rng.standard_normal((4, 4, 4, 2)).astype("float32"))
    found["modulus"] = TorchBackend3D.modulus(complex_)
    return found
