"""Kullback-Leibler divergences of multivariate normal distributions.

With ``P`` and ``Q`` for the covariance matrices, the divergence is half of
``log det Q - log det P + trace(Q^-1 P) + (p.loc - q.loc)^T Q^-1 (p.loc - q.loc) - n``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import ops
from flambeau.distributions.covariances import _batch_mahalanobis, log_diagonal
from flambeau.distributions.kl import register_kl
from flambeau.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from flambeau.distributions.multivariate_normal import MultivariateNormal
from flambeau.ops.matrices.solving import solve_triangular


def _sum_of_squares(matrix: Any) -> Any:
    return matrix.square().sum((-2, -1))


def _log_determinant(normal: Any) -> Any:
    if isinstance(normal, LowRankMultivariateNormal):
        return normal._log_determinant()
    return 2 * log_diagonal(normal._unbroadcasted_scale_tril)


def _distance(q: Any, difference: Any) -> Any:
    if isinstance(q, LowRankMultivariateNormal):
        return q._mahalanobis(difference)
    return _batch_mahalanobis(q._unbroadcasted_scale_tril, difference)


def _trace_in_full(p: Any, q: Any) -> Any:
    """The trace of ``Q^-1 P``, from the Cholesky factor of Q."""
    if isinstance(p, LowRankMultivariateNormal):
        roots = [p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()]
    else:
        roots = [p._unbroadcasted_scale_tril]
    triangle = q._unbroadcasted_scale_tril
    return sum(_sum_of_squares(solve_triangular(triangle, root, upper=False)) for root in roots)


def _trace_in_low_rank(p: Any, q: Any) -> Any:
    """The trace of ``Q^-1 P``, where ``Q^-1`` is diagonal minus low rank."""
    removed = q._removed()
    if isinstance(p, LowRankMultivariateNormal):
        diagonal = p._unbroadcasted_cov_diag
        less = _sum_of_squares(removed @ p._unbroadcasted_cov_factor)
        less = less + (removed.square() * diagonal.unsqueeze(-2)).sum((-2, -1))
    else:
        less = _sum_of_squares(removed @ p._unbroadcasted_scale_tril)
    return (p.variance / q._unbroadcasted_cov_diag).sum(-1) - less


def _divergence(trace: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def divergence(p: Any, q: Any) -> Any:
        if p.event_shape != q.event_shape:
            raise ValueError(
                f"KL-divergence between {type(p).__name__} and {type(q).__name__} with different "
                f"event shapes cannot be computed: {p.event_shape} and {q.event_shape}"
            )
        volumes = _log_determinant(q) - _log_determinant(p)
        distance = _distance(q, q.loc - p.loc)
        found = (volumes + trace(p, q) + distance - p.event_shape[0]) / 2
        return found.expand(ops.broadcast_shapes(p.batch_shape, q.batch_shape))

    return divergence


for _p in (MultivariateNormal, LowRankMultivariateNormal):
    register_kl(_p, MultivariateNormal)(_divergence(_trace_in_full))
    register_kl(_p, LowRankMultivariateNormal)(_divergence(_trace_in_low_rank))
