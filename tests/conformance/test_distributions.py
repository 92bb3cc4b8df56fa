"""Distributions against PyTorch's: what is known of them, densities, and their gradients."""

from __future__ import annotations

import importlib
import pkgutil
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import flambeau
import flambeau.distributions

# PyTorch says it of every sample of Wishart.
pytestmark = pytest.mark.filterwarnings("ignore:Singular sample detected")

A, B = [0.7, 1.5, 3.0], [0.4, 2.0, 5.5]
PROBS, LOGITS = [0.2, 0.5, 0.9], [-1.3, 0.0, 2.0]
ROWS = [[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]]
REALS, UNIT, COUNTS = [-1.3, 0.4, 2.2], [0.15, 0.5, 0.8], [0.0, 1.0, 3.0]
HOT = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]

COVARIANCES = [[[2.0, 0.3], [0.3, 1.0]], [[1.0, -0.4], [-0.4, 0.7]]]
TRIANGLES = [[[1.5, 0.0], [0.3, 1.0]], [[1.0, 0.0], [-0.4, 0.7]]]
MEANS, POINTS = [[0.3, -0.2], [1.0, 0.0]], [[0.1, 0.5], [2.0, -1.0]]
OF_MATRICES = [[[3.0, 0.5], [0.5, 2.0]], [[1.0, 0.2], [0.2, 4.0]]]


def independent(lib: Any, **parameters: Any) -> Any:
    return lib.distributions.Independent(lib.distributions.Normal(**parameters), 1)


def mixture(lib: Any, weights: Any, **parameters: Any) -> Any:
    parts = lib.distributions.Normal(**parameters)
    return lib.distributions.MixtureSameFamily(lib.distributions.Categorical(weights), parts)


def mixture_of_vectors(lib: Any, weights: Any, **parameters: Any) -> Any:
    parts = lib.distributions.MultivariateNormal(**parameters)
    return lib.distributions.MixtureSameFamily(lib.distributions.Categorical(weights), parts)


def transformed(lib: Any, **parameters: Any) -> Any:
    d = lib.distributions
    return d.TransformedDistribution(
        d.Normal(**parameters), [d.AffineTransform(1.0, -2.0), d.SigmoidTransform()]
    )


def transformed_vectors(lib: Any, **parameters: Any) -> Any:
    d = lib.distributions
    return d.TransformedDistribution(d.Normal(**parameters), d.StickBreakingTransform())


