"""Distributions against PyTorch's: what is known of them, densities, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import flambeau
import flambeau.distributions

A, B = [0.7, 1.5, 3.0], [0.4, 2.0, 5.5]
PROBS, LOGITS = [0.2, 0.5, 0.9], [-1.3, 0.0, 2.0]
ROWS = [[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]]
REALS, UNIT, COUNTS = [-1.3, 0.4, 2.2], [0.15, 0.5, 0.8], [0.0, 1.0, 3.0]
HOT = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]

# The class, its parameters, and values of its support.
CASES: dict[str, tuple[str, dict[str, Any], Any]] = {
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
}  # fmt: skip
# PyTorch's numbers are rounded to single precision in places.
TOLERANCES = {"VonMises": 1e-6, "Multinomial": 1e-7, "GeneralizedPareto": 1e-5}
# PyTorch takes no other dtype here.
DTYPES = {"GeneralizedPareto": "float32"}
# PyTorch's is NaN where there is a mode.
BETTER = {("Kumaraswamy", "mode"), ("Weibull", "mode")}
ABSENT = {"LKJCholesky", "LowRankMultivariateNormal", "MultivariateNormal", "Wishart"}
KNOWN = ["mean", "mode", "variance", "stddev", "batch_shape", "event_shape"]


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
    return getattr(lib.distributions, kind)(**arguments), arguments, made(lib, value, dtype)


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
    return plain(result), gradients(result, inputs)


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


def test_every_name_is_there() -> None:
    theirs = set(torch.distributions.__all__) - ABSENT
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
    assert concrete - abstract - ABSENT == {kind for kind, _, _ in CASES.values()}
