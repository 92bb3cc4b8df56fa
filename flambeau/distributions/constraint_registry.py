"""Transforms from unconstrained tensors to the region of a constraint.

`biject_to` gives bijections, for changes of variables; `transform_to` gives transforms for
optimization, which need not be injective.

>>> import flambeau
>>> from flambeau.distributions import Gamma, transform_to
>>> to_rate = transform_to(Gamma.arg_constraints["rate"])
>>> to_rate(flambeau.tensor([-100.0, 0.0])) >= 0
tensor([True, True])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.distributions import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """A registry of transform factories by class of constraint."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}

    def register(self, constraint: Any, factory: Callable[[Any], Any] | None = None) -> Any:
        """Register ``factory`` for all constraints of this class; also a decorator.

        Args:
            constraint: A class of constraints, or an instance of it.
            factory: A function from a constraint to a transform.

        Raises:
            TypeError: ``constraint`` is not a constraint.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, but got "
                f"{constraint!r:.80}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform for a constraint.

        Raises:
            NotImplementedError: None is registered for its class.
        """
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints; register() adds a "
                "transform for them"
            )
        return factory(constraint)


biject_to: ConstraintRegistry = ConstraintRegistry()
transform_to: ConstraintRegistry = ConstraintRegistry()


def _above(constraint: Any) -> Any:
    shift = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), shift])


def _below(constraint: Any) -> Any:
    turn = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), turn])


def _between(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, int | float) and isinstance(high, int | float) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    stretch = transforms.AffineTransform(low, high - low)
    return transforms.ComposeTransform([transforms.SigmoidTransform(), stretch])


def _register_both(*kinds: Any) -> Callable[[Callable[[Any, Any], Any]], None]:
    """Register a function in both registries."""

    def register(make: Callable[[Any, Any], Any]) -> None:
        for registry in (biject_to, transform_to):
            for kind in kinds:
                registry.register(kind, lambda each, registry=registry: make(registry, each))

    return register


@_register_both(constraints.independent)
def _independent(registry: Any, constraint: Any) -> Any:
    base = registry(constraint.base_constraint)
    return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@_register_both(constraints.cat)
def _cat(registry: Any, constraint: Any) -> Any:
    parts = [registry(each) for each in constraint.cseq]
    return transforms.CatTransform(parts, constraint.dim, constraint.lengths)


@_register_both(constraints.stack)
def _stack(registry: Any, constraint: Any) -> Any:
    return transforms.StackTransform([registry(each) for each in constraint.cseq], constraint.dim)


_SIMPLE = [
    (constraints.real, lambda constraint: transforms.identity_transform),
    (constraints.greater_than, _above),
    (constraints.greater_than_eq, _above),
    (constraints.less_than, _below),
    (constraints.interval, _between),
    (constraints.half_open_interval, _between),
    (constraints.corr_cholesky, lambda constraint: transforms.CorrCholeskyTransform()),
]
for _kind, _make in _SIMPLE:
    biject_to.register(_kind, _make)
    transform_to.register(_kind, _make)

biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())
transform_to.register(
    constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform()
)
for _kind in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_kind, lambda constraint: transforms.PositiveDefiniteTransform())
