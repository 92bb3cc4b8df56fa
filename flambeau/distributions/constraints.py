"""Regions of values: the constraints of parameters and the supports of distributions.

A constraint's ``check(value)`` says for each event whether it lies in the region. Most constraints
are one comparison; the number of dimensions of an event is ``event_dim``.

>>> import flambeau
>>> from flambeau.distributions import constraints
>>> constraints.simplex.check(flambeau.tensor([[0.5, 0.5], [0.5, 0.6]]))
tensor([ True, False])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau import ops
from flambeau.core.support.dtype import bool as boolean_dtype
from flambeau.core.support.dtype import finfo
from flambeau.ops.matrices.factorization import cholesky_ex, eigvalsh

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
    "dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent",
    "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky",
    "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive",
    "positive_definite", "positive_integer", "positive_semidefinite", "real", "real_vector",
    "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A region of values; subclasses define `check`.

    Attributes:
        is_discrete: Whether the region is discrete.
        event_dim: The number of trailing dimensions of one event, which is checked as a whole.
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Any:
        """Which events lie in the region: a bool tensor of ``value``'s batch dimensions."""
        raise NotImplementedError(f"{type(self).__name__} does not define check()")

    def __repr__(self) -> str:
        bounds = ", ".join(
            f"{name}={value}" for name, value in vars(self).items() if name.endswith("_bound")
        )
        return f"{type(self).__name__.removeprefix('_')}({bounds})"


# Constraints that depend on other values


class _Dependent(Constraint):
    """A region that depends on other parameters, and so cannot be checked."""

    def __init__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    @property
    def is_discrete(self) -> Any:
        return self._static("is_discrete")

    @property
    def event_dim(self) -> Any:
        return self._static("event_dim")

    def _static(self, name: str) -> Any:
        value = getattr(self, f"_{name}")
        if value is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return value

    def __call__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> _Dependent:
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Any) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")


