"""an average of a perceptron over its steps: as its weights for a while, saved and loaded"""

import numpy as np
import torch

PACKAGE = "torch-ema"


def build():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.standard_normal((16, 8)).astype("float32"))

    def loss(model, inputs, targets):
        return torch.nn.functional.cross_entropy(model(inputs), targets)

    return model, (values, torch.from_numpy(rng.integers(0, 3, 16))), loss


def more(model, inputs):
    import copy
    import io

    from torch_ema import ExponentialMovingAverage

    values, targets = inputs
    average = ExponentialMovingAverage(model.parameters(), decay=0.9)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(values), targets).backward()
        optimizer.step()
        average.update()
    found = {"before": model(values)}
    with average.average_parameters():
        found["by average"] = model(values)
    found["after"] = model(values)
    file = io.BytesIO()
    torch.save(average.state_dict(), file)
    file.seek(0)
    other = copy.deepcopy(model)
    again = ExponentialMovingAverage(other.parameters(), decay=0.5)
    again.load_state_dict(torch.load(file))
    again.copy_to(other.parameters())
    found["loaded"] = other(values)
    return found
