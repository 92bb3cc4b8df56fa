"""Multivariate normal distributions with diagonal plus low-rank covariance.

The determinant and the inverse of ``W W^T + D`` follow from the capacitance matrix ``C = I + W^T
D^-1 W`` (the matrix determinant lemma, and M. A. Woodbury's identity, 1950).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from flambeau import ops
from flambeau.distributions import constraints
from flambeau.distributions.covariances import _batch_mahalanobis, _batch_mv, log_diagonal
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.parametric import Parametric
from flambeau.distributions.utils import _standard_normal, lazy_property
from flambeau.ops.matrices.factorization import cholesky
from flambeau.ops.matrices.solving import solve_triangular

__all__ = ["LowRankMultivariateNormal"]

_LOG_2PI = math.log(2 * math.pi)


class LowRankMultivariateNormal(Parametric):
    """Multivariate normal distributions with the covariance ``W W^T + diag(D)``.

    Args:
        loc: The means, ``(..., n)``.
        cov_factor: W, ``(..., n, rank)``.
        cov_diag: D, ``(..., n)``, positive.
        validate_args: See `Distribution`.

    Raises:
        ValueError: The shapes do not fit.

    >>> import flambeau
    >>> from flambeau.distributions import LowRankMultivariateNormal
    >>> factor = flambeau.tensor([[1.0], [0.0]])
    >>> LowRankMultivariateNormal(flambeau.zeros(2), factor, flambeau.ones(2)).variance
    tensor([2., 1.])
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    loc: Any
    cov_factor: Any
    cov_diag: Any
    mean: Any = property(lambda self: self.loc)
    mode: Any = property(lambda self: self.loc)

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: Any = None) -> None:
        _check_shapes(loc, cov_factor, cov_diag)
        try:
            batch_shape = ops.broadcast_shapes(
                loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]
            )
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, "
                f"cov_diag {cov_diag.shape}"
            ) from error
        self.loc = loc.expand((*batch_shape, -1))
        self.cov_factor = cov_factor.expand((*batch_shape, -1, -1))
        self.cov_diag = cov_diag.expand((*batch_shape, -1))
        # Results have the batch dimensions of the arguments.
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        Distribution.__init__(self, batch_shape, loc.shape[-1:], validate_args=validate_args)

    @property
    def _matrix_shape(self) -> Any:
        return (*self._batch_shape, *[self._event_shape[-1]] * 2)

    @lazy_property
    def variance(self) -> Any:
        """The variance of each component."""
        squares = self._unbroadcasted_cov_factor.square().sum(-1)
        return (squares + self._unbroadcasted_cov_diag).expand(
            self._batch_shape + self._event_shape
        )

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance matrix."""
        # Scaled to unit diagonal, all eigenvalues are at least 1.
        scale = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        factor = self._unbroadcasted_cov_factor / scale
        return (scale * cholesky(_identity_plus(factor @ factor.mT))).expand(self._matrix_shape)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance matrix."""
        factor = self._unbroadcasted_cov_factor
        covariance = factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed()
        return covariance.expand(self._matrix_shape)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance matrix."""
        removed = self._removed()
        inverse = self._unbroadcasted_cov_diag.reciprocal().diag_embed()
        return (inverse - removed.mT @ removed).expand(self._matrix_shape)

    def _removed(self) -> Any:
        """The matrix A of ``rank`` rows such that ``D^-1 - A^T A`` is the precision matrix."""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        return solve_triangular(self._capacitance_tril, scaled, upper=False)

    def _log_determinant(self) -> Any:
        return _batch_lowrank_logdet(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        )

    def _mahalanobis(self, difference: Any) -> Any:
        return _batch_lowrank_mahalanobis(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, difference,
            self._capacitance_tril,
        )  # fmt: skip

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        kind = {"dtype": self.loc.dtype, "device": self.loc.device}
        of_factor = _standard_normal((*shape[:-1], self.cov_factor.shape[-1]), **kind)
        of_diagonal = _standard_normal(shape, **kind)
        along = _batch_mv(self._unbroadcasted_cov_factor, of_factor)
        return self.loc + along + self._unbroadcasted_cov_diag.sqrt() * of_diagonal

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        constant = self._event_shape[0] * _LOG_2PI
        distance = self._mahalanobis(value - self.loc)
        return -(constant + self._log_determinant() + distance) / 2

    def entropy(self) -> Any:
        constant = self._event_shape[0] * (1 + _LOG_2PI)
        return ((constant + self._log_determinant()) / 2).expand(self._batch_shape)


def _check_shapes(loc: Any, cov_factor: Any, cov_diag: Any) -> None:
    if loc.dim() < 1:
        raise ValueError("loc must be at least one-dimensional.")
    if cov_factor.dim() < 2:
        raise ValueError(
            "cov_factor must be at least two-dimensional, with optional leading batch dimensions"
        )
    n = loc.shape[-1]
    if cov_factor.shape[-2] != n:
        raise ValueError(
            f"cov_factor must be a batch of matrices with shape {n} x m, "
            f"got {tuple(cov_factor.shape)}"
        )
    if cov_diag.shape[-1:] != loc.shape[-1:]:
        raise ValueError(
            f"cov_diag must be a batch of vectors with shape {loc.shape[-1:]}, "
            f"got {tuple(cov_diag.shape)}"
        )


def _identity_plus(matrix: Any) -> Any:
    return matrix + ops.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def _batch_capacitance_tril(W: Any, D: Any) -> Any:
    """The Cholesky factor of ``I + W^T D^-1 W``."""
    return cholesky(_identity_plus((W.mT / D.unsqueeze(-2)) @ W))


def _batch_lowrank_logdet(W: Any, D: Any, capacitance_tril: Any) -> Any:
    """The logarithm of the determinant of ``W W^T + D``."""
    return 2 * log_diagonal(capacitance_tril) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Any, D: Any, x: Any, capacitance_tril: Any) -> Any:
    """``x^T (W W^T + D)^-1 x``."""
    along = _batch_mv(W.mT / D.unsqueeze(-2), x)
    return (x.square() / D).sum(-1) - _batch_mahalanobis(capacitance_tril, along)
