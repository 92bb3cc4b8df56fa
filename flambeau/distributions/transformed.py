"""Named distributions that are transforms of simpler ones."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from flambeau import ops
from flambeau.core.support.dtype import finfo
from flambeau.distributions import constraints
from flambeau.distributions.compositions import TransformedDistribution
from flambeau.distributions.continuous import Cauchy, Normal, Uniform
from flambeau.distributions.gammas import Exponential, Gamma
from flambeau.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
)
from flambeau.distributions.utils import broadcast_all, euler_constant

_POSITIVE_SCALE = {"scale": constraints.positive}


class _Of(TransformedDistribution):
    """A transformed distribution with parameters of its own.

    The parameters in ``_own`` are attributes, from which ``_steps`` builds the transforms.
    """

    arg_constraints: ClassVar[Any] = {}
    _own: tuple[str, ...] = ()

    def _start(self, base: Any, validate_args: Any) -> None:
        self.base_dist = base
        super().__init__(base, self._steps(), validate_args=validate_args)

    def _steps(self) -> list[Any]:
        raise NotImplementedError

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        for name in self._own:
            setattr(new, name, getattr(self, name).expand(new.batch_shape))
        new.transforms = new._steps()
        return new


def _of_base(name: str) -> Any:
    return property(lambda self: getattr(self.base_dist, name))


class LogNormal(_Of):
    """The exponentials of normal variables of mean ``loc`` and standard deviation ``scale``."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    loc: Any = _of_base("loc")
    scale: Any = _of_base("scale")
    mean: Any = property(lambda self: (self.loc + self.scale.square() / 2).exp())
    mode: Any = property(lambda self: (self.loc - self.scale.square()).exp())

    def __init__(self, loc: Any, scale: Any, validate_args: Any = None) -> None:
        self._start(Normal(loc, scale, validate_args=validate_args), validate_args)

    def _steps(self) -> list[Any]:
        return [ExpTransform()]

    @property
    def variance(self) -> Any:
        square = self.scale.square()
        return ops.expm1(square) * (2 * self.loc + square).exp()

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc


