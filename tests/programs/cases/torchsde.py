"""a neural SDE by Euler's and Milstein's methods, on one Brownian path"""

import numpy as np
import torch

PACKAGE = "torchsde"


class Path:
    """A Brownian path whose increments come from NumPy, the same for both libraries."""

    def __init__(self, shape):
        rng = np.random.default_rng(1)
        steps = rng.standard_normal((64, *shape)).astype("float32") * (1 / 64) ** 0.5
        self.values = torch.from_numpy(np.concatenate([np.zeros((1, *shape)), steps.cumsum(0)]))
        self.shape, self.dtype, self.device = shape, torch.float32, torch.device("cpu")
        self.levy_area_approximation = "none"

    def __call__(self, begin, end=None, return_U=False, return_A=False):
        first, last = (round(float(each) * 64) for each in (begin, end))
        return (self.values[last] - self.values[first]).float()


class Field(torch.nn.Module):
    noise_type = "diagonal"
    sde_type = "ito"

    def __init__(self):
        super().__init__()
        self.drift = torch.nn.Linear(3, 3)
        self.spread = torch.nn.Linear(3, 3)

    def f(self, time, state):
        return torch.tanh(self.drift(state))

    def g(self, time, state):
        return torch.sigmoid(self.spread(state))


def build():
    import torchsde

    start = torch.from_numpy(np.random.default_rng(0).standard_normal((4, 3)).astype("float32"))
    path = Path((4, 3))

    def loss(model, start):
        times = torch.tensor([0.0, 0.5, 1.0])
        found = torchsde.sdeint(model, start, times, bm=path, method="euler", dt=0.125)
        return found.square().mean()

    return Field(), (start,), loss


def more(model, inputs):
    import torchsde

    (start,) = inputs
    times = torch.tensor([0.0, 1.0])
    path = Path((4, 3))
    return {"milstein": torchsde.sdeint(model, start, times, bm=path, method="milstein", dt=0.125)}
