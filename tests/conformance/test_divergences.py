"""Kullback-Leibler divergences, transforms and registries against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import flambeau
import flambeau.distributions

OTHER = {
    "Bernoulli": {"probs": [0.3, 0.6]}, "Beta": {"concentration1": [0.7, 2.0],
    "concentration0": [1.2, 3.0]}, "Binomial": {"total_count": [4.0, 4.0], "probs": [0.3, 0.6]},
    "Categorical": {"probs": [[0.2, 0.8], [0.5, 0.5]]}, "Cauchy": {"loc": [0.3, 1.0],
    "scale": [1.0, 2.0]}, "ContinuousBernoulli": {"probs": [0.3, 0.6]},
    "Dirichlet": {"concentration": [[0.7, 2.0], [1.0, 3.0]]}, "Exponential": {"rate": [0.7, 2.0]},
    "Gamma": {"concentration": [0.7, 2.0], "rate": [1.2, 3.0]}, "Geometric": {"probs": [0.3, 0.6]},
    "Gumbel": {"loc": [0.3, 1.0], "scale": [1.0, 2.0]}, "HalfNormal": {"scale": [1.0, 2.0]},
    "Laplace": {"loc": [0.3, 1.0], "scale": [1.0, 2.0]},
    "LowRankMultivariateNormal": {"loc": [[0.3, 1.0], [2.0, 0.5]], "cov_factor": [[1.0], [0.5]],
    "cov_diag": [[0.5, 1.0], [2.0, 0.3]]},
    "MultivariateNormal": {"loc": [[0.5, -1.0], [0.1, 0.5]],
    "covariance_matrix": [[[2.0, 0.3], [0.3, 1.0]], [[1.0, -0.4], [-0.4, 0.7]]]},
    "Normal": {"loc": [0.3, 1.0], "scale": [1.0, 2.0]},
    "OneHotCategorical": {"probs": [[0.2, 0.8], [0.5, 0.5]]},
    "Pareto": {"scale": [0.2, 0.5], "alpha": [3.0, 4.0]}, "Poisson": {"rate": [0.7, 2.0]},
    "Uniform": {"low": [0.25, 0.6], "high": [0.75, 0.9]},
    # Of a batch, PyTorch adds all divergences to each.
    "Wishart": {"df": 3.0, "covariance_matrix": [[2.0, 0.3], [0.3, 1.0]]},
}  # fmt: skip
REGISTERED = {(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY}
# That of Wishart is the formula of all exponential families.
PAIRS = sorted({pair for pair in REGISTERED if set(pair) <= set(OTHER)} | {("Wishart", "Wishart")})


def build(lib: Any, name: str, factor: float) -> Any:
    parameters = {key: lib.tensor(values, dtype=lib.float64) for key, values in OTHER[name].items()}
    first = next(iter(parameters))
    if first in ("loc", "df", "concentration", "concentration1", "rate"):
        parameters[first] = parameters[first] * factor
    if first == "probs":
        parameters[first] = parameters[first] ** factor
        if name in ("Categorical", "OneHotCategorical"):
            parameters[first] = parameters[first] / parameters[first].sum(-1, keepdim=True)
    return getattr(lib.distributions, name)(**parameters)


@pytest.mark.parametrize("p", sorted({p for p, _ in PAIRS}))
def test_divergences(p: str) -> None:
    for q in (q for first, q in PAIRS if first == p):
        ours, theirs = (
            lib.distributions.kl_divergence(build(lib, p, 1.5), build(lib, q, 1.0)).tolist()
            for lib in (flambeau, torch)
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9, err_msg=f"{p}, {q}")


REALS, UNIT, ABOVE = [[0.3, -1.2], [0.7, 2.0]], [[0.2, 0.4], [0.5, 0.9]], [[0.3, 1.2], [0.7, 2.0]]
TRANSFORMS = {
    "Exp": (lambda t, lib: t.ExpTransform(), REALS),
    "Power": (lambda t, lib: t.PowerTransform(lib.tensor(1.5, dtype=lib.float64)), ABOVE),
    "Sigmoid": (lambda t, lib: t.SigmoidTransform(), REALS),
    "Softplus": (lambda t, lib: t.SoftplusTransform(), REALS),
    "Tanh": (lambda t, lib: t.TanhTransform(), REALS),
    "Affine": (lambda t, lib: t.AffineTransform(1.0, -2.0, event_dim=1), REALS),
    "StickBreaking": (lambda t, lib: t.StickBreakingTransform(), REALS),
    "CorrCholesky": (lambda t, lib: t.CorrCholeskyTransform(), [[0.3, -0.4, 0.9]]),
    "Reshape": (lambda t, lib: t.ReshapeTransform((2, 2), (4,)), REALS),
    "Independent": (lambda t, lib: t.IndependentTransform(t.ExpTransform(), 1), REALS),
    "Compose": (
        lambda t, lib: t.ComposeTransform([t.TanhTransform(), t.AffineTransform(1.0, 3.0)]), REALS,
    ),
    "inverse": (lambda t, lib: t.ExpTransform().inv, ABOVE),
    "Cat": (lambda t, lib: t.CatTransform([t.ExpTransform(), t.TanhTransform()], 1), REALS),
    "Stack": (lambda t, lib: t.StackTransform([t.ExpTransform(), t.TanhTransform()], 1), REALS),
    "CumulativeDistribution": (
        lambda t, lib: t.CumulativeDistributionTransform(
            lib.distributions.Normal(lib.tensor(0.0, dtype=lib.float64), 1.0)
        ),
        REALS,
    ),
}  # fmt: skip


def transformed(lib: Any, name: str) -> list[Any]:
    make, values = TRANSFORMS[name]
    transform = make(lib.distributions.transforms, lib)
    x = lib.tensor(values, dtype=lib.float64, requires_grad=True)
    y = transform(x)
    volume = transform.log_abs_det_jacobian(x, y)
    found = [y, transform.inv(y), volume]
    (y.sum() + volume.sin().sum()).backward()
    shapes = [tuple(transform.forward_shape(x.shape)), tuple(transform.inverse_shape(y.shape))]
    dims = [transform.domain.event_dim, transform.codomain.event_dim, transform.bijective]
    return [np.asarray(each.tolist()) for each in (*found, x.grad)] + [shapes, dims]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str) -> None:
    for ours, theirs in zip(transformed(flambeau, name), transformed(torch, name), strict=True):
        if isinstance(ours, list):
            assert ours == theirs
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


CONSTRAINTS = [
    "boolean", "nonnegative_integer", "real", "positive", "nonnegative", "unit_interval", "simplex",
    "one_hot", "real_vector", "lower_triangular", "lower_cholesky", "corr_cholesky", "symmetric",
    "positive_definite", "positive_semidefinite", "square",
]  # fmt: skip
MATRICES = [[[1.0, 0.0], [0.6, 0.8]], [[2.0, 1.0], [1.0, 2.0]], [[0.0, 1.0], [1.0, 0.0]]]


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints(name: str) -> None:
    ours, theirs = (getattr(lib.distributions.constraints, name) for lib in (flambeau, torch))
    assert repr(ours) == repr(theirs)
    assert (ours.event_dim, ours.is_discrete) == (theirs.event_dim, theirs.is_discrete)
    # PyTorch asks no more of a batch in which one matrix is not symmetric.
    matrices = MATRICES[1:] if name.startswith("positive_") else MATRICES
    checked = [
        each.check(lib.tensor(matrices)) for each, lib in ((ours, flambeau), (theirs, torch))
    ]
    assert checked[0].tolist() == checked[1].tolist()


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_registries(registry: str) -> None:
    for name in ("real", "positive", "unit_interval", "simplex", "corr_cholesky", "real_vector"):
        ours, theirs = (
            getattr(lib.distributions, registry)(getattr(lib.distributions.constraints, name))
            for lib in (flambeau, torch)
        )
        assert repr(ours) == repr(theirs)
