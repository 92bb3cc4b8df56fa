"""a neural CDE on irregular series: loss, gradients; other interpolations, log-signatures"""

import numpy as np
import torch

PACKAGE = "torchcde"


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 12), torch.nn.Tanh()
        )

    def forward(self, time, state):
        return self.net(state).unflatten(-1, (4, 3))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.field, self.head = torch.nn.Linear(3, 4), Field(), torch.nn.Linear(4, 1)

    def forward(self, coefficients):
        import torchcde

        path = torchcde.CubicSpline(coefficients)
        state = torchcde.cdeint(
            path, self.field, self.first(path.evaluate(path.interval[0])), path.interval,
            adjoint=False, method="rk4", options={"step_size": 0.5},
        )  # fmt: skip
        return self.head(state[:, -1]).squeeze(-1)


def series(missing=False):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((4, 7, 3)).astype("float32").cumsum(1)
    values[..., 0] = np.arange(7)
    if missing:
        values[:, 1:-1, 1:][rng.random((4, 5, 2)) < 0.3] = np.nan
    return torch.from_numpy(values)


def build():
    import torchcde

    coefficients = torchcde.hermite_cubic_coefficients_with_backward_differences(series(True))

    def loss(model, coefficients, targets):
        scores = model(coefficients)
        return torch.nn.functional.binary_cross_entropy_with_logits(scores, targets)

    return Net(), (coefficients, torch.tensor([0.0, 1.0, 1.0, 0.0])), loss


def more(model, inputs):
    import torchcde

    times = torch.tensor([0.0, 0.7, 2.5, 6.0])
    found = {}
    for missing in (False, True):
        values = series(missing).requires_grad_(not missing)
        for name, coefficients, kind in (
            ("cubic", torchcde.natural_cubic_coeffs, torchcde.CubicSpline),
            ("linear", torchcde.linear_interpolation_coeffs, torchcde.LinearInterpolation),
            (
                "Hermite", torchcde.hermite_cubic_coefficients_with_backward_differences,
                torchcde.CubicSpline,
            ),
        ):  # fmt: skip
            path = kind(coefficients(values))
            name = f"{name}, missing" if missing else name
            found[name] = torch.stack([path.evaluate(each) for each in times])
            found[f"derivative, {name}"] = torch.stack([path.derivative(each) for each in times])
            if not missing:
                (found[f"gradient, {name}"],) = torch.autograd.grad(found[name].sum(), values)
    rectilinear = torchcde.linear_interpolation_coeffs(series(True), rectilinear=0)
    found["rectilinear"] = rectilinear
    path = torchcde.CubicSpline(torchcde.natural_cubic_coeffs(series()))
    start = torch.ones(4, 4).requires_grad_()
    adjoint = torchcde.cdeint(
        path, model.field, start, times, adjoint=True, rtol=1e-6, atol=1e-6,
        adjoint_params=tuple(model.field.parameters()),
    )  # fmt: skip
    found["adjoint"] = adjoint
    model.zero_grad()
    adjoint[:, -1].sum().backward()
    found["gradient by it"], found["its start's"] = model.field.net[0].weight.grad, start.grad
    return found