# The class or a function that makes an object, its parameters, and values of its support.
CASES: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "Normal": ("Normal", {"loc": REALS, "scale": A}, REALS),
    "Laplace": ("Laplace", {"loc": REALS, "scale": A}, [0.3, -2.0, 1.0]),
    "Cauchy": ("Cauchy", {"loc": REALS, "scale": A}, [0.3, -2.0, 1.0]),
    "Uniform": ("Uniform", {"low": [-2.0, 0.0, 1.0], "high": [0.5, 1.0, 4.0]}, [0.3, 0.5, 2.0]),
    "StudentT": ("StudentT", {"df": [0.8, 1.5, 4.0], "loc": REALS, "scale": A}, [0.3, 1.0, 2.0]),
    "GeneralizedPareto": (
        "GeneralizedPareto",
        {"loc": REALS, "scale": A, "concentration": [0.3, 0.0, -0.4]},
        [0.3, 1.0, 4.0],
    ),
    "VonMises": ("VonMises", {"loc": REALS, "concentration": B}, [0.3, 1.0, -3.0]),
    "Exponential": ("Exponential", {"rate": A}, B),
    "Gamma": ("Gamma", {"concentration": A, "rate": B}, [0.3, 1.0, 2.0]),
    "Chi2": ("Chi2", {"df": A}, B),
    "Beta": ("Beta", {"concentration1": A, "concentration0": B}, UNIT),
    "Dirichlet": ("Dirichlet", {"concentration": [A, B]}, ROWS),
    "FisherSnedecor": ("FisherSnedecor", {"df1": [1.5, 3.0, 4.0], "df2": [1.0, 3.0, 6.0]}, B),
    "Bernoulli": ("Bernoulli", {"probs": PROBS}, [0.0, 1.0, 1.0]),
    "Bernoulli by logits": ("Bernoulli", {"logits": LOGITS}, [0.0, 1.0, 1.0]),
    "Geometric": ("Geometric", {"probs": PROBS}, COUNTS),
    "Geometric by logits": ("Geometric", {"logits": LOGITS}, COUNTS),
    "Poisson": ("Poisson", {"rate": A}, COUNTS),
    "Binomial": ("Binomial", {"total_count": [5.0, 5.0, 5.0], "probs": PROBS}, COUNTS),
    "Binomial by logits": ("Binomial", {"total_count": [5.0] * 3, "logits": LOGITS}, COUNTS),
    "NegativeBinomial": ("NegativeBinomial", {"total_count": A, "probs": PROBS}, COUNTS),
    "ContinuousBernoulli": ("ContinuousBernoulli", {"probs": PROBS}, UNIT),
    "ContinuousBernoulli by logits": ("ContinuousBernoulli", {"logits": LOGITS}, UNIT),
    "Categorical": ("Categorical", {"probs": ROWS}, [2, 0]),
    "Categorical by logits": ("Categorical", {"logits": [A, LOGITS]}, [2, 0]),
    "OneHotCategorical": ("OneHotCategorical", {"probs": ROWS}, HOT),
    "OneHotCategoricalStraightThrough": (
        "OneHotCategoricalStraightThrough", {"logits": [A, LOGITS]}, HOT,
    ),
    "Multinomial": ("Multinomial", {"total_count": 4, "probs": ROWS}, [[1.0, 0, 3], [4.0, 0, 0]]),
    "LogNormal": ("LogNormal", {"loc": REALS, "scale": A}, B),
    "HalfNormal": ("HalfNormal", {"scale": A}, B),
    "HalfCauchy": ("HalfCauchy", {"scale": A}, B),
    "InverseGamma": ("InverseGamma", {"concentration": A, "rate": B}, [0.3, 1.0, 2.0]),
    "Pareto": ("Pareto", {"scale": B, "alpha": A}, [1.0, 2.5, 6.0]),
    "Gumbel": ("Gumbel", {"loc": REALS, "scale": A}, [0.3, -2.0, 1.0]),
    "Weibull": ("Weibull", {"scale": B, "concentration": A}, [0.3, 1.0, 2.0]),
    "Kumaraswamy": ("Kumaraswamy", {"concentration1": [0.5, 1.5, 3.0], "concentration0": A}, UNIT),
    "RelaxedBernoulli": (
        "RelaxedBernoulli", {"temperature": [0.5, 1.0, 2.0], "logits": LOGITS}, UNIT,
    ),
    "RelaxedOneHotCategorical": (
        "RelaxedOneHotCategorical", {"temperature": [0.7], "probs": ROWS}, ROWS,
    ),
    "LogisticNormal": (
        "LogisticNormal", {"loc": [[0.3, -0.2], [1.0, 0.0]], "scale": [[1.0, 2.0], [0.5, 1.0]]},
        ROWS,
    ),
    "MultivariateNormal": ("MultivariateNormal", {"loc": MEANS, "scale_tril": TRIANGLES}, POINTS),
    "MultivariateNormal by covariance": (
        "MultivariateNormal", {"loc": MEANS[0], "covariance_matrix": COVARIANCES}, POINTS,
    ),
    "MultivariateNormal by precision": (
        "MultivariateNormal", {"loc": MEANS, "precision_matrix": COVARIANCES[0]}, POINTS,
    ),
    "LowRankMultivariateNormal": (
        "LowRankMultivariateNormal",
        {"loc": MEANS, "cov_factor": [[1.0], [0.5]], "cov_diag": [[0.5, 1.0], [2.0, 0.3]]}, POINTS,
    ),
    "Wishart": ("Wishart", {"df": [4.5, 3.5], "scale_tril": TRIANGLES}, OF_MATRICES),
    "Wishart by covariance": (
        "Wishart", {"df": [3.2, 3.7], "covariance_matrix": COVARIANCES}, OF_MATRICES,
    ),
    "Wishart by precision": (
        "Wishart", {"df": [4.5, 3.5], "precision_matrix": COVARIANCES[0]}, OF_MATRICES,
    ),
    "LKJCholesky": (
        "LKJCholesky", {"dim": 3, "concentration": [0.5, 2.0]},
        [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.48, 0.6, 0.64]],
    ),
    "Independent": (independent, {"loc": MEANS, "scale": [[1.0, 0.5], [2.0, 1.0]]}, POINTS),
    "MixtureSameFamily": (
        mixture, {"weights": ROWS, "loc": [REALS, B], "scale": [A, A]}, [0.3, 1.7],
    ),
    "MixtureSameFamily of vectors": (
        mixture_of_vectors,
        {"weights": [0.3, 0.7], "loc": MEANS, "covariance_matrix": COVARIANCES}, [0.3, 1.7],
    ),
    "TransformedDistribution": (transformed, {"loc": REALS, "scale": A}, UNIT),
    "TransformedDistribution of vectors": (
        transformed_vectors, {"loc": MEANS, "scale": [[1.0, 0.5], [2.0, 1.0]]}, ROWS,
    ),
}  # fmt: skip
# PyTorch's numbers are rounded to single precision in places.
TOLERANCES = {"VonMises": 1e-6, "Multinomial": 1e-7, "GeneralizedPareto": 1e-5}
# PyTorch takes no other dtype here.
DTYPES = {"GeneralizedPareto": "float32"}
# PyTorch's is NaN where there is a mode.
BETTER = {("Kumaraswamy", "mode"), ("Weibull", "mode")}
MATRICES = ["covariance_matrix", "precision_matrix", "scale_tril"]
KNOWN = ["mean", "mode", "variance", "stddev", "batch_shape", "event_shape", *MATRICES]


