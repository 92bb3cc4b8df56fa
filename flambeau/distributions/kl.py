"""Kullback-Leibler divergences, dispatched on pairs of classes.

``KL(p || q)`` is the mean under p of ``log p(x) - log q(x)``, in nats. Formulas for one family are
here; formulas across families are in `flambeau.distributions.cross_entropy`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau import ops
from flambeau.autograd.backward import grad
from flambeau.core.support.warning import warn
from flambeau.distributions.categories import Categorical, OneHotCategorical
from flambeau.distributions.compositions import Independent, TransformedDistribution
from flambeau.distributions.continuous import Cauchy, Laplace, Normal, Uniform
from flambeau.distributions.counts import Bernoulli, Binomial, Geometric, Poisson
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.gammas import Beta, Dirichlet, Gamma
from flambeau.distributions.transformed import HalfNormal, Pareto
from flambeau.distributions.utils import is_known, sum_rightmost
from flambeau.ops.neural.activation import softplus

__all__ = ["kl_divergence", "register_kl"]

# Under the name by which packages ask for it.
_KL_REGISTRY: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """A decorator that registers a formula for a pair of classes and their subclasses.

    Raises:
        TypeError: One of the types is not a class.
    """
    # The classes need not derive from `Distribution`: packages register base classes of their own.
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind!r:.80}")

    def register(formula: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = formula
        return formula

    return register


def kl_divergence(p: Any, q: Any) -> Any:
    """The Kullback-Leibler divergence ``KL(p || q)`` of each distribution of the batch.

    Raises:
        NotImplementedError: There is no formula for the pair of classes.
    """
    formula = _formula_for(type(p), type(q))
    if formula is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
            f"{type(q).__name__}; register_kl adds a formula"
        )
    return formula(p, q)


def _formula_for(type_p: type, type_q: type) -> Any:
    """The formula of the most specific pair of classes."""
    matches = [
        (type_p.__mro__.index(p), type_q.__mro__.index(q), (p, q))
        for p, q in _KL_REGISTRY
        if issubclass(type_p, p) and issubclass(type_q, q)
    ]
    if not matches:
        return None
    nearest = min(matches, key=lambda match: match[:2])[2]
    by_second = min(matches, key=lambda match: match[1::-1])[2]
    if _KL_REGISTRY[nearest] is not _KL_REGISTRY[by_second]:
        one, other = (f"{p.__name__}, {q.__name__}" for p, q in (nearest, by_second))
        warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}): the formulas for "
            f"({one}) and ({other}) match; the first is taken. Please register_kl the pair itself",
            RuntimeWarning,
        )
    return _KL_REGISTRY[nearest]


# Numbers


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).square()
    return (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log()) / 2


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return distance / q.scale + ratio * (-distance / p.scale).exp() - ratio.log() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    distance = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return distance.log() - (4 * p.scale * q.scale).log()


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    is_inside = (q.low <= p.low) & (q.high >= p.high)
    return ops.where(is_inside, ((q.high - q.low) / (p.high - p.low)).log(), math.inf)


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    finite = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return ops.where(p.scale < q.scale, math.inf, finite)


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma()
        + (q.rate - p.rate) * (a / p.rate)
    )  # fmt: skip


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    means = a.digamma() - total.digamma().unsqueeze(-1)
    normalizers = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return normalizers + ((a - b) * means).sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    return _dirichlet(p._dirichlet, q._dirichlet)


# Counts and categories.


def _weighted(probability: Any, difference: Any, other_probability: Any) -> Any:
    """``p (log p - log q)``, with its limits at probability 0."""
    term = ops.where(other_probability == 0, math.inf, probability * difference)
    return ops.where(probability == 0, 0.0, term)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    success = softplus(-q.logits) - softplus(-p.logits)
    failure = softplus(q.logits) - softplus(p.logits)
    return _weighted(p.probs, success, q.probs) + _weighted(1 - p.probs, failure, 1 - q.probs)


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    has_fewer = p.total_count < q.total_count
    if is_known(has_fewer) and has_fewer.any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    finite = p.total_count * _bernoulli(p, q)
    finite = ops.where(has_fewer, math.nan, finite)
    return ops.where(p.total_count > q.total_count, math.inf, finite)


@register_kl(Categorical, Categorical)
@register_kl(OneHotCategorical, OneHotCategorical)
def _categorical(p: Any, q: Any) -> Any:
    return _weighted(p.probs, p.logits - q.logits, q.probs).sum(-1)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return _bernoulli(p, q) / p.probs


# Composed distributions


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "KL between Independents of different reinterpreted_batch_ndims is not implemented: "
            f"{p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}"
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            f"KL between {type(p).__name__} and {type(q).__name__} is implemented for equal "
            "transforms and event shapes only"
        )
    inner = kl_divergence(p.base_dist, q.base_dist)
    return sum_rightmost(inner, len(p.event_shape) - len(p.base_dist.event_shape))


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Any:
    """The Bregman divergence of the normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed "
            f"using Bregman divergences: {type(p).__name__} and {type(q).__name__}"
        )
    own = [
        each.clone() if each.requires_grad else each.detach().requires_grad_()
        for each in p._natural_params
    ]
    normalizer = p._log_normalizer(*own)
    means = grad(normalizer.sum(), own, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for mean, one, other in zip(means, own, q._natural_params, strict=True):
        # A matrix and a scalar may be parameters of one event.
        dims = one.dim() - len(p.batch_shape)
        result = result - sum_rightmost((other - one) * mean, dims)
    return result
