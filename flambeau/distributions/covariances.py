"""Covariance matrices in one of three forms, stored as Cholesky factors."""

from __future__ import annotations

import math
from typing import Any

from flambeau import ops
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.parametric import Parametric
from flambeau.distributions.utils import lazy_property
from flambeau.ops.matrices.factorization import cholesky
from flambeau.ops.matrices.solving import cholesky_inverse, solve_triangular


class WithCovariance(Parametric):
    """A distribution with a covariance matrix, or a parameter like one.

    The Cholesky factor keeps the batch dimensions of the given matrix, so that a matrix shared by
    the whole batch is factorized once.
    """

    _unbroadcasted_scale_tril: Any

    def _start_with_matrix(
        self, form: str, matrix: Any, batch_shape: Any, event_shape: Any, validate_args: Any
    ) -> None:
        """Store the matrix given in one of the three forms, and its Cholesky factor."""
        setattr(self, form, matrix.expand((*batch_shape, -1, -1)))
        # Parameters are validated before they are factorized.
        Distribution.__init__(self, batch_shape, event_shape, validate_args=validate_args)
        if form == "covariance_matrix":
            matrix = cholesky(matrix)
        elif form == "precision_matrix":
            matrix = _precision_to_scale_tril(matrix)
        self._unbroadcasted_scale_tril = matrix

    @property
    def _matrix_shape(self) -> Any:
        return (*self._batch_shape, *[self._event_shape[-1]] * 2)

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor of the covariance matrix."""
        return self._unbroadcasted_scale_tril.expand(self._matrix_shape)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance matrix."""
        triangle = self._unbroadcasted_scale_tril
        return (triangle @ triangle.mT).expand(self._matrix_shape)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance matrix."""
        return cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._matrix_shape)


def given_matrix(error: type[Exception], **matrices: Any) -> tuple[str, Any]:
    """The name and value of the given matrix argument.

    Raises:
        error: No matrix is given, or several are.
        ValueError: The matrix has fewer than two dimensions.
    """
    given = [name for name, matrix in matrices.items() if matrix is not None]
    if len(given) != 1:
        raise error(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified; "
            f"got {given}"
        )
    matrix = matrices[given[0]]
    if matrix.dim() < 2:
        raise ValueError(
            f"{given[0]} matrix must be at least two-dimensional, with optional leading batch "
            f"dimensions; got {tuple(matrix.shape)}"
        )
    return given[0], matrix


def log_diagonal(triangle: Any) -> Any:
    """Half of the logarithm of the determinant of the covariance matrix."""
    return triangle.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _precision_to_scale_tril(P: Any) -> Any:
    """The Cholesky factor of the inverse of ``P``.

    With rows and columns reversed, the Cholesky factor of ``P`` is upper: ``P = U U^T``, and
    ``U^-T`` is the triangle.
    """
    upper = cholesky(P.flip((-2, -1))).flip((-2, -1))
    identity = ops.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return solve_triangular(upper.mT, identity, upper=False)


def _batch_mv(bmat: Any, bvec: Any) -> Any:
    """Matrix-vector products whose batch dimensions broadcast."""
    if bmat.dim() == 2:
        return bvec @ bmat.mT
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Any, bx: Any) -> Any:
    """The squared norms of ``L^-1 x``, with broadcast batch dimensions.

    Vectors with the same factor are solved together, as columns of one matrix.
    """
    n = bx.shape[-1]
    batch = ops.broadcast_shapes(bL.shape[:-2], bx.shape[:-1])
    x = bx.expand((*batch, n))
    own = (1,) * (len(batch) - (bL.dim() - 2)) + tuple(bL.shape[:-2])
    apart = [axis for axis, size in enumerate(own) if size != 1]
    together = [axis for axis, size in enumerate(own) if size == 1]
    sizes = tuple(batch[axis] for axis in apart)
    columns = x.permute((*apart, len(batch), *together)).reshape(
        (*sizes, n, math.prod(batch[axis] for axis in together))
    )
    solved = solve_triangular(bL.reshape((*sizes, n, n)), columns, upper=False)
    order = apart + together
    found = solved.square().sum(-2).reshape(tuple(batch[axis] for axis in order))
    return found.permute(tuple(order.index(axis) for axis in range(len(batch))))