def made(lib: Any, value: Any, dtype: str = "float64") -> Any:
    """Lists as tensors of a library that require grad, where they can."""
    if not isinstance(value, list):
        return value
    if np.array(value).dtype.kind == "f":
        return lib.tensor(value, dtype=getattr(lib, dtype), requires_grad=True)
    return lib.tensor(value)


def build(lib: Any, name: str) -> tuple[Any, dict[str, Any], Any]:
    kind, parameters, value = CASES[name]
    dtype = DTYPES.get(name, "float64")
    arguments = {key: made(lib, each, dtype) for key, each in parameters.items()}
    made_of = getattr(lib.distributions, kind) if isinstance(kind, str) else partial(kind, lib)
    return made_of(**arguments), arguments, made(lib, value, dtype)


def plain(value: Any) -> Any:
    if hasattr(value, "detach"):
        return np.asarray(value.detach().tolist())
    return tuple(value) if not isinstance(value, (float, int, bool)) else value


def outcome(ask: Any) -> Any:
    """The result in NumPy, or the error's class."""
    try:
        return plain(ask())
    except (NotImplementedError, RuntimeError, AttributeError) as error:
        return type(error)


def assert_same(ours: Any, theirs: Any, name: str = "") -> None:
    tolerance = TOLERANCES.get(name, 1e-9)
    if isinstance(theirs, np.ndarray) and isinstance(ours, np.ndarray):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
    else:
        assert ours == theirs


def gradients(result: Any, inputs: list[Any]) -> list[Any]:
    try:
        (result * result.detach().cos()).sum().backward()
    except NotImplementedError:  # PyTorch's igamma has no derivative by its order
        return []
    return [None if each.grad is None else plain(each.grad) for each in inputs]


def below_diagonal(arguments: dict[str, Any], found: list[Any]) -> list[Any]:
    """Gradients of triangles without what PyTorch gives elements that are not read."""
    names = [*arguments, *[""] * len(found)]
    return [
        np.tril(each) if name == "scale_tril" and each is not None and each.ndim > 1 else each
        for name, each in zip(names, found, strict=False)
    ]


@pytest.mark.parametrize("name", CASES)
def test_what_is_known(name: str) -> None:
    ours, theirs = build(flambeau, name)[0], build(torch, name)[0]
    for what in KNOWN:
        if (name, what) not in BETTER:
            assert_same(
                outcome(lambda what=what: getattr(ours, what)),
                outcome(lambda what=what: getattr(theirs, what)),
                name,
            )


