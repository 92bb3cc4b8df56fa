"""PyTorch's module names of distributions.

PyTorch has a module for each distribution; here related distributions share a module, which is
importable under each of the names. Each module also has the class `Distribution`, which packages
import from any of them.
"""

from __future__ import annotations

import sys
from importlib import import_module

_NAMES = {
    "categories": "categorical multinomial one_hot_categorical",
    "compositions": "independent mixture_same_family transformed_distribution",
    "continuous": "cauchy generalized_pareto laplace normal studentT uniform von_mises",
    "counts": "bernoulli binomial continuous_bernoulli geometric negative_binomial poisson",
    "gammas": "beta chi2 dirichlet exponential fishersnedecor gamma",
    "relaxed": "logistic_normal relaxed_bernoulli relaxed_categorical",
    "transformed": (
        "gumbel half_cauchy half_normal inverse_gamma kumaraswamy log_normal pareto weibull"
    ),
}


def add_names(package: str) -> None:
    """Make the modules of a package importable under PyTorch's names too."""
    for home, names in _NAMES.items():
        module = import_module(f"{package}.{home}")
        for name in names.split():
            sys.modules[f"{package}.{name}"] = module
            setattr(sys.modules[package], name, module)
    base = import_module(f"{package}.distribution").Distribution
    for home in (*_NAMES, "lowrank_multivariate_normal", "multivariate_normal", "wishart"):
        vars(import_module(f"{package}.{home}")).setdefault("Distribution", base)


def module_of(home: str, distribution: str) -> str | None:
    """PyTorch's module of a distribution defined in the module ``home`` of this package."""
    wanted = distribution.lower().removesuffix("straightthrough")
    wanted = wanted.replace("relaxedonehotcategorical", "relaxedcategorical")
    for name in _NAMES.get(home, "").split():
        if name.replace("_", "").lower() == wanted:
            return f"distributions.{name}"
    return None
