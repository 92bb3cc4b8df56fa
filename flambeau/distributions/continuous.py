"""Continuous location-scale distributions and related ones."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from flambeau import ops
from flambeau.core.support.dtype import finfo
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.parametric import Parametric
from flambeau.ops.draws.rejection_draws import _standard_gamma, von_mises

_LOCATION_SCALE = {"loc": constraints.real, "scale": constraints.positive}
_LOG_2PI = math.log(2 * math.pi)


class _LocationScale(Parametric):
    """A standard distribution, scaled by ``scale`` and shifted by ``loc``."""

    arg_constraints: ClassVar[Any] = _LOCATION_SCALE
    support = constraints.real
    has_rsample = True

    loc: Any
    scale: Any
    mean: Any = property(lambda self: self.loc)
    mode: Any = property(lambda self: self.loc)

    def __init__(self, loc: Any, scale: Any, validate_args: Any = None) -> None:
        self._start(validate_args, loc=loc, scale=scale)

    def _standardized(self, value: Any) -> Any:
        """The standardized value, ``(value - loc) / scale``."""
        if self._validate_args:
            self._validate_sample(value)
        return (value - self.loc) / self.scale

    def _standard_uniform(self, sample_shape: Any) -> Any:
        shape = self._extended_shape(sample_shape)
        return ops.rand(shape, dtype=self.loc.dtype, device=self.loc.device)


class Normal(_LocationScale, ExponentialFamily):
    """Normal distributions of mean ``loc`` and standard deviation ``scale``.

    >>> import flambeau
    >>> normal = flambeau.distributions.Normal(0.0, flambeau.tensor([1.0, 2.0]))
    >>> normal.log_prob(flambeau.tensor(0.0))
    tensor([-0.9189, -1.6121])
    """

    stddev: Any = property(lambda self: self.scale)
    variance: Any = property(lambda self: self.scale.square())

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return ops.normal(self.loc.detach().expand(shape), self.scale.detach().expand(shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        standard = ops.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + standard * self.scale

    def log_prob(self, value: Any) -> Any:
        return -self._standardized(value).square() / 2 - self.scale.log() - _LOG_2PI / 2

    def cdf(self, value: Any) -> Any:
        return (1 + ops.erf(self._standardized(value) / math.sqrt(2))) / 2

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * ops.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        return (1 + _LOG_2PI) / 2 + self.scale.log()


class Laplace(_LocationScale):
    """Laplace distributions with location ``loc`` and scale ``scale``."""

    stddev: Any = property(lambda self: math.sqrt(2) * self.scale)
    variance: Any = property(lambda self: 2 * self.scale.square())

    def rsample(self, sample_shape: Any = ()) -> Any:
        # Uniform on (-1, 1): 0 is as likely as 2^-24, and -1 would give infinity.
        eps = finfo(self.loc.dtype).eps
        u = (2 * self._standard_uniform(sample_shape) - 1).clamp(min=eps - 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Any) -> Any:
        return -(2 * self.scale).log() - self._standardized(value).abs()

    def cdf(self, value: Any) -> Any:
        z = self._standardized(value)
        return (1 - z.sign() * ops.expm1(-z.abs())) / 2

    def icdf(self, value: Any) -> Any:
        centered = value - 0.5
        return self.loc - self.scale * centered.sign() * (-2 * centered.abs()).log1p()

    def entropy(self) -> Any:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """Cauchy distributions of median ``loc`` and half width ``scale``, without a mean."""

    mean: Any = property(lambda self: ops.full_like(self.loc, math.nan))
    variance: Any = property(lambda self: ops.full_like(self.loc, math.inf))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.loc + self.loc.detach().new_empty(shape).cauchy_() * self.scale

    def log_prob(self, value: Any) -> Any:
        return -math.log(math.pi) - self.scale.log() - self._standardized(value).square().log1p()

    def cdf(self, value: Any) -> Any:
        return self._standardized(value).atan() / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return ops.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()


class Uniform(Parametric):
    """Uniform distributions of [``low``, ``high``)."""

    has_rsample = True
    low: Any
    high: Any
    _width: Any = property(lambda self: self.high - self.low)
    mean: Any = property(lambda self: (self.high + self.low) / 2)
    mode: Any = property(lambda self: math.nan * self.high)
    stddev: Any = property(lambda self: self._width / math.sqrt(12))
    variance: Any = property(lambda self: self._width.square() / 12)

    def __init__(self, low: Any, high: Any, validate_args: Any = None) -> None:
        self._start(validate_args, low=low, high=high)

    @property
    def arg_constraints(self) -> Any:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return (
            self.low + ops.rand(shape, dtype=self.low.dtype, device=self.low.device) * self._width
        )

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        inside = (self.low <= value) & (self.high > value)
        return ops.where(inside, -self._width.log(), -math.inf)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / self._width).clamp(0, 1)

    def icdf(self, value: Any) -> Any:
        return value * self._width + self.low

    def entropy(self) -> Any:
        return self._width.log()


class StudentT(_LocationScale):
    """Student's t-distributions of ``df`` degrees of freedom."""

    arg_constraints: ClassVar[Any] = {"df": constraints.positive, **_LOCATION_SCALE}
    df: Any

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: Any = None
    ) -> None:
        self._start(validate_args, df=df, loc=loc, scale=scale)

    @property
    def mean(self) -> Any:
        return ops.where(self.df > 1, self.loc, math.nan)

    @property
    def variance(self) -> Any:
        # Replaces divisors that are not positive, which would make gradients NaN.
        safe = ops.where(self.df > 2, self.df, 3.0)
        finite = self.scale.square() * safe / (safe - 2)
        unbounded = ops.where(self.df > 1, math.inf, math.nan).to(self.df.dtype)
        return ops.where(self.df > 2, finite, unbounded)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        normal = ops.randn(shape, dtype=self.df.dtype, device=self.df.device)
        chi2 = 2 * _standard_gamma((self.df / 2).expand(shape))
        return self.loc + self.scale * normal * (chi2 / self.df).rsqrt()

    def _log_normalizer(self) -> Any:
        half = self.df / 2
        beta = half.lgamma() + math.log(math.pi) / 2 - (half + 0.5).lgamma()
        return self.scale.log() + self.df.log() / 2 + beta

    def log_prob(self, value: Any) -> Any:
        z = self._standardized(value)
        return -(self.df + 1) / 2 * (z.square() / self.df).log1p() - self._log_normalizer()

    def entropy(self) -> Any:
        half = self.df / 2
        spread = (half + 0.5) * ((half + 0.5).digamma() - half.digamma())
        return self._log_normalizer() + spread