class dependent_property(property, _Dependent):
    """A property that returns a constraint; on the class it is a dependent constraint.

    Args:
        fn: The getter.
        is_discrete: The constraint's attribute, if it is known for all instances.
        event_dim: Like ``is_discrete``.
    """

    def __init__(
        self, fn: Callable[..., Any] | None = None, *, is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:  # fmt: skip
        super().__init__(fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable[..., Any]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return dependent_property(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint cannot be checked because it depends on other values."""
    return isinstance(constraint, _Dependent)


# Composed constraints


class independent(Constraint):
    """Events of ``reinterpreted_batch_ndims`` more dimensions, valid if all elements are."""

    def __init__(self, base_constraint: Any, reinterpreted_batch_ndims: int) -> None:
        _require_constraints([base_constraint])
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise AssertionError(
                "reinterpreted_batch_ndims must be an int >= 0, got "
                f"{reinterpreted_batch_ndims!r:.80}"
            )
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete: Any = base_constraint.is_discrete
        self.event_dim: Any = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        inside = self.base_constraint.check(value)
        if inside.dim() < self.reinterpreted_batch_ndims:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return _all_of(inside, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture whose components all have the support ``base_constraint``."""

    def __init__(self, base_constraint: Any) -> None:
        _require_constraints([base_constraint])
        self.base_constraint = base_constraint
        self.is_discrete: Any = base_constraint.is_discrete
        self.event_dim: Any = base_constraint.event_dim

    def check(self, value: Any) -> Any:
        if value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        # The support may differ between components.
        inside = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return _all_of(inside, inside.dim() - (value.dim() - self.event_dim))

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Parts(Constraint):
    """A constraint for each part of a tensor along ``dim``."""

    def __init__(self, cseq: Sequence[Any], dim: int) -> None:
        _require_constraints(cseq)
        self.cseq: list[Any] = list(cseq)
        self.dim = dim
        self.is_discrete: Any = any(each.is_discrete for each in self.cseq)
        self.event_dim: Any = max(each.event_dim for each in self.cseq)

    def _require_dim(self, value: Any) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(
                f"dim {self.dim} out of range for value with {value.dim()} dimensions"
            )


class cat(_Parts):
    """Concatenated parts along ``dim``, of the sizes ``lengths``, each with its own constraint."""

    def __init__(
        self, cseq: Sequence[Any], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths: list[int] = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(
                f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})"
            )

    def check(self, value: Any) -> Any:
        self._require_dim(value)
        parts = zip(self.cseq, value.split(self.lengths, self.dim), strict=True)
        return ops.cat([constraint.check(part) for constraint, part in parts], self.dim)


class stack(_Parts):
    """Slices along ``dim``, each with its own constraint."""

    event_dim: Any

    def __init__(self, cseq: Sequence[Any], dim: int = 0) -> None:
        super().__init__(cseq, dim)
        # The dimension of the slices may be one of the event's dimensions.
        self.event_dim += self.dim + self.event_dim < 0

    def check(self, value: Any) -> Any:
        self._require_dim(value)
        parts = zip(self.cseq, value.unbind(self.dim), strict=True)
        return ops.stack([constraint.check(part) for constraint, part in parts], self.dim)


def _require_constraints(constraints: Sequence[Any]) -> None:
    for each in constraints:
        if not isinstance(each, Constraint):
            raise AssertionError(f"expected a Constraint, got {type(each).__name__}: {each!r:.80}")


def _all_of(inside: Any, dims: int) -> Any:
    return inside.flatten(inside.dim() - dims).all(-1) if dims else inside


# Numbers


class _Real(Constraint):
    def check(self, value: Any) -> Any:
        return value == value  # NaN is not a real number


class _WithLower(Constraint):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _WithUpper(Constraint):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _WithBoth(Constraint):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound


class _GreaterThan(_WithLower):
    def check(self, value: Any) -> Any:
        return value > self.lower_bound


class _GreaterThanEq(_WithLower):
    def check(self, value: Any) -> Any:
        return value >= self.lower_bound


class _LessThan(_WithUpper):
    def check(self, value: Any) -> Any:
        return value < self.upper_bound


class _Interval(_WithBoth):
    def check(self, value: Any) -> Any:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(_WithBoth):
    def check(self, value: Any) -> Any:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


class _IntegerGreaterThan(_WithLower):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _IntegerInterval(_WithBoth):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value >= self.lower_bound) & (value <= self.upper_bound)


# Vectors


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(_WithUpper):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


# Matrices


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return _all_of(value.tril() == value, 2)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Any) -> Any:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value: Any) -> Any:
        # The rounding error of a row's norm grows with its length; ten times that is tolerated.
        tolerance = 10 * finfo(value.dtype).eps * value.shape[-1]
        norms = value.detach().square().sum(-1).sqrt()
        return super().check(value) & ((norms - 1).abs() <= tolerance).all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        is_square = value.shape[-2] == value.shape[-1]
        return ops.full(value.shape[:-2], is_square, dtype=boolean_dtype, device=value.device)


class _Symmetric(_Square):
    def check(self, value: Any) -> Any:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return _all_of(ops.isclose(value, value.mT, atol=1e-6), 2)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        return symmetric & (eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        return symmetric & (cholesky_ex(value).info == 0)


boolean: _Boolean = _Boolean()
corr_cholesky: _CorrCholesky = _CorrCholesky()
dependent: _Dependent = _Dependent()
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
half_open_interval = _HalfOpenInterval
integer_interval = _IntegerInterval
interval = _Interval
less_than = _LessThan
lower_cholesky: _LowerCholesky = _LowerCholesky()
lower_triangular: _LowerTriangular = _LowerTriangular()
multinomial = _Multinomial
nonnegative: _GreaterThanEq = _GreaterThanEq(0.0)
nonnegative_integer: _IntegerGreaterThan = _IntegerGreaterThan(0)
one_hot: _OneHot = _OneHot()
positive: _GreaterThan = _GreaterThan(0.0)
positive_definite: _PositiveDefinite = _PositiveDefinite()
positive_integer: _IntegerGreaterThan = _IntegerGreaterThan(1)
positive_semidefinite: _PositiveSemidefinite = _PositiveSemidefinite()
real: _Real = _Real()
real_vector: independent = independent(real, 1)
simplex: _Simplex = _Simplex()
square: _Square = _Square()
symmetric: _Symmetric = _Symmetric()
unit_interval: _Interval = _Interval(0.0, 1.0)
