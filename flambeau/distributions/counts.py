"""Distributions of successes and counts, and the continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from flambeau import ops
from flambeau.core.support.dtype import finfo
from flambeau.core.support.modes import no_grad
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.parametric import ByProbsOrLogits, Parametric
from flambeau.distributions.utils import broadcast_all, clamp_probs
from flambeau.ops.draws.rejection_draws import _standard_gamma, binomial
from flambeau.ops.elementwise.special_functions import xlog1py
from flambeau.ops.neural.activation import softplus

_OF_SUCCESS = {"probs": constraints.unit_interval, "logits": constraints.real}


class Bernoulli(ByProbsOrLogits, ExponentialFamily):
    """1 with the probability ``probs``, else 0; or parameterized by the log-odds ``logits``."""

    arg_constraints: ClassVar[Any] = _OF_SUCCESS
    support = constraints.boolean
    has_enumerate_support = True
    mean: Any = property(lambda self: self.probs)
    variance: Any = property(lambda self: self.probs * (1 - self.probs))

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        self._start_with(probs, logits, validate_args)

    @property
    def mode(self) -> Any:
        likelier = (self.probs >= 0.5).to(self.probs.dtype)
        return ops.where(self.probs == 0.5, math.nan, likelier)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return ops.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return value * self.logits - softplus(self.logits)

    def entropy(self) -> Any:
        return softplus(self.logits) - self.probs * self.logits

    def enumerate_support(self, expand: bool = True) -> Any:
        return _counted_up(self, 2, expand)


class Geometric(ByProbsOrLogits):
    """Numbers of failures before the first success of probability ``probs``."""

    arg_constraints: ClassVar[Any] = _OF_SUCCESS
    support = constraints.nonnegative_integer
    mean: Any = property(lambda self: 1 / self.probs - 1)
    mode: Any = property(lambda self: ops.zeros_like(self.probs))
    variance: Any = property(lambda self: (1 / self.probs - 1) / self.probs)

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        self._start_with(probs, logits, validate_args)

    def _validate_parameters(self) -> None:
        super()._validate_parameters()
        if self._given == "probs":
            # With probability 0 the number of failures would be infinite.
            self._require("probs", constraints.positive)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            uniform = ops.rand(shape, dtype=self.probs.dtype, device=self.probs.device)
            uniform = uniform.clamp(min=finfo(self.probs.dtype).tiny)
            return (uniform.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return xlog1py(value, -self.probs) + self.probs.log()

    def entropy(self) -> Any:
        return (softplus(self.logits) - self.probs * self.logits) / self.probs


class Poisson(Parametric, ExponentialFamily):
    """Counts of events that happen ``rate`` times on average."""

    arg_constraints: ClassVar[Any] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    rate: Any
    mean: Any = property(lambda self: self.rate)
    mode: Any = property(lambda self: self.rate.floor())
    variance: Any = property(lambda self: self.rate)

    def __init__(self, rate: Any, validate_args: Any = None) -> None:
        self._start(validate_args, rate=rate)

    def sample(self, sample_shape: Any = ()) -> Any:
        return ops.poisson(self.rate.detach().expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return ops.xlogy(value, self.rate) - self.rate - (value + 1).lgamma()


class Binomial(ByProbsOrLogits):
    """Numbers of successes in ``total_count`` trials of probability ``probs``."""

    arg_constraints: ClassVar[Any] = {"total_count": constraints.nonnegative_integer, **_OF_SUCCESS}
    has_enumerate_support = True
    total_count: Any
    mean: Any = property(lambda self: self.total_count * self.probs)
    variance: Any = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        self._start_with(probs, logits, validate_args, total_count=total_count)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            count = self.total_count.to(self._param.dtype)
            return binomial(count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * self.logits - n * softplus(self.logits)

    def entropy(self) -> Any:
        values = self.enumerate_support(expand=False)
        log_prob = self.log_prob(values)
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        most = int(self.total_count.max())
        if not (self.total_count == most).all():
            raise NotImplementedError(
                "Inhomogeneous total count not supported by `enumerate_support`."
            )
        return _counted_up(self, most + 1, expand)


class NegativeBinomial(ByProbsOrLogits):
    """Numbers of successes of probability ``probs`` before ``total_count`` failures."""

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    total_count: Any
    mean: Any = property(lambda self: self.total_count * self.logits.exp())
    variance: Any = property(lambda self: self.mean / ops.sigmoid(-self.logits))

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        self._start_with(probs, logits, validate_args, total_count=total_count)
        self.total_count = self.total_count.to(self._param.dtype)

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            rate = _standard_gamma(self.total_count.expand(shape)) * self.logits.exp()
            return ops.poisson(rate)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        odds = value * self.logits - (n + value) * softplus(self.logits)
        ways = (n + value).lgamma() - (value + 1).lgamma() - n.lgamma()
        # With no failure to wait for, the count is 0 with certainty.
        return odds + ops.where(n + value == 0, 0.0, ways)


class ContinuousBernoulli(ByProbsOrLogits, ExponentialFamily):
    """Numbers of [0, 1] with the density of ``probs^x (1 - probs)^(1 - x)``.

    G. Loaiza-Ganem and J. P. Cunningham, "The continuous Bernoulli: fixing a pervasive error in
    variational autoencoders", 2019.

    Args:
        probs: The parameter, which is not the mean.
        logits: Its log-odds, instead.
        lims: Between these probabilities, formulas that divide by ``probs - 1/2`` are replaced by
            their Taylor series.
        validate_args: See `Distribution`.
    """

    arg_constraints: ClassVar[Any] = _OF_SUCCESS
    support = constraints.unit_interval
    has_rsample = True

    probs: Any

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: Any = (0.499, 0.501),
        validate_args: Any = None,
    ) -> None:  # fmt: skip
        self._lims = lims
        if probs is not None:
            (probs,) = broadcast_all(probs)
        self._start_with(probs, logits, validate_args)
        if probs is not None:
            self.probs = clamp_probs(self.probs)

    def _apart(self) -> tuple[Any, Any]:
        """A mask of probabilities far from 1/2, and the probability with a constant elsewhere."""
        low, high = self._lims
        is_far = (self.probs <= low) | (self.probs > high)
        return is_far, ops.where(is_far, self.probs, low)

    def _log_constant(self) -> Any:
        """The logarithm of the normalizing constant."""
        is_far, p = self._apart()
        below = ops.where(p <= 0.5, p, 0.0)
        above = ops.where(p >= 0.5, p, 1.0)
        odds = ((-p).log1p() - p.log()).abs().log()
        gap = ops.where(p <= 0.5, (-2 * below).log1p(), (2 * above - 1).log())
        square = (self.probs - 0.5).square()
        series = math.log(2) + (4 / 3 + 104 / 45 * square) * square
        return ops.where(is_far, odds - gap, series)

    @property
    def mean(self) -> Any:
        is_far, p = self._apart()
        exact = p / (2 * p - 1) + 1 / ((-p).log1p() - p.log())
        x = self.probs - 0.5
        return ops.where(is_far, exact, 0.5 + (1 / 3 + 16 / 45 * x.square()) * x)

    @property
    def variance(self) -> Any:
        is_far, p = self._apart()
        exact = p * (p - 1) / (1 - 2 * p).square() + ((-p).log1p() - p.log()).pow(-2)
        square = (self.probs - 0.5).square()
        return ops.where(is_far, exact, 1 / 12 - (1 / 15 - 128 / 945 * square) * square)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(ops.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return value * self.logits - softplus(self.logits) + self._log_constant()

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        is_far, p = self._apart()
        exact = (p.pow(value) * (1 - p).pow(1 - value) + p - 1) / (2 * p - 1)
        return ops.where(is_far, exact, value).clamp(0, 1)

    def icdf(self, value: Any) -> Any:
        is_far, p = self._apart()
        rest = (-p).log1p()
        exact = ((-p + value * (2 * p - 1)).log1p() - rest) / (p.log() - rest)
        return ops.where(is_far, exact, value)

    def entropy(self) -> Any:
        return softplus(self.logits) - self._log_constant() - self.mean * self.logits


def _counted_up(distribution: Any, count: int, expand: bool) -> Any:
    """0, 1, ... along a new first dimension, for discrete supports."""
    like = distribution._param
    values = ops.arange(count, dtype=like.dtype, device=like.device)
    values = values.reshape((count, *[1] * len(distribution.batch_shape)))
    return values.expand((count, *distribution.batch_shape)) if expand else values
