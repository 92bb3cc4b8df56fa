"""a Gaussian process fitted by L-BFGS; improvement, bounds, and the points that they choose"""

import numpy as np
import torch

PACKAGE = "botorch"


def data():
    values = np.random.default_rng(0).random((8, 2))
    inputs = torch.from_numpy(values)
    return inputs, torch.sin(4 * inputs).sum(-1, keepdim=True)


def made():
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize, Standardize

    inputs, targets = data()
    return SingleTaskGP(
        inputs, targets, outcome_transform=Standardize(m=1), input_transform=Normalize(d=2)
    )


def build():
    from gpytorch.mlls import ExactMarginalLogLikelihood

    model = made()
    likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
    model.train()

    def loss(model, inputs):
        return -likelihood(model(inputs), model.train_targets)

    return model, (model.train_inputs[0],), loss


def more(model, inputs):
    import botorch
    from botorch.acquisition import (
        LogExpectedImprovement,
        UpperConfidenceBound,
        qLogExpectedImprovement,
        qUpperConfidenceBound,
    )
    from botorch.fit import fit_gpytorch_mll
    from botorch.optim import optimize_acqf
    from botorch.sampling import SobolQMCNormalSampler
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(0)
    fitted = made()
    fit_gpytorch_mll(ExactMarginalLogLikelihood(fitted.likelihood, fitted))
    points = torch.from_numpy(np.random.default_rng(1).random((6, 1, 2)))
    posterior = fitted.posterior(points)
    best = data()[1].max()
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    sampler = SobolQMCNormalSampler(torch.Size([16]), seed=0)
    found = {"mean": posterior.mean, "variance": posterior.variance}
    functions = {
        "improvement": LogExpectedImprovement(fitted, best),
        "bound": UpperConfidenceBound(fitted, 0.2),
        "batched improvement": qLogExpectedImprovement(fitted, best, sampler=sampler),
        "batched bound": qUpperConfidenceBound(fitted, 0.2, sampler=sampler),
    }
    for name, function in functions.items():
        found[name] = function(points)
    starts = points[:2]
    chosen, value = optimize_acqf(
        functions["improvement"], bounds, q=1, num_restarts=2, batch_initial_conditions=starts,
        options={"maxiter": 20},
    )  # fmt: skip
    found["chosen"], found["its value"] = chosen, value
    found["sobol"] = botorch.utils.sampling.draw_sobol_samples(bounds, 4, 1, seed=0)
    found["pareto"] = botorch.utils.multi_objective.is_non_dominated(points[:, 0])
    volume = botorch.utils.multi_objective.Hypervolume(torch.zeros(2, dtype=torch.float64))
    found["volume"] = torch.tensor(volume.compute(points[:, 0]))
    return found
