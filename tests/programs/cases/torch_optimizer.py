"""LAMB on a perceptron; DiffGrad, Yogi and Lookahead by their steps"""

import numpy as np
import torch

PACKAGE = "torch-optimizer"


def data():
    rng = np.random.default_rng(0)
    inputs = torch.from_numpy(rng.standard_normal((16, 8)).astype("float32"))
    return inputs, torch.from_numpy(rng.integers(0, 3, 16))


def build():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))

    def loss(model, inputs, targets):
        return torch.nn.functional.cross_entropy(model(inputs), targets)

    return model, data(), loss


def optimizer(model):
    import torch_optimizer

    return torch_optimizer.Lamb(model.parameters(), lr=1e-2)


def more(model, inputs):
    import torch_optimizer

    values, targets = inputs
    found = {}
    for name in ("DiffGrad", "Yogi", "AdaBelief", "RAdam", "NovoGrad"):
        weight = torch.full((8, 3), 0.1, requires_grad=True)
        base = getattr(torch_optimizer, name)([weight], lr=1e-2)
        stepping = torch_optimizer.Lookahead(base, k=2)
        for _ in range(4):
            stepping.zero_grad()
            torch.nn.functional.cross_entropy(values @ weight, targets).backward()
            stepping.step()
        found[name] = weight
    return found
