"""networks that solve PDEs, an inverse problem, four that learn operators; Adam, L-BFGS, files"""

import os
import tempfile

import numpy as np

os.environ["DDE_BACKEND"] = "pytorch"

import torch

PACKAGE = "deepxde"


def filled(net):
    import driver

    driver.fill(net)
    return net


def losses(history):
    return torch.tensor(np.array([np.sum(each) for each in history.loss_train]))


def norms(net):
    return torch.stack([each.detach().norm() for each in net.parameters()])


def poisson(dde):
    """A second derivative in one dimension, with conditions of three kinds and hard ones."""
    line = dde.geometry.Interval(-1, 1)

    def equation(x, y):
        return dde.grad.hessian(y, x) + np.pi**2 * torch.sin(np.pi * x)

    left = dde.icbc.DirichletBC(line, lambda x: 0, lambda x, on: on and np.isclose(x[0], -1))
    right = dde.icbc.NeumannBC(line, lambda x: -np.pi, lambda x, on: on and np.isclose(x[0], 1))
    mixed = dde.icbc.RobinBC(line, lambda x, y: y, lambda x, on: on and np.isclose(x[0], 1))
    data = dde.data.PDE(
        line, equation, [left, right, mixed], 12, 2, solution=lambda x: np.sin(np.pi * x),
        num_test=20, train_distribution="uniform",
    )  # fmt: skip
    net = filled(dde.nn.FNN([1, 8, 8, 1], "tanh", "Glorot uniform"))
    net.apply_feature_transform(lambda x: torch.cat([x, x], 1)[:, :1])
    return dde.Model(data, net)


def diffusion(dde):
    """Space and time, where a coefficient is learned from what is observed."""
    domain = dde.geometry.GeometryXTime(dde.geometry.Interval(-1, 1), dde.geometry.TimeDomain(0, 1))
    factor = dde.Variable(2.0)

    def equation(x, y):
        slope = dde.grad.jacobian(y, x, i=0, j=1)
        curve = dde.grad.hessian(y, x, i=0, j=0)
        known = torch.exp(-x[:, 1:]) * torch.sin(np.pi * x[:, 0:1]) * (1 - np.pi**2)
        return slope - factor * curve + known

    def solution(x):
        return np.sin(np.pi * x[:, 0:1]) * np.exp(-x[:, 1:])

    start = dde.icbc.IC(domain, solution, lambda _, on: on)
    ends = dde.icbc.DirichletBC(domain, solution, lambda _, on: on)
    places = np.stack([np.linspace(-1, 1, 5), np.full(5, 0.5)], 1)
    observed = dde.icbc.PointSetBC(places, solution(places), component=0)
    data = dde.data.TimePDE(
        domain, equation, [ends, start, observed], num_domain=16, num_boundary=6, num_initial=6,
        anchors=places, solution=solution, num_test=20, train_distribution="uniform",
    )  # fmt: skip
    return dde.Model(data, filled(dde.nn.FNN([2, 8, 8, 1], "sin", "Glorot uniform"))), factor


def system(dde):
    """Two unknowns, which have networks of their own, and are periodic."""
    line = dde.geometry.TimeDomain(0, 2)

    def equation(x, y):
        first = dde.grad.jacobian(y, x, i=0)
        second = dde.grad.jacobian(y, x, i=1)
        return [first - y[:, 1:2], second + y[:, 0:1]]

    starts = [
        dde.icbc.IC(line, lambda x: 0, lambda _, on: on, component=0),
        dde.icbc.IC(line, lambda x: 1, lambda _, on: on, component=1),
    ]
    data = dde.data.PDE(line, equation, starts, 12, 2, num_test=10, train_distribution="uniform")
    return dde.Model(data, filled(dde.nn.PFNN([1, [6, 6], [6, 6], 2], "swish", "Glorot normal")))