class _Half(_Of):
    """The absolute values of variables that are symmetric about 0."""

    arg_constraints: ClassVar[Any] = _POSITIVE_SCALE
    support = constraints.nonnegative
    has_rsample = True
    scale: Any = _of_base("scale")
    mode: Any = property(lambda self: ops.zeros_like(self.scale))

    def _steps(self) -> list[Any]:
        return [AbsTransform()]

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        twice = self.base_dist.log_prob(value) + math.log(2)
        return ops.where(value >= 0, twice, -math.inf)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Any) -> Any:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The absolute values of normal variables of mean 0 and standard deviation ``scale``."""

    mean: Any = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    variance: Any = property(lambda self: self.scale.square() * (1 - 2 / math.pi))

    def __init__(self, scale: Any, validate_args: Any = None) -> None:
        self._start(Normal(0, scale, validate_args=False), validate_args)


class HalfCauchy(_Half):
    """The absolute values of Cauchy-distributed variables of half width ``scale``."""

    mean: Any = property(lambda self: ops.full_like(self.scale, math.inf))
    variance: Any = property(lambda self: self.base_dist.variance)

    def __init__(self, scale: Any, validate_args: Any = None) -> None:
        self._start(Cauchy(0, scale, validate_args=False), validate_args)


class InverseGamma(_Of):
    """The reciprocals of gamma-distributed variables."""

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True
    concentration: Any = _of_base("concentration")
    rate: Any = _of_base("rate")
    mode: Any = property(lambda self: self.rate / (self.concentration + 1))

    def __init__(self, concentration: Any, rate: Any, validate_args: Any = None) -> None:
        self._start(Gamma(concentration, rate, validate_args=validate_args), validate_args)

    def _steps(self) -> list[Any]:
        return [PowerTransform(self.rate.new_tensor(-1.0))]

    @property
    def mean(self) -> Any:
        has_one = self.concentration > 1
        safe = ops.where(has_one, self.concentration, 2.0)
        return ops.where(has_one, self.rate / (safe - 1), math.inf)

    @property
    def variance(self) -> Any:
        has_one = self.concentration > 2
        safe = ops.where(has_one, self.concentration, 3.0)
        spread = self.rate.square() / ((safe - 1).square() * (safe - 2))
        return ops.where(has_one, spread, math.inf)

    def entropy(self) -> Any:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Pareto(_Of):
    """Pareto distributions with shape ``alpha`` and minimum ``scale``."""

    arg_constraints: ClassVar[Any] = {"alpha": constraints.positive, "scale": constraints.positive}
    _own = ("scale", "alpha")
    scale: Any
    alpha: Any
    mode: Any = property(lambda self: self.scale)

    def __init__(self, scale: Any, alpha: Any, validate_args: Any = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        self._start(Exponential(self.alpha, validate_args=validate_args), validate_args)

    def _steps(self) -> list[Any]:
        return [ExpTransform(), AffineTransform(0, self.scale)]

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Any:
        has_one = self.alpha > 1
        safe = ops.where(has_one, self.alpha, 2.0)
        return ops.where(has_one, safe * self.scale / (safe - 1), math.inf)

    @property
    def variance(self) -> Any:
        has_one = self.alpha > 2
        safe = ops.where(has_one, self.alpha, 3.0)
        spread = self.scale.square() * safe / ((safe - 1).square() * (safe - 2))
        return ops.where(has_one, spread, math.inf)

    def entropy(self) -> Any:
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()


class Gumbel(_Of):
    """Gumbel distributions, the limits of maxima of many variables."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _own = ("loc", "scale")
    loc: Any
    scale: Any
    mean: Any = property(lambda self: self.loc + self.scale * euler_constant)
    mode: Any = property(lambda self: self.loc)
    stddev: Any = property(lambda self: math.pi / math.sqrt(6) * self.scale)
    variance: Any = property(lambda self: self.stddev.square())

    def __init__(self, loc: Any, scale: Any, validate_args: Any = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = finfo(self.loc.dtype)
        low = ops.full_like(self.loc.detach(), limits.tiny)
        self._start(Uniform(low, 1 - limits.eps, validate_args=validate_args), validate_args)

    def _steps(self) -> list[Any]:
        ones = ops.ones_like(self.scale)
        turn = AffineTransform(0, -ones)
        log = ExpTransform().inv
        return [log, turn, log, AffineTransform(self.loc, -self.scale)]

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return (-((self.loc - value) / self.scale).exp()).exp()

    def icdf(self, value: Any) -> Any:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Any:
        return self.scale.log() + (1 + euler_constant)


class Weibull(_Of):
    """Weibull distributions: powers of exponential variables, such as lifetimes."""

    arg_constraints: ClassVar[Any] = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support = constraints.positive
    _own = ("scale", "concentration")
    scale: Any
    concentration: Any

    def __init__(self, scale: Any, concentration: Any, validate_args: Any = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(ops.ones_like(self.scale.detach()), validate_args=validate_args)
        self._start(base, validate_args)

    def _steps(self) -> list[Any]:
        power = PowerTransform(self.concentration.reciprocal())
        return [power, AffineTransform(0, self.scale)]

    def _gamma(self, n: int) -> Any:
        """The n-th moment for a scale of 1."""
        return (1 + n / self.concentration).lgamma().exp()

    @property
    def mean(self) -> Any:
        return self.scale * self._gamma(1)

    @property
    def mode(self) -> Any:
        a = self.concentration
        return self.scale * ((a - 1).clamp(min=0) / a).pow(1 / a)

    @property
    def variance(self) -> Any:
        return self.scale.square() * (self._gamma(2) - self._gamma(1).square())

    def entropy(self) -> Any:
        a = self.concentration
        return euler_constant * (1 - a.reciprocal()) + (self.scale / a).log() + 1


class Kumaraswamy(_Of):
    """Kumaraswamy distributions of [0, 1], which are like `Beta` with a simple ``cdf``."""

    arg_constraints: ClassVar[Any] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    _own = ("concentration1", "concentration0")
    concentration1: Any
    concentration0: Any

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: Any = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        like = self.concentration0.detach()
        base = Uniform(ops.zeros_like(like), ops.ones_like(like), validate_args=validate_args)
        self._start(base, validate_args)

    def _steps(self) -> list[Any]:
        return [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]

    def _moment(self, n: int) -> Any:
        a, b = 1 + n / self.concentration1, self.concentration0
        return b * (a.lgamma() + b.lgamma() - (a + b).lgamma()).exp()

    @property
    def mean(self) -> Any:
        return self._moment(1)

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        # Without an interior peak the mode is undefined.
        log_mode = ((a - 1) / (a * b - 1)).log() / a
        has_none = (a < 1) | (b < 1) | ((a == 1) & (b == 1))
        return ops.where(has_none, math.nan, log_mode.exp())

    @property
    def variance(self) -> Any:
        return self._moment(2) - self._moment(1).square()

    def entropy(self) -> Any:
        a, b = self.concentration1.reciprocal(), self.concentration0.reciprocal()
        harmonic = (self.concentration0 + 1).digamma() + euler_constant
        return 1 - b + (1 - a) * harmonic - self.concentration1.log() - self.concentration0.log()
