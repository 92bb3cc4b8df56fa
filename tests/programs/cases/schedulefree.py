"""a perceptron by AdamW without a schedule; SGD and RAdam, in training and evaluation"""

import numpy as np
import torch

PACKAGE = "schedulefree"


def build():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.standard_normal((16, 8)).astype("float32"))

    def loss(model, inputs, targets):
        return torch.nn.functional.cross_entropy(model(inputs), targets)

    return model, (values, torch.from_numpy(rng.integers(0, 3, 16))), loss


def optimizer(model):
    from schedulefree import AdamWScheduleFree

    made = AdamWScheduleFree(model.parameters(), lr=1e-2, warmup_steps=2)
    made.train()
    return made


def more(model, inputs):
    import schedulefree

    values, targets = inputs
    found = {}
    for name in ("SGDScheduleFree", "RAdamScheduleFree", "AdamWScheduleFreeReference"):
        weight = torch.full((8, 3), 0.1, requires_grad=True)
        stepping = getattr(schedulefree, name)([weight], lr=1e-2)
        stepping.train()
        for _ in range(4):
            stepping.zero_grad()
            torch.nn.functional.cross_entropy(values @ weight, targets).backward()
            stepping.step()
        found[f"{name} in training"] = weight.detach().clone()
        stepping.eval()
        found[name] = weight
    return found
