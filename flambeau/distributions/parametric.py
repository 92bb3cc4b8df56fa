"""The parameters of distributions: broadcast, validated and expanded.

A distribution lists its parameters in ``arg_constraints``. A parameter's constraint also defines
the number of its event dimensions; the others are batch dimensions.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from flambeau.core.support import naming
from flambeau.core.values.tensor import Size
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)


class Parametric(Distribution):
    """A distribution whose parameters are its attributes, named as in ``arg_constraints``."""

    arg_constraints: Any = MappingProxyType({})
    # The constraints of the attributes that store the parameters, if their names differ.
    _kept_constraints: Any = None

    def _start(self, validate_args: Any, **parameters: Any) -> None:
        """Store the parameters, broadcast to the batch shape."""
        values = broadcast_all(*parameters.values())
        vars(self).update(zip(parameters, values, strict=True))
        Distribution.__init__(self, values[0].shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Expand the parameters to ``batch_shape``."""
        home = next(each for each in type(self).__mro__ if _is_of_this_package(each))
        new = self._get_checked_instance(home, _instance)
        batch_shape = Size(batch_shape)
        kept = self._kept_constraints or self.arg_constraints
        # Cached values are recomputed for the new batch shape.
        vars(new).update(
            (name, value)
            for name, value in vars(self).items()
            if name in kept or not isinstance(getattr(type(self), name, None), lazy_property)
        )
        for name, constraint in kept.items():
            if name in vars(self):
                value = vars(self)[name]
                event = value.shape[value.dim() - constraint.event_dim :]
                vars(new)[name] = value.expand((*batch_shape, *event))
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new


def _is_of_this_package(kind: type) -> bool:
    return naming.module_of(kind).startswith(__name__.rpartition(".")[0])


def one_of(**given: Any) -> str:
    """The name of the one argument that is given.

    Raises:
        ValueError: No argument is given, or several are.
    """
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        if len(given) == 2:
            listed = " or ".join(f"`{name}`" for name in given)
            raise ValueError(f"Either {listed} must be specified, but not both; got {names}")
        raise ValueError(f"Exactly one of {' or '.join(given)} may be specified; got {names}")
    return names[0]


class ByProbsOrLogits(Parametric):
    """A distribution parameterized by probabilities or logits.

    The other parameter is computed on first use.
    """

    _is_binary = True
    _given: str

    def _start_with(self, probs: Any, logits: Any, validate_args: Any, **others: Any) -> None:
        """Store the parameters, broadcast: probabilities or logits, and the others."""
        self._given = one_of(probs=probs, logits=logits)
        given = logits if probs is None else probs
        self._start(validate_args, **others, **{self._given: given})

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return logits_to_probs(self.logits, self._is_binary)

    @lazy_property
    def logits(self) -> Any:
        """The logarithms of the odds, or of the probabilities."""
        return probs_to_logits(self.probs, self._is_binary)

    @property
    def _param(self) -> Any:
        return vars(self)[self._given]

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self._param.shape
