"""an average of a perceptron over its steps, saved and loaded; a copy of the model by it"""

import numpy as np
import torch

PACKAGE = "ema-pytorch"


def build():
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16, bias=False),
        torch.nn.BatchNorm1d(16),
        torch.nn.Tanh(),
        torch.nn.Linear(16, 3),
    )
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.standard_normal((16, 8)).astype("float32"))

    def loss(model, inputs, targets):
        return torch.nn.functional.cross_entropy(model(inputs), targets)

    return model, (values, torch.from_numpy(rng.integers(0, 3, 16))), loss


def more(model, inputs):
    from ema_pytorch import EMA

    values, targets = inputs
    ema = EMA(model, beta=0.9, update_after_step=1, update_every=2, inv_gamma=1.0, power=0.9)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(8):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(values), targets).backward()
        optimizer.step()
        ema.update()
    other = EMA(torch.nn.Sequential(*list(model)), beta=0.9)
    other.load_state_dict(ema.state_dict())
    ema.eval()
    other.eval()
    found = {"average": ema(values), "loaded": other(values), "decay": ema.get_current_decay()}
    ema.update_model_with_ema()
    model.eval()
    found["model"] = model(values)
    return found