def results(lib: Any, name: str, method: str) -> Any:
    """The result of a method, and its gradients by parameters and value."""
    distribution, arguments, value = build(lib, name)
    inputs = [each for each in arguments.values() if hasattr(each, "grad")]
    if method == "icdf":
        value = made(lib, UNIT, DTYPES.get(name, "float64"))
    takes = () if method == "entropy" else (value,)
    inputs = [each for each in (*inputs, *takes) if getattr(each, "requires_grad", False)]
    try:
        result = getattr(distribution, method)(*takes)
    except NotImplementedError:
        return NotImplementedError, []
    if not result.requires_grad:
        return plain(result), []
    return plain(result), below_diagonal(arguments, gradients(result, inputs))


@pytest.mark.parametrize("method", ["log_prob", "entropy", "cdf", "icdf"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, method: str) -> None:
    ours, our_gradients = results(flambeau, name, method)
    theirs, their_gradients = results(torch, name, method)
    if theirs is NotImplementedError and ours is not theirs:
        return  # more than PyTorch has
    assert_same(ours, theirs, name)
    for one, other in zip(our_gradients, their_gradients, strict=bool(their_gradients)):
        # No gradient and one of zeros are the same.
        if one is not None or other is not None:
            zeros = np.zeros_like(one if other is None else other)
            assert_same(zeros if one is None else one, zeros if other is None else other, name)


@pytest.mark.parametrize("name", CASES)
def test_expanded(name: str) -> None:
    (ours, _, value), (theirs, _, their_value) = build(flambeau, name), build(torch, name)
    shape = (2, *ours.batch_shape)
    ours, theirs = ours.expand(shape), theirs.expand(shape)
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape)
    assert_same(plain(ours.log_prob(value)), plain(theirs.log_prob(their_value)), name)
    assert ours.sample((3,)).shape == theirs.sample((3,)).shape


@pytest.mark.parametrize("name", CASES)
def test_support_and_samples(name: str) -> None:
    ours, theirs = build(flambeau, name)[0], build(torch, name)[0]
    assert (ours.has_rsample, ours.has_enumerate_support) == (
        theirs.has_rsample,
        theirs.has_enumerate_support,
    )
    assert (ours.support.event_dim, ours.support.is_discrete) == (
        theirs.support.event_dim,
        theirs.support.is_discrete,
    )
    sample, other = ours.sample((4, 2)), theirs.sample((4, 2))
    assert (tuple(sample.shape), str(sample.dtype).split(".")[1]) == (
        tuple(other.shape),
        str(other.dtype).split(".")[1],
    )
    assert ours.support.check(sample).all()
    assert ours.log_prob(sample).isfinite().all()
    if theirs.has_enumerate_support:
        for expand in (True, False):
            assert_same(
                plain(ours.enumerate_support(expand)), plain(theirs.enumerate_support(expand))
            )


# Samples are functions of standard normal numbers, which are PyTorch's for the same seed.
OF_NORMALS = [
    "Normal", "LogNormal", "LogisticNormal", "MultivariateNormal",
    "MultivariateNormal by covariance", "MultivariateNormal by precision",
    "LowRankMultivariateNormal", "Independent", "TransformedDistribution",
    "TransformedDistribution of vectors",
]  # fmt: skip


@pytest.mark.parametrize("name", OF_NORMALS)
def test_samples_and_their_gradients(name: str) -> None:
    found = []
    for lib in (flambeau, torch):
        distribution, arguments, _ = build(lib, name)
        lib.manual_seed(3)
        sample = distribution.rsample((4,))
        found.append([plain(sample), *gradients(sample, list(arguments.values()))])
    for ours, theirs in zip(*found, strict=True):
        assert_same(ours, theirs, name)


