"""enumerated inference, the likelihood of a traced model, and steps of SVI on a mean"""

import time

import torch

PACKAGE = "pyro-ppl"


def main():
    import pyro
    import pyro.distributions as dist
    from pyro.infer import (
        SVI,
        JitTraceEnum_ELBO,
        Trace_ELBO,
        TraceEnum_ELBO,
        TraceMeanField_ELBO,
        config_enumerate,
    )

    data = torch.tensor([0.2, 0.4, 3.1, 2.8, 0.1])
    found = {}

    def model(data):
        rate = pyro.sample("rate", dist.Gamma(torch.tensor(2.0), torch.tensor(1.0)))
        with pyro.plate("data", len(data)):
            pyro.sample("seen", dist.Normal(rate, 1.0), obs=data)

    def guide(data):
        shape = pyro.param("shape", torch.tensor(3.0), constraint=dist.constraints.positive)
        scale = pyro.param("scale", torch.tensor(2.0), constraint=dist.constraints.positive)
        pyro.sample("rate", dist.Gamma(shape, scale))

    traced = pyro.poutine.trace(pyro.condition(model, {"rate": torch.tensor(1.5)})).get_trace(data)
    found["log likelihood"] = traced.log_prob_sum()
    assert Trace_ELBO().loss(model, guide, data) > 0
    pyro.clear_param_store()

    @config_enumerate
    def mixture(data):
        weights = pyro.param("weights", torch.tensor([0.4, 0.6]), dist.constraints.simplex)
        means = pyro.param("means", torch.tensor([0.0, 2.0]))
        with pyro.plate("data", len(data)):
            which = pyro.sample("which", dist.Categorical(weights))
            pyro.sample("seen", dist.Normal(means[which], 1.0), obs=data)

    def nothing(data):
        pass

    def inferred(bound):
        steps = SVI(mixture, nothing, pyro.optim.Adam({"lr": 0.05}), bound(max_plate_nesting=1))
        losses, seconds = [], []
        for _ in range(6):
            began = time.perf_counter()
            losses.append(steps.step(data))
            seconds.append(time.perf_counter() - began)
        return torch.tensor(losses), seconds

    found["compiled mixture losses"], found["compiled seconds"] = inferred(JitTraceEnum_ELBO)
    pyro.clear_param_store()
    found["mixture losses"], found["seconds"] = inferred(TraceEnum_ELBO)
    found["weights"], found["means"] = pyro.param("weights"), pyro.param("means")
    pyro.clear_param_store()

    def fixed(data):
        mean = pyro.param("mean", torch.tensor(0.5))
        pyro.sample("mean given", dist.Delta(mean), obs=mean.detach())
        with pyro.plate("data", len(data)):
            pyro.sample("seen", dist.StudentT(4.0, mean, 1.0), obs=data)

    steps = SVI(fixed, nothing, pyro.optim.ClippedAdam({"lr": 0.05}), TraceMeanField_ELBO())
    found["mean losses"] = torch.tensor([steps.step(data) for _ in range(6)])
    return found
