"""Continuous relaxations of discrete distributions, and the logistic normal distribution.

C. J. Maddison, A. Mnih and Y. W. Teh, "The concrete distribution", 2017; E. Jang, S. Gu and
B. Poole, "Categorical reparameterization with Gumbel-softmax", 2017.
"""

from __future__ import annotations

from typing import Any, ClassVar

from flambeau import ops
from flambeau.distributions import constraints
from flambeau.distributions.categories import _OfCategories
from flambeau.distributions.compositions import TransformedDistribution
from flambeau.distributions.continuous import Normal
from flambeau.distributions.parametric import ByProbsOrLogits
from flambeau.distributions.transforms import (
    ExpTransform,
    SigmoidTransform,
    StickBreakingTransform,
)
from flambeau.distributions.utils import clamp_probs


def _inner_uniform(shape: Any, like: Any) -> Any:
    return clamp_probs(ops.rand(shape, dtype=like.dtype, device=like.device))


class LogitRelaxedBernoulli(ByProbsOrLogits):
    """The logits of `RelaxedBernoulli`."""

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        self.temperature = temperature
        self._start_with(probs, logits, validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        noise = _inner_uniform(shape, probs)
        logits = noise.log() - (-noise).log1p() + probs.log() - (-probs).log1p()
        return logits / self.temperature

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        excess = self.logits - value * self.temperature
        return self.temperature.log() + excess - 2 * excess.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """A relaxation on (0, 1) that tends to `Bernoulli` as the temperature goes to 0.

    Args:
        temperature: A positive tensor.
        probs: The probabilities of 1.
        logits: Their log-odds, instead.
        validate_args: See `Distribution`.
    """

    arg_constraints: ClassVar[Any] = LogitRelaxedBernoulli.arg_constraints
    support = constraints.unit_interval
    has_rsample = True
    temperature: Any = property(lambda self: self.base_dist.temperature)
    logits: Any = property(lambda self: self.base_dist.logits)
    probs: Any = property(lambda self: self.base_dist.probs)

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class ExpRelaxedCategorical(_OfCategories):
    """The logarithms of `RelaxedOneHotCategorical`."""

    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        self.temperature = temperature
        self._start_normalized(probs, logits, validate_args, has_events=True)

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = _inner_uniform(self._extended_shape(sample_shape), self.logits)
        gumbel = -(-noise.log()).log()
        return ((self.logits + gumbel) / self.temperature).log_softmax(-1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        count = self._num_events
        scores = (self.logits - value * self.temperature).log_softmax(-1).sum(-1)
        scale = ops.full_like(self.temperature, float(count)).lgamma()
        return scores + scale + (count - 1) * self.temperature.log()


class RelaxedOneHotCategorical(TransformedDistribution):
    """A relaxation on the simplex that tends to `OneHotCategorical` at low temperatures.

    Args:
        temperature: A positive tensor.
        probs: The probabilities of the categories.
        logits: Their logarithms up to a constant, instead.
        validate_args: See `Distribution`.
    """

    arg_constraints: ClassVar[Any] = _OfCategories.arg_constraints
    support = constraints.simplex
    has_rsample = True
    temperature: Any = property(lambda self: self.base_dist.temperature)
    logits: Any = property(lambda self: self.base_dist.logits)
    probs: Any = property(lambda self: self.base_dist.probs)

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)


class LogisticNormal(TransformedDistribution):
    """Points of the simplex by stick breaking with the sigmoids of normal variables."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    loc: Any = property(lambda self: self.base_dist.base_dist.loc)
    scale: Any = property(lambda self: self.base_dist.base_dist.scale)

    def __init__(self, loc: Any, scale: Any, validate_args: Any = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)
