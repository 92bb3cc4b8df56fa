"""exact regression by marginal likelihood, with predictions; a sparse variational process"""

import numpy as np
import torch

PACKAGE = "gpytorch"


def points():
    rng = np.random.default_rng(0)
    places = torch.linspace(0, 1, 20)
    noise = torch.from_numpy(rng.standard_normal(20).astype("float32"))
    return places, torch.sin(places * 6) + 0.1 * noise


def build():
    import gpytorch

    class Regression(gpytorch.models.ExactGP):
        def __init__(self, places, values, likelihood):
            super().__init__(places, values, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, places):
            return gpytorch.distributions.MultivariateNormal(self.mean(places), self.kernel(places))

    places, values = points()
    model = Regression(places, values, gpytorch.likelihoods.GaussianLikelihood())

    def loss(model, places, values):
        likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        return -likelihood(model(places), values)

    return model, (places, values), loss


def more(model, inputs):
    import driver
    import gpytorch

    class Sparse(gpytorch.models.ApproximateGP):
        def __init__(self, inducing):
            over = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
            super().__init__(gpytorch.variational.VariationalStrategy(self, inducing, over))
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5))

        def forward(self, places):
            return gpytorch.distributions.MultivariateNormal(self.mean(places), self.kernel(places))

    places, values = inputs
    model.eval()
    with torch.no_grad():
        said = model.likelihood(model(torch.linspace(0, 1.5, 7)))
    found = {"mean": said.mean, "variance": said.variance, "covariance": said.covariance_matrix}
    model.train()
    sparse = Sparse(torch.linspace(0, 1, 5))
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    with torch.no_grad():
        sparse(places)
    driver.fill(sparse)
    optimizer = torch.optim.Adam([*sparse.parameters(), *likelihood.parameters()], lr=0.05)
    bound = gpytorch.mlls.VariationalELBO(likelihood, sparse, len(values))
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = -bound(sparse(places), values)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    found["losses"] = torch.stack(losses)
    return found
