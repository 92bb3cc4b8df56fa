"""a perceptron by AdaBelief; its state saved and loaded"""

import numpy as np
import torch

PACKAGE = "adabelief-pytorch"


def build():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.standard_normal((16, 8)).astype("float32"))

    def loss(model, inputs, targets):
        return torch.nn.functional.cross_entropy(model(inputs), targets)

    return model, (values, torch.from_numpy(rng.integers(0, 3, 16))), loss


def optimizer(model):
    from adabelief_pytorch import AdaBelief

    return AdaBelief(model.parameters(), lr=1e-2, eps=1e-8, print_change_log=False)


def more(model, inputs):
    import io

    values, targets = inputs
    first = optimizer(model)
    for number in range(4):
        if number == 2:
            file = io.BytesIO()
            torch.save(first.state_dict(), file)
            file.seek(0)
            first = optimizer(model)
            first.load_state_dict(torch.load(file))
        first.zero_grad()
        torch.nn.functional.cross_entropy(model(values), targets).backward()
        first.step()
    return {"weight": model[0].weight, "bias": model[2].bias}
