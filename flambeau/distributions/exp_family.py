"""Distributions of an exponential family, whose entropy follows from their normalizer."""

from __future__ import annotations

from typing import Any

from flambeau.autograd.backward import grad
from flambeau.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Distributions with the density ``exp(<t(x), theta> - F(theta) + k(x))``.

    A subclass defines the natural parameters ``theta`` (``_natural_params``), the function ``F``
    (``_log_normalizer``), and the mean of ``k`` (``_mean_carrier_measure``). The gradient of ``F``
    is the mean of ``t(x)``, from which the entropy follows.
    """

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise NotImplementedError(f"{type(self).__name__} has no _natural_params")

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _log_normalizer")

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _mean_carrier_measure")

    def entropy(self) -> Any:
        """The entropy by the Bregman divergence of the normalizer."""
        # Each parameter is a leaf here, even if it is computed from another parameter.
        parameters = [
            each.clone() if each.requires_grad else each.detach().requires_grad_()
            for each in self._natural_params
        ]
        normalizer = self._log_normalizer(*parameters)
        means = grad(normalizer.sum(), parameters, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        for parameter, mean in zip(parameters, means, strict=True):
            term = parameter * mean
            result = result - term.reshape((*self._batch_shape, -1)).sum(-1)
        return result
