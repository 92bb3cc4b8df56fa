"""Elementwise transforms."""

from __future__ import annotations

import math
import numbers
from typing import Any

from flambeau import ops
from flambeau.core.support.dtype import finfo
from flambeau.distributions import constraints
from flambeau.distributions.transform import Transform
from flambeau.distributions.utils import broadcast_all, sum_rightmost
from flambeau.ops.neural.activation import softplus


class ExpTransform(Transform):
    """``y = exp(x)``."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class PowerTransform(Transform):
    """``y = x ** exponent``, for positive numbers."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    exponent: Any

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def _again(self, cache_size: int) -> Transform:
        return PowerTransform(self.exponent, cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool((self.exponent == other.exponent).all())

    def __hash__(self) -> int:
        return object.__hash__(self)

    def _call(self, x: Any) -> Any:
        return x**self.exponent

    def _inverse(self, y: Any) -> Any:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return ops.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


def clipped_sigmoid(x: Any) -> Any:
    """The sigmoid, clamped away from 0 and 1."""
    limits = finfo(x.dtype)
    return ops.sigmoid(x).clamp(limits.tiny, 1 - limits.eps)


class SigmoidTransform(Transform):
    """``y = 1 / (1 + exp(-x))``, clamped away from 0 and 1."""

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return clipped_sigmoid(x)

    def _inverse(self, y: Any) -> Any:
        limits = finfo(y.dtype)
        y = y.clamp(limits.tiny, 1 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Transform):
    """``y = log(1 + exp(x))``."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-ops.expm1(-y)).log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x)


class TanhTransform(Transform):
    """``y = tanh(x)``. Near 1 and -1 the inverse is exact only with ``cache_size=1``."""

    domain = constraints.real
    codomain: Any = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        # log(1 - tanh(x)^2), without cancellation.
        return 2 * (math.log(2) - x - softplus(-2 * x))


class AbsTransform(Transform):
    """``y = |x|``; the inverse returns the positive preimage."""

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(Transform):
    """``y = loc + scale * x``.

    Args:
        loc: A tensor or number.
        scale: A tensor or number, not 0.
        event_dim: The number of trailing dimensions of one event.
        cache_size: See `Transform`.
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return _reals(self._event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return _reals(self._event_dim)

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, numbers.Real):
            scale = float(self.scale)
            return (scale > 0) - (scale < 0)
        return self.scale.sign()

    def _again(self, cache_size: int) -> Transform:
        return AffineTransform(self.loc, self.scale, self._event_dim, cache_size)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AffineTransform)
            and _equal(self.loc, other.loc)
            and _equal(self.scale, other.scale)
        )

    def __hash__(self) -> int:
        return object.__hash__(self)

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if isinstance(self.scale, numbers.Real):
            volume = ops.full_like(x, math.log(abs(self.scale)))
        else:
            volume = self.scale.abs().log().expand(x.shape)
        return sum_rightmost(volume, self._event_dim)

    def forward_shape(self, shape: Any) -> Any:
        shapes = (getattr(each, "shape", ()) for each in (self.loc, self.scale))
        return ops.broadcast_shapes(shape, *shapes)

    inverse_shape = forward_shape


def _reals(event_dim: int) -> Any:
    return constraints.independent(constraints.real, event_dim) if event_dim else constraints.real


def _equal(one: Any, other: Any) -> bool:
    equal = one == other
    return equal if isinstance(equal, bool) else bool(equal.all())


class CumulativeDistributionTransform(Transform):
    """The cumulative distribution function of a distribution.

    Args:
        distribution: A univariate distribution with ``cdf``, ``icdf`` and ``log_prob``.
        cache_size: See `Transform`.
    """

    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _again(self, cache_size: int) -> Transform:
        return CumulativeDistributionTransform(self.distribution, cache_size)

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)
