"""Kullback-Leibler divergences of distributions of different families.

``KL(p || q)`` is minus the entropy of p, minus the mean of ``log q(x)`` under p. For most q this
mean needs only a few means under p: of x, of its square, of ``log x``, or of ``exp(-x / scale)``.
Where p has mass outside the support of q, the divergence is infinite.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau import ops
from flambeau.distributions.continuous import Laplace, Normal, Uniform
from flambeau.distributions.counts import Bernoulli, Binomial, ContinuousBernoulli, Poisson
from flambeau.distributions.gammas import Beta, Exponential, Gamma
from flambeau.distributions.kl import register_kl
from flambeau.distributions.transformed import Gumbel, Pareto
from flambeau.distributions.utils import euler_constant
from flambeau.ops.neural.activation import softplus

# The mean of log x under p.
_MEAN_LOG = {
    Exponential: lambda p: -euler_constant - p.rate.log(),
    Gamma: lambda p: p.concentration.digamma() - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Beta: lambda p: p.concentration1.digamma() - p._total.digamma(),
    Uniform: lambda p: _mean_log_between(p.low, p.high),
}


def _mean_log_between(low: Any, high: Any) -> Any:
    return (ops.xlogy(high, high) - ops.xlogy(low, low)) / (high - low) - 1


# The mean of exp(-x / scale) under p.
_MEAN_DECAY = {
    Exponential: lambda p, scale: p.rate / (p.rate + 1 / scale),
    Gamma: lambda p, scale: (-p.concentration * (1 / (scale * p.rate)).log1p()).exp(),
    Normal: lambda p, scale: ((p.scale / scale).square() / 2 - p.loc / scale).exp(),
    Gumbel: lambda p, scale: ((1 + p.scale / scale).lgamma() - p.loc / scale).exp(),
    Uniform: lambda p, scale: (
        ((-p.low / scale).exp() - (-p.high / scale).exp()) * scale / (p.high - p.low)
    ),
}


# The mean of log q(x) under p


def _under_normal(p: Any, q: Any) -> Any:
    square = p.variance + (p.mean - q.loc).square()
    return -square / (2 * q.scale.square()) - q.scale.log() - math.log(2 * math.pi) / 2


def _under_exponential(p: Any, q: Any) -> Any:
    return q.rate.log() - q.rate * p.mean


def _under_continuous_bernoulli(p: Any, q: Any) -> Any:
    return p.mean * q.logits - softplus(q.logits) + q._log_constant()


def _under_gamma(p: Any, q: Any) -> Any:
    a = q.concentration
    mean_log = _MEAN_LOG[type(p)](p)
    return a * q.rate.log() + (a - 1) * mean_log - q.rate * p.mean - a.lgamma()


def _under_pareto(p: Any, q: Any) -> Any:
    inside = ops.xlogy(q.alpha, q.scale) + q.alpha.log() - (q.alpha + 1) * _MEAN_LOG[type(p)](p)
    return ops.where(p.low < q.scale, -math.inf, inside)


def _under_beta(p: Any, q: Any) -> Any:
    one, zero = q.concentration1, q.concentration0
    powers = (one - 1) * _mean_log_between(p.low, p.high) + (zero - 1) * _mean_log_between(
        1 - p.high, 1 - p.low
    )
    inside = powers + (one + zero).lgamma() - one.lgamma() - zero.lgamma()
    return ops.where((p.high > 1) | (p.low < 0), -math.inf, inside)


def _under_gumbel(p: Any, q: Any) -> Any:
    decay = (q.loc / q.scale).exp() * _MEAN_DECAY[type(p)](p, q.scale)
    return (q.loc - p.mean) / q.scale - decay - q.scale.log()


def _under_laplace(p: Any, q: Any) -> Any:
    distance = p.loc - q.loc
    folded = distance * ops.erf(distance / (math.sqrt(2) * p.scale))
    folded = folded + math.sqrt(2 / math.pi) * p.scale * (-(distance / p.scale).square() / 2).exp()
    return -folded / q.scale - (2 * q.scale).log()


def _under_uniform(p: Any, q: Any) -> Any:
    """The divergence from a uniform q, for a p on [0, 1]."""
    return ops.where((q.low > 0) | (q.high < 1), -math.inf, -(q.high - q.low).log())


def _within_unit(under: Any) -> Any:
    """The divergence of a uniform p from a q on [0, 1]."""
    return lambda p, q: ops.where((p.high > 1) | (p.low < 0), -math.inf, under(p, q))


def _above_zero(under: Any) -> Any:
    """The divergence of a uniform p from a q on positive numbers."""
    return lambda p, q: ops.where(p.low < 0, -math.inf, under(p, q))


def _with_variance(under: Any) -> Any:
    """A divergence for a p whose entropy may be finite with an infinite mean."""
    return lambda p, q: ops.where(p.variance.isinf(), -math.inf, under(p, q))


def _poisson_of_bernoulli(p: Any, q: Any) -> Any:
    return p.probs * q.rate.log() - q.rate


_MEANS = [
    (Normal, [Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform],
     _under_normal),
    (Exponential, [Beta, ContinuousBernoulli, Gamma, Pareto], _under_exponential),
    (ContinuousBernoulli, [Beta], _under_continuous_bernoulli),
    (Gamma, [Beta, Exponential, Pareto], _under_gamma),
    (Gumbel, [Exponential, Gamma, Gumbel, Normal, Uniform], _under_gumbel),
    (Laplace, [Normal], _under_laplace),
    (Pareto, [Uniform], _under_pareto),
    (Beta, [Uniform], _under_beta),
    (Uniform, [Beta, ContinuousBernoulli], _under_uniform),
    (Poisson, [Bernoulli], _poisson_of_bernoulli),
    (Normal, [Pareto], _with_variance(_under_normal)),
    (ContinuousBernoulli, [Uniform], _within_unit(_under_continuous_bernoulli)),
    (Exponential, [Uniform], _above_zero(_under_exponential)),
    (Gamma, [Uniform], _above_zero(_under_gamma)),
]  # fmt: skip

_INFINITE = [
    (Beta, [ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Normal, Pareto]),
    (ContinuousBernoulli, [Exponential, Gamma, Gumbel, Laplace, Normal, Pareto]),
    (Exponential, [Gumbel, Laplace, Normal]),
    (Gamma, [ContinuousBernoulli, Gumbel, Laplace, Normal]),
    (Pareto, [Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Normal]),
    (Uniform, [Exponential, Gamma, Gumbel, Laplace, Normal, Pareto]),
    (Bernoulli, [Poisson]),
    (Binomial, [Poisson]),
]


def _infinite(p: Any, q: Any) -> Any:
    shape = ops.broadcast_shapes(p.batch_shape, q.batch_shape)
    return p.mean.new_full(shape, math.inf)


def _divergence(mean_log_density: Any) -> Any:
    return lambda p, q: -p.entropy() - mean_log_density(p, q)


for _q, _kinds, _mean_log_density in _MEANS:
    for _p in _kinds:
        register_kl(_p, _q)(_divergence(_mean_log_density))
for _q, _kinds in _INFINITE:
    for _p in _kinds:
        register_kl(_p, _q)(_infinite)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Any:
    bernoulli = p.mean * (p.logits - q.logits) - softplus(p.logits) + softplus(q.logits)
    return bernoulli + p._log_constant() - q._log_constant()