ERRORS: dict[str, Any] = {
    "no matrix": lambda lib, d: d.MultivariateNormal(lib.zeros(2)),
    "two matrices": lambda lib, d: d.MultivariateNormal(lib.zeros(2), lib.eye(2), lib.eye(2)),
    "a number": lambda lib, d: d.MultivariateNormal(lib.tensor(0.0), lib.eye(2)),
    "a vector": lambda lib, d: d.MultivariateNormal(lib.zeros(2), lib.ones(2)),
    "not positive": lambda lib, d: d.MultivariateNormal(lib.zeros(2), -lib.eye(2)),
    "no triangle": lambda lib, d: d.MultivariateNormal(lib.zeros(2), scale_tril=lib.ones(2, 2)),
    "value": lambda lib, d: d.MultivariateNormal(lib.zeros(2), lib.eye(2)).log_prob(lib.zeros(3)),
    "vector of factors": lambda lib, d: d.LowRankMultivariateNormal(
        lib.zeros(2), lib.zeros(2), lib.ones(2)),
    "factor": lambda lib, d: d.LowRankMultivariateNormal(
        lib.zeros(2), lib.zeros(3, 1), lib.ones(2)),
    "diagonal": lambda lib, d: d.LowRankMultivariateNormal(
        lib.zeros(2), lib.zeros(2, 1), lib.ones(3)),
    "batches": lambda lib, d: d.LowRankMultivariateNormal(
        lib.zeros(3, 2), lib.zeros(2, 2, 1), lib.ones(2)),
    "negative diagonal": lambda lib, d: d.LowRankMultivariateNormal(
        lib.zeros(2), lib.zeros(2, 1), -lib.ones(2)),
    "no scale": lambda lib, d: d.Wishart(3.0),
    "low df": lambda lib, d: d.Wishart(1.0, lib.eye(2)),
    "scale of numbers": lambda lib, d: d.Wishart(1.0, lib.ones(2)),
    "not definite": lambda lib, d: d.Wishart(4.0, lib.eye(2)).log_prob(-lib.eye(2)),
    "dim": lambda lib, d: d.LKJCholesky(1),
    "concentration": lambda lib, d: d.LKJCholesky(2, -1.0),
    "no factor": lambda lib, d: d.LKJCholesky(2).log_prob(2 * lib.eye(2)),
    "mean": lambda lib, d: d.LKJCholesky(2).mean,
    "entropy": lambda lib, d: d.LKJCholesky(2).entropy(),
    "rsample": lambda lib, d: d.LKJCholesky(2).rsample(),
    "cdf": lambda lib, d: d.MultivariateNormal(lib.zeros(2), lib.eye(2)).cdf(lib.zeros(2)),
    "dimensions": lambda lib, d: d.Independent(d.Normal(lib.zeros(2), 1.0), 2),
    "mixture": lambda lib, d: d.MixtureSameFamily(
        d.Normal(lib.zeros(2), 1.0), d.Normal(lib.zeros(2), 1.0)),
    "components": lambda lib, d: d.MixtureSameFamily(
        d.Categorical(lib.ones(3)), d.Normal(lib.zeros(2), 1.0)),
    "transforms": lambda lib, d: d.TransformedDistribution(d.Normal(lib.zeros(2), 1.0), 3),
    "event sizes": lambda lib, d: d.kl_divergence(
        d.MultivariateNormal(lib.zeros(2), lib.eye(2)),
        d.MultivariateNormal(lib.zeros(3), lib.eye(3))),
    "no formula": lambda lib, d: d.kl_divergence(
        d.Wishart(3.0, lib.eye(2)), d.MultivariateNormal(lib.zeros(2), lib.eye(2))),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    raised = []
    for lib in (flambeau, torch):
        with pytest.raises(Exception) as error:  # noqa: PT011 (compared below)
            ERRORS[name](lib, lib.distributions)
        raised.append(error.type.__name__)
    assert raised[0] == raised[1]


def test_every_module_has_its_names() -> None:
    for info in pkgutil.iter_modules(torch.distributions.__path__):
        theirs = importlib.import_module(f"torch.distributions.{info.name}")
        ours = importlib.import_module(f"flambeau.distributions.{info.name}")
        assert {name for name in theirs.__all__ if not hasattr(ours, name)} == set(), info.name


def test_every_name_is_there() -> None:
    theirs = set(torch.distributions.__all__)
    assert {name for name in theirs if not hasattr(flambeau.distributions, name)} == set()
    for part in ("constraints", "transforms"):
        names = set(getattr(torch.distributions, part).__all__)
        ours = getattr(flambeau.distributions, part)
        assert {name for name in names if not hasattr(ours, name)} == set()


def test_cases_are_all_distributions() -> None:
    base = torch.distributions.Distribution
    kinds = [getattr(torch.distributions, name) for name in torch.distributions.__all__]
    concrete = {k.__name__ for k in kinds if isinstance(k, type) and issubclass(k, base)}
    abstract = {"Distribution", "ExponentialFamily", "Independent", "MixtureSameFamily",
                "TransformedDistribution"}  # fmt: skip
    assert concrete - abstract == {kind for kind, _, _ in CASES.values() if isinstance(kind, str)}
