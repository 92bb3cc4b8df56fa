"""a neural ODE, by dopri5 and by the adjoint method"""

import numpy as np
import torch

PACKAGE = "torchdiffeq"


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)
        )

    def forward(self, time, state):
        return self.net(state**3)


def build():
    from torchdiffeq import odeint

    start = torch.from_numpy(np.random.default_rng(0).standard_normal((4, 2)).astype("float32"))
    times = torch.linspace(0.0, 1.0, 5)

    def loss(model, start, times):
        return odeint(model, start, times, method="rk4").square().mean()

    return Field(), (start, times), loss


def more(model, inputs):
    from torchdiffeq import odeint, odeint_adjoint

    start, times = inputs
    found = odeint_adjoint(model, start, times, rtol=1e-6, atol=1e-6)
    found[-1].sum().backward()
    return {
        "adjoint": found,
        "its gradient": model.net[0].weight.grad,
        "dopri5": odeint(model, start, times, rtol=1e-6, atol=1e-6),
    }
