"""a perceptron by D-adapted Adam, which finds its rate; SGD, AdaGrad, Adan, Lion, saved states"""

import io

import numpy as np
import torch

PACKAGE = "dadaptation"
OPTIONS = {
    "DAdaptSGD": {"momentum": 0.9, "weight_decay": 1e-2},
    "DAdaptAdaGrad": {"momentum": 0.9},
    "DAdaptAdam": {"use_bias_correction": True, "weight_decay": 1e-2, "growth_rate": 2.0},
    "DAdaptAdan": {"no_prox": True},
    "DAdaptLion": {"weight_decay": 1e-2},
}


def network():
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))


def build():
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.standard_normal((16, 8)).astype("float32"))

    def loss(model, values, targets):
        return torch.nn.functional.cross_entropy(model(values), targets)

    return network(), (values, torch.from_numpy(rng.integers(0, 3, 16))), loss


def optimizer(model):
    from dadaptation import DAdaptAdam

    return DAdaptAdam(model.parameters(), lr=1.0, decouple=True, d0=1e-3)


def more(model, inputs):
    import dadaptation
    import driver

    values, targets = inputs
    found = {}
    for name, options in OPTIONS.items():
        other = network()
        driver.fill(other)

        def made(other=other, name=name, options=options):
            return getattr(dadaptation, name)(other.parameters(), d0=1e-3, **options)

        stepping = made()
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(stepping, 12)
        rates = []
        for number in range(12):
            if number == 6:
                file = io.BytesIO()
                torch.save([stepping.state_dict(), schedule.state_dict()], file)
                file.seek(0)
                saved, times = torch.load(file, weights_only=False)
                stepping = made()
                schedule = torch.optim.lr_scheduler.CosineAnnealingLR(stepping, 12)
                stepping.load_state_dict(saved)
                schedule.load_state_dict(times)
            stepping.zero_grad()
            torch.nn.functional.cross_entropy(other(values), targets).backward()
            stepping.step()
            schedule.step()
            group = stepping.param_groups[0]
            rates.append(group["d"] * group["lr"])
        found[f"rates of {name}"] = torch.as_tensor(rates)
        found[f"weights of {name}"] = torch.cat([each.flatten() for each in other.parameters()])

    # AdaGrad takes rows of a table alone.
    table = torch.nn.Embedding(9, 4, sparse=True)
    driver.fill(table)
    stepping = dadaptation.DAdaptAdaGrad(table.parameters(), d0=1e-2)
    for _ in range(4):
        stepping.zero_grad()
        table(targets).square().sum().backward()
        stepping.step()
    found["table"] = table.weight
    return found
