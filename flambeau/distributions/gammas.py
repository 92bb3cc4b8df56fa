"""Distributions that are functions of gamma-distributed variables."""

from __future__ import annotations

from typing import Any, ClassVar

from flambeau import ops
from flambeau.core.support.dtype import finfo
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.parametric import Parametric
from flambeau.ops.draws.rejection_draws import _sample_dirichlet, _standard_gamma


class Exponential(Parametric, ExponentialFamily):
    """Exponential distributions with rate ``rate``."""

    arg_constraints: ClassVar[Any] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    rate: Any
    mean: Any = property(lambda self: self.rate.reciprocal())
    stddev: Any = property(lambda self: self.rate.reciprocal())
    variance: Any = property(lambda self: self.rate.pow(-2))
    mode: Any = property(lambda self: ops.zeros_like(self.rate))

    def __init__(self, rate: Any, validate_args: Any = None) -> None:
        self._start(validate_args, rate=rate)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.rate.detach().new_empty(shape).exponential_() / self.rate

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return -ops.expm1(-self.rate * value)

    def icdf(self, value: Any) -> Any:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Any:
        return 1 - self.rate.log()


class Gamma(Parametric, ExponentialFamily):
    """Gamma distributions with the density of ``x^(concentration - 1) exp(-rate x)``."""

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    has_rsample = True
    concentration: Any
    rate: Any
    mean: Any = property(lambda self: self.concentration / self.rate)
    mode: Any = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance: Any = property(lambda self: self.concentration / self.rate.square())

    def __init__(self, concentration: Any, rate: Any, validate_args: Any = None) -> None:
        self._start(validate_args, concentration=concentration, rate=rate)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        drawn = _standard_gamma(self.concentration.expand(shape)) / self.rate
        return drawn.clamp(min=finfo(drawn.dtype).tiny)

    def log_prob(self, value: Any) -> Any:
        value = ops.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        return (
            ops.xlogy(self.concentration, self.rate) + ops.xlogy(self.concentration - 1, value)
            - self.rate * value - self.concentration.lgamma()
        )  # fmt: skip

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return ops.igamma(self.concentration, self.rate * value)

    def entropy(self) -> Any:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()


class Chi2(Gamma):
    """Chi-squared distributions with ``df`` degrees of freedom."""

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}
    _kept_constraints = Gamma.arg_constraints
    df: Any = property(lambda self: 2 * self.concentration)

    def __init__(self, df: Any, validate_args: Any = None) -> None:
        super().__init__(df / 2, 0.5, validate_args)


class Dirichlet(Parametric, ExponentialFamily):
    """Dirichlet distributions on the simplex, with a ``concentration`` for each category."""

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex
    has_rsample = True
    concentration: Any

    def __init__(self, concentration: Any, validate_args: Any = None) -> None:
        if concentration.dim() < 1:
            raise ValueError(
                "`concentration` parameter must be at least one-dimensional, got a scalar"
            )
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def _total(self) -> Any:
        return self.concentration.sum(-1, keepdim=True)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return _sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        powers = ops.xlogy(self.concentration - 1, value).sum(-1)
        return powers - self._log_normalizer(self.concentration)

    def _log_normalizer(self, *natural_params: Any) -> Any:
        (concentration,) = natural_params
        return concentration.lgamma().sum(-1) - concentration.sum(-1).lgamma()

    @property
    def mean(self) -> Any:
        return self.concentration / self._total

    @property
    def mode(self) -> Any:
        above = (self.concentration - 1).clamp(min=0)
        mode = above / above.sum(-1, keepdim=True)
        # Without an interior peak, the mode is the vertex of the greatest concentration.
        is_outside = (self.concentration < 1).all(-1, keepdim=True)
        corner = ops.zeros_like(mode).scatter(-1, mode.argmax(-1, keepdim=True), 1.0)
        return ops.where(is_outside, corner, mode)

    @property
    def variance(self) -> Any:
        total = self._total
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def entropy(self) -> Any:
        a, total, count = self.concentration, self.concentration.sum(-1), self._event_shape[0]
        peaks = (total - count) * total.digamma() - ((a - 1) * a.digamma()).sum(-1)
        return self._log_normalizer(a) + peaks


class Beta(Parametric, ExponentialFamily):
    """Beta distributions on [0, 1], with the density of ``x^(c1 - 1) (1 - x)^(c0 - 1)``."""

    arg_constraints: ClassVar[Any] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    concentration1: Any
    concentration0: Any
    _total: Any = property(lambda self: self.concentration1 + self.concentration0)
    mean: Any = property(lambda self: self.concentration1 / self._total)

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: Any = None) -> None:
        self._start(validate_args, concentration1=concentration1, concentration0=concentration0)

    @property
    def _dirichlet(self) -> Dirichlet:
        both = ops.stack([self.concentration1, self.concentration0], -1)
        return Dirichlet(both, validate_args=False)

    @property
    def mode(self) -> Any:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Any:
        total = self._total
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(ops.stack([value, 1 - value], -1))

    def entropy(self) -> Any:
        return self._dirichlet.entropy()


class FisherSnedecor(Parametric):
    """F-distributions: ratios of two chi-squared variables, each divided by its ``df``."""

    arg_constraints: ClassVar[Any] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    df1: Any
    df2: Any

    def __init__(self, df1: Any, df2: Any, validate_args: Any = None) -> None:
        self._start(validate_args, df1=df1, df2=df2)

    @property
    def mean(self) -> Any:
        has_one = self.df2 > 2
        safe = ops.where(has_one, self.df2, 3.0)
        return ops.where(has_one, safe / (safe - 2), float("nan"))

    @property
    def mode(self) -> Any:
        inner = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return ops.where(self.df1 > 2, inner, float("nan"))

    @property
    def variance(self) -> Any:
        has_one = self.df2 > 4
        safe = ops.where(has_one, self.df2, 5.0)
        spread = 2 * safe.square() * (self.df1 + safe - 2)
        spread = spread / (self.df1 * (safe - 2).square() * (safe - 4))
        return ops.where(has_one, spread, float("nan"))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        one, other = (_standard_gamma((df / 2).expand(shape)) / df for df in (self.df1, self.df2))
        tiny = finfo(self.df2.dtype).tiny
        return (one / other.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        one, other, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        beta = (one + other).lgamma() - one.lgamma() - other.lgamma()
        powers = one * ratio.log() + (one - 1) * value.log()
        return beta + powers - (one + other) * (ratio * value).log1p()