class GeneralizedPareto(_LocationScale):
    """Generalized Pareto distributions, of excesses over a high threshold ``loc``.

    With ``concentration`` 0 they are exponential; with a negative concentration they are bounded
    above.
    """

    arg_constraints: ClassVar[Any] = {**_LOCATION_SCALE, "concentration": constraints.real}
    concentration: Any

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: Any = None) -> None:
        self._start(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        is_bounded = self.concentration < 0
        below = ops.where(is_bounded, self.concentration, -1.0)
        upper = ops.where(is_bounded, self.loc - self.scale / below, math.inf)
        return constraints.interval(self.loc, upper)

    def _cases(self) -> tuple[Any, Any]:
        """A mask of zero concentrations, and the concentration with 1 in their places."""
        is_zero = ops.isclose(self.concentration, ops.zeros_like(self.concentration))
        return is_zero, ops.where(is_zero, 1.0, self.concentration)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.icdf(self._standard_uniform(sample_shape))

    def log_prob(self, value: Any) -> Any:
        z = self._standardized(value)
        is_zero, safe = self._cases()
        slope = 1 / safe + 1
        power = ops.where(slope == 0, 0.0, slope * (safe * z).log1p())
        return -self.scale.log() - ops.where(is_zero, z, power)

    def log_survival_function(self, value: Any) -> Any:
        """The logarithm of the survival function at ``value``."""
        z = self._standardized(value)
        is_zero, safe = self._cases()
        return -ops.where(is_zero, z, (safe * z).log1p() / safe)

    def log_cdf(self, value: Any) -> Any:
        """The logarithm of `cdf`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Any) -> Any:
        return -ops.expm1(self.log_survival_function(value))

    def icdf(self, value: Any) -> Any:
        is_zero, safe = self._cases()
        log_rest = (-value).log1p()
        return self.loc + self.scale * ops.where(
            is_zero, -log_rest, ops.expm1(-safe * log_rest) / safe
        )

    @property
    def mean(self) -> Any:
        has_one = self.concentration < 1
        safe = ops.where(has_one, self.concentration, 0.5)
        return ops.where(has_one, self.loc + self.scale / (1 - safe), math.nan)

    @property
    def variance(self) -> Any:
        has_one = self.concentration < 0.5
        safe = ops.where(has_one, self.concentration, 0.25)
        spread = self.scale.square() / ((1 - safe).square() * (1 - 2 * safe))
        return ops.where(has_one, spread, math.nan)

    def entropy(self) -> Any:
        return self.scale.log() + self.concentration + 1


class VonMises(Parametric):
    """Von Mises distributions of angles in radians, the circular analogue of the normal.

    ``variance`` is the circular variance, in [0, 1].
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real,
        "concentration": constraints.positive,
    }
    support = constraints.real
    loc: Any
    concentration: Any
    mean: Any = property(lambda self: self.loc)
    mode: Any = property(lambda self: self.loc)

    def __init__(self, loc: Any, concentration: Any, validate_args: Any = None) -> None:
        self._start(validate_args, loc=loc, concentration=concentration)

    @property
    def variance(self) -> Any:
        from flambeau.ops.elementwise.special_functions import i0e, i1e

        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def sample(self, sample_shape: Any = ()) -> Any:
        angle = von_mises(self.concentration.detach().expand(self._extended_shape(sample_shape)))
        return (angle + math.pi + self.loc.detach()) % (2 * math.pi) - math.pi

    def log_prob(self, value: Any) -> Any:
        from flambeau.ops.elementwise.special_functions import i0e

        if self._validate_args:
            self._validate_sample(value)
        # i0e is the exponentially scaled i0, which does not overflow.
        excess = self.concentration * ((value - self.loc).cos() - 1)
        return excess - _LOG_2PI - i0e(self.concentration).log()
