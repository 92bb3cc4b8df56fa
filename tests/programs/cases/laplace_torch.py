"""Laplace approximations of a classifier and a regression: Hessians, predictions, a file"""

import tempfile
import warnings

import numpy as np
import torch

PACKAGE = "laplace-torch"


def data(kind="classification"):
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.standard_normal((12, 3)).astype("float32"))
    targets = values.argmax(1) if kind == "classification" else values.sum(1, keepdim=True).sin()
    return values, targets


def a_network(outputs=3):
    import driver

    net = torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.Tanh(), torch.nn.Linear(6, outputs))
    driver.fill(net)
    return net


def build():
    def loss(model, values, targets):
        return torch.nn.functional.cross_entropy(model(values), targets)

    return a_network(), data(), loss


def more(model, inputs):
    from laplace import Laplace, marglik_training
    from laplace.curvature import CurvlinopsEF, CurvlinopsGGN

    # About sums of gradients and older functions.
    warnings.simplefilter("ignore")
    found = {}
    for kind in ("classification", "regression"):
        values, targets = data(kind)
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(values, targets), batch_size=4
        )
        net = a_network(3 if kind == "classification" else 1).eval()
        new = torch.linspace(-1, 1, 15).reshape(5, 3)
        for subset in ("all", "last_layer"):
            for structure in ("full", "kron", "diag"):
                name = f"{kind} {subset} {structure}"
                la = Laplace(
                    net, kind, subset_of_weights=subset, hessian_structure=structure,
                    prior_precision=0.7,
                )  # fmt: skip
                la.fit(loader)
                found[f"{name} evidence"] = la.log_marginal_likelihood()
                if kind == "classification":
                    for link in ("probit", "bridge"):
                        found[f"{name} {link}"] = la(new, link_approx=link)
                else:
                    mean, variance = la(new)
                    found[f"{name} mean"], found[f"{name} variance"] = mean, variance
                torch.manual_seed(0)
                found[f"{name} samples"] = la.predictive_samples(
                    new, pred_type="glm", n_samples=4
                ).mean(0)
                if structure != "kron":
                    found[f"{name} deviations"] = (
                        la.posterior_variance
                        if structure == "diag"
                        else (la.posterior_covariance.diagonal())
                    )
        la.optimize_prior_precision(method="marglik", n_steps=5, lr=0.1)
        found[f"{kind} precision"] = la.prior_precision
        with tempfile.TemporaryDirectory() as folder:
            torch.save(la.state_dict(), f"{folder}/laplace.pt")
            again = Laplace(net, kind, subset_of_weights="last_layer", hessian_structure="diag")
            again.load_state_dict(torch.load(f"{folder}/laplace.pt", weights_only=False))
            said = again(new)
            found[f"{kind} loaded"] = said if kind == "classification" else said[1]

    values, targets = data()
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(values, targets), batch_size=12
    )
    for backend in (CurvlinopsGGN, CurvlinopsEF):
        la = Laplace(
            a_network().eval(), "classification", subset_of_weights="all",
            hessian_structure="diag", backend=backend,
        )  # fmt: skip
        la.fit(loader)
        found[backend.__name__] = la.H
    la, net, evidences, _ = marglik_training(
        a_network(), loader, likelihood="classification", hessian_structure="kron", n_epochs=4,
        n_hypersteps=3, marglik_frequency=2, optimizer_kwargs={"lr": 1e-2},
    )  # fmt: skip
    found["evidences"] = torch.tensor([float(each) for each in evidences])
    found["trained"] = torch.stack([each.norm() for each in net.parameters()])
    return found
