"""Wishart distributions of positive definite matrices.

M. S. Bartlett, "On the theory of statistical regression", 1933, for samples; A. Gupta and D. Nagar,
"Matrix variate distributions", 2000, chapter 3, for their moments.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau import ops
from flambeau.core.support.dtype import finfo
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.covariances import WithCovariance, given_matrix, log_diagonal
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.gammas import Chi2
from flambeau.distributions.utils import _standard_normal, is_known
from flambeau.ops.elementwise.special import mvlgamma
from flambeau.ops.matrices.matrix_functions import slogdet
from flambeau.ops.matrices.solving import cholesky_solve

__all__ = ["Wishart"]


class Wishart(WithCovariance, ExponentialFamily):
    """Wishart distributions: ``X^T X`` for a matrix X of ``df`` rows of normal vectors.

    Args:
        df: The degrees of freedom, greater than n - 1.
        covariance_matrix: The covariance of a row, ``(..., n, n)``; or else
        precision_matrix: its inverse; or else
        scale_tril: its Cholesky factor, which all methods use.
        validate_args: See `Distribution`.

    Raises:
        AssertionError: Not exactly one of the matrices is given.
        ValueError: The matrix has fewer than two dimensions, or ``df`` is too small.

    >>> import flambeau
    >>> flambeau.distributions.Wishart(3.0, flambeau.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure: Any = property(lambda self: 0)
    df: Any

    @property
    def arg_constraints(self) -> Any:
        """The parameters' constraints; that of ``df`` depends on the size of the matrices."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def __init__(
        self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None,
        scale_tril: Any = None, validate_args: Any = None,
    ) -> None:  # fmt: skip
        form, matrix = given_matrix(
            AssertionError, covariance_matrix=covariance_matrix, precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )  # fmt: skip
        if not isinstance(df, Tensor):
            df = ops.tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch_shape = ops.broadcast_shapes(matrix.shape[:-2], df.shape)
        self.df = df.expand(batch_shape)
        self._check_df(matrix.shape[-1])
        self._start_with_matrix(form, matrix, batch_shape, matrix.shape[-2:], validate_args)

    def _check_df(self, n: int) -> None:
        if not is_known(self.df):
            return
        if self.df.le(n - 1).any():
            raise ValueError(
                f"Value of df={self.df} expected to be greater than ndim - 1 = {n - 1}."
            )
        if self.df.lt(n).any():
            warn(
                "Low df values detected. Singular samples are highly likely to occur for "
                "ndim - 1 < df < ndim.",
            )

    @property
    def _n(self) -> int:
        return self._event_shape[-1]

    @property
    def _df_of_matrices(self) -> Any:
        return self.df.reshape((*self._batch_shape, 1, 1))

    @property
    def mean(self) -> Any:
        return self._df_of_matrices * self.covariance_matrix

    @property
    def mode(self) -> Any:
        factor = self._df_of_matrices - self._n - 1
        return ops.where(factor <= 0, math.nan, factor) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        products = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._df_of_matrices * (covariance.square() + products)

    def _draw(self, shape: Any) -> Any:
        """The Bartlett factor: chi-distributed diagonals and normal elements below."""
        n = self._n
        places = ops.arange(n, dtype=self.df.dtype, device=self.df.device)
        diagonal = Chi2(self.df.unsqueeze(-1) - places, validate_args=False).rsample(shape).sqrt()
        eps = finfo(diagonal.dtype).eps
        below = _standard_normal(
            (*shape, *self._batch_shape, n, n), dtype=diagonal.dtype, device=diagonal.device
        )
        noise = below.tril(-1) + diagonal.clamp(min=eps).diag_embed()
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Any:
        """Samples that are differentiable functions of the parameters.

        Rounding can make a sample singular where ``df`` is near n - 1; it is redrawn at most
        ``max_try_correction`` times (by default 10, or 3 in a compiled function, whose loop cannot
        stop early).
        """
        sample = self._draw(sample_shape)
        known = is_known(sample)
        if max_try_correction is None:
            max_try_correction = 10 if known else 3
        for attempt in range(max_try_correction):
            singular = ~self.support.check(sample)
            if known and not singular.any():
                break
            if known and attempt == 0:
                warn("Singular sample detected.")
            sample = ops.where(singular[..., None, None], self._draw(sample_shape), sample)
        return sample

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        df, n = self.df, self._n
        batch = ops.broadcast_shapes(value.shape[:-2], self._batch_shape)
        triangle = self._unbroadcasted_scale_tril.expand((*batch, n, n))
        whitened = cholesky_solve(value.expand((*batch, n, n)), triangle)
        return (
            (df - n - 1) / 2 * slogdet(value).logabsdet
            - whitened.diagonal(dim1=-2, dim2=-1).sum(-1) / 2
            - df * self._log_scale() - mvlgamma(df / 2, n)
        )  # fmt: skip

    def _log_scale(self) -> Any:
        """Half of the log-determinant of twice the covariance."""
        return self._n * math.log(2) / 2 + log_diagonal(self._unbroadcasted_scale_tril)

    def entropy(self) -> Any:
        df, n = self.df, self._n
        return (
            (n + 1) * self._log_scale() + mvlgamma(df / 2, n)
            - (df - n - 1) / 2 * _mvdigamma(df / 2, n) + df * n / 2
        )  # fmt: skip

    @property
    def _natural_params(self) -> tuple[Any, Any]:
        return -self.precision_matrix / 2, (self.df - self._n - 1) / 2

    def _log_normalizer(self, *natural_params: Any) -> Any:
        matrix, power = natural_params
        half = power + (self._n + 1) / 2
        log_determinant = self._n * math.log(2) - slogdet(-2 * matrix).logabsdet
        return half * log_determinant + mvlgamma(half, self._n)


def _mvdigamma(x: Any, n: int) -> Any:
    """The derivative of `mvlgamma`."""
    places = ops.arange(n, dtype=x.dtype, device=x.device)
    return (x.unsqueeze(-1) - places / 2).digamma().sum(-1)
