"""Multivariate normal distributions with a full covariance matrix."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from flambeau import ops
from flambeau.distributions import constraints
from flambeau.distributions.covariances import (
    WithCovariance,
    _batch_mahalanobis,
    _batch_mv,
    _precision_to_scale_tril,
    given_matrix,
    log_diagonal,
)
from flambeau.distributions.utils import _standard_normal

__all__ = ["MultivariateNormal", "_batch_mahalanobis", "_batch_mv", "_precision_to_scale_tril"]

_LOG_2PI = math.log(2 * math.pi)


class MultivariateNormal(WithCovariance):
    """Multivariate normal distributions of n dimensions.

    Args:
        loc: The means, ``(..., n)``.
        covariance_matrix: The covariance matrices, ``(..., n, n)``; or else
        precision_matrix: their inverses; or else
        scale_tril: their Cholesky factors, which all methods use.
        validate_args: See `Distribution`.

    Raises:
        ValueError: Not exactly one of the matrices is given, or it is not a matrix.

    >>> import flambeau
    >>> from flambeau.distributions import MultivariateNormal
    >>> normal = MultivariateNormal(flambeau.zeros(2), flambeau.eye(2))
    >>> normal.log_prob(flambeau.zeros(3, 2))
    tensor([-1.8379, -1.8379, -1.8379])
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    loc: Any
    mean: Any = property(lambda self: self.loc)
    mode: Any = property(lambda self: self.loc)

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None,
        scale_tril: Any = None, validate_args: Any = None,
    ) -> None:  # fmt: skip
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        form, matrix = given_matrix(
            ValueError, covariance_matrix=covariance_matrix, precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )  # fmt: skip
        batch_shape = ops.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand((*batch_shape, -1))
        self._start_with_matrix(form, matrix, batch_shape, self.loc.shape[-1:], validate_args)

    @property
    def variance(self) -> Any:
        squares = self._unbroadcasted_scale_tril.square().sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        noise = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        constant = self._event_shape[0] * _LOG_2PI
        return -(constant + distance) / 2 - log_diagonal(self._unbroadcasted_scale_tril)

    def entropy(self) -> Any:
        constant = self._event_shape[0] * (1 + _LOG_2PI) / 2
        entropy = constant + log_diagonal(self._unbroadcasted_scale_tril)
        return entropy.expand(self._batch_shape)
