"""a neural spline flow with a context: loss, samples, inverse; 10 other flows, their gradients"""

import numpy as np
import torch

PACKAGE = "zuko"
FLOWS = ("MAF", "NICE", "RealNVP", "NSF", "NCSF", "SOSPF", "BPF", "NAF", "UNAF", "GF", "CNF")


def build():
    import zuko

    model = zuko.flows.NSF(3, 2, transforms=2, bins=4, hidden_features=(8, 8))
    rng = np.random.default_rng(0)
    points = torch.from_numpy(rng.standard_normal((8, 3)).astype("float32"))
    context = torch.from_numpy(rng.standard_normal((8, 2)).astype("float32"))

    def loss(model, points, context):
        return -model(context).log_prob(points).mean()

    return model, (points, context), loss


def more(model, inputs):
    import driver
    import zuko

    points, context = inputs
    found = {}
    torch.manual_seed(0)
    flow = model(context[0])
    found["samples"], found["their likelihood"] = flow.rsample_and_log_prob((4,))
    found["back"] = flow.transform.inv(flow.transform(points))
    for name in FLOWS:
        other = getattr(zuko.flows, name)(3, 2, **({} if name == "CNF" else {"transforms": 2}))
        driver.fill(other)
        given = (points.tanh() if name in ("NCSF", "BPF") else points).requires_grad_()
        found[name] = other(context).log_prob(given)
        (found[f"gradient of {name}"],) = torch.autograd.grad(found[name].sum(), given)
    mixture = zuko.mixtures.GMM(3, 2, components=3)
    driver.fill(mixture)
    found["mixture"] = mixture(context).log_prob(points)
    found["maximum"] = zuko.distributions.Maximum(torch.distributions.Normal(0.0, 1.0), 3).log_prob(
        torch.tensor([0.3, 1.2])
    )
    found["root"] = zuko.utils.bisection(torch.sin, torch.tensor([0.1, 0.5]), 2.0, 4.0, n=20)
    found["integral"] = zuko.utils.gauss_legendre(torch.exp, torch.zeros(2), torch.ones(2), n=4)
    return found