def operators(dde):
    """What maps functions to functions, from pairs of them."""
    rng = np.random.default_rng(0)
    functions, others = (rng.standard_normal((6, 5)).astype("float32") for _ in range(2))
    places = np.linspace(0, 1, 7, dtype="float32")[:, None]
    values = (functions @ rng.standard_normal((5, 7))).astype("float32")
    activation = "relu", "Glorot normal"
    basis = torch.from_numpy(rng.standard_normal((7, 3)).astype("float32"))
    whole = dde.data.TripleCartesianProd((functions, places), values, (functions, places), values)
    pairs = dde.data.QuadrupleCartesianProd(
        (functions, others, places), values, (functions, others, places), values
    )
    flat = (np.repeat(functions, 7, 0), np.tile(places, (6, 1)))
    triple = dde.data.Triple(flat, values.reshape(-1, 1), flat, values.reshape(-1, 1))
    yield "DeepONet", triple, dde.nn.DeepONet([5, 8, 4], [1, 8, 4], *activation)
    yield "of a product", whole, dde.nn.DeepONetCartesianProd([5, 8, 4], [1, 8, 4], *activation)
    yield "POD", whole, dde.nn.PODDeepONet(basis, [5, 8, 3], *activation)
    yield "MIONet", pairs, dde.nn.MIONetCartesianProd([5, 8, 4], [5, 8, 4], [1, 8, 4], *activation)


def main():
    import deepxde as dde

    quiet = {"display_every": 10, "verbose": 0}
    # By default the package reads and sets PyTorch's default dtype.
    dde.config.set_default_float("float32")
    found = {}
    model = poisson(dde)
    model.compile("adam", lr=1e-2, metrics=["l2 relative error"], decay=("step", 10, 0.5))
    history, _ = model.train(iterations=20, **quiet)
    found["Poisson, losses"] = losses(history)
    found["Poisson, error"] = torch.tensor(np.array(history.metrics_test))
    inner = np.linspace(-1, 1, 9)[:, None]
    found["Poisson, predicted"] = torch.as_tensor(model.predict(inner))
    found["residuals"] = torch.as_tensor(
        model.predict(inner, operator=lambda x, y: dde.grad.jacobian(y, x))
    )
    with tempfile.TemporaryDirectory() as folder:
        path = model.save(f"{folder}/poisson", verbose=0)
        other = poisson(dde)
        other.compile("adam", lr=1e-2)
        other.restore(path, verbose=0)
        found["restored"] = torch.as_tensor(other.predict(inner))
    # A few steps: after a hundred, roundings have grown to a tenth.
    dde.optimizers.set_LBFGS_options(maxiter=8)
    dde.optimizers.config.LBFGS_options["iter_per_step"] = 8
    model.compile("L-BFGS")
    history, _ = model.train(**quiet)
    found["after L-BFGS"] = torch.as_tensor(model.predict(inner))

    model, factor = diffusion(dde)
    model.compile(
        "adam", lr=1e-2, external_trainable_variables=[factor], loss_weights=[1, 1, 1, 10]
    )
    watch = dde.callbacks.VariableValue(factor, period=10, filename=os.devnull)
    history, _ = model.train(iterations=20, callbacks=[watch], **quiet)
    found["diffusion, losses"] = losses(history)
    found["factor"] = factor
    found["diffusion, weights"] = norms(model.net)

    model = system(dde)
    model.compile("rmsprop", lr=1e-3)
    history, _ = model.train(iterations=20, **quiet)
    found["system, losses"] = losses(history)
    found["system, weights"] = norms(model.net)

    for name, data, net in operators(dde):
        model = dde.Model(data, filled(net))
        model.compile("adam", lr=1e-2, loss="mean l2 relative error" if "of" in name else "MSE")
        history, _ = model.train(iterations=10, **quiet)
        found[f"{name}, losses"] = losses(history)
        found[f"{name}, weights"] = norms(net)
    return found
