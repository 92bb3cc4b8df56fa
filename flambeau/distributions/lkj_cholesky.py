"""Distributions of correlation matrices, by their Cholesky factors.

D. Lewandowski, D. Kurowicka and H. Joe, "Generating random correlation matrices based on vines and
extended onion method", 2009.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from flambeau import ops
from flambeau.core.support.dtype import finfo
from flambeau.core.support.modes import no_grad
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.gammas import Beta
from flambeau.distributions.parametric import Parametric
from flambeau.distributions.utils import _standard_normal, broadcast_all
from flambeau.ops.elementwise.special import mvlgamma

__all__ = ["LKJCholesky"]


class LKJCholesky(Parametric):
    """Cholesky factors of correlation matrices with a density of ``det^(concentration - 1)``.

    Args:
        dim: The number of rows, at least 2.
        concentration: 1 for the uniform distribution; greater values favour matrices near the
            identity.
        validate_args: See `Distribution`.

    Raises:
        ValueError: ``dim`` is less than 2.

    >>> import flambeau
    >>> flambeau.distributions.LKJCholesky(2, 1.0).log_prob(flambeau.eye(2))
    tensor(-0.6931)
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    concentration: Any

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: Any = None) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        Distribution.__init__(
            self, self.concentration.shape, (dim, dim), validate_args=validate_args
        )

    def _squared_lengths(self) -> Beta:
        """The squared norms of each row's part left of the diagonal (the onion method)."""
        places = ops.arange(
            self.dim - 1, dtype=self.concentration.dtype, device=self.concentration.device
        )
        # The first row has no such part; its value is not used.
        places = ops.cat([places[:1], places])
        marginal = self.concentration.unsqueeze(-1) + (self.dim - 2) / 2
        return Beta(places / 2 + 0.5, marginal - places / 2, validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            squares = self._squared_lengths().sample(sample_shape).unsqueeze(-1)
            directions = _standard_normal(
                self._extended_shape(sample_shape), dtype=squares.dtype, device=squares.device
            ).tril(-1)
            tiny = finfo(squares.dtype).tiny
            lengths = directions.square().sum(-1, keepdim=True).clamp(min=tiny).sqrt()
            left = squares.sqrt() * directions / lengths
            diagonal = (1 - left.square().sum(-1)).clamp(min=tiny).sqrt()
            return left + diagonal.diag_embed()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        rows = ops.arange(2, self.dim + 1, device=self.concentration.device)
        powers = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - rows
        return (powers * diagonal.log()).sum(-1) - self._log_normalizer()

    def _log_normalizer(self) -> Any:
        below = self.dim - 1
        half = self.concentration + below / 2
        constant = below * math.log(math.pi) / 2
        return constant + mvlgamma(half - 0.5, below) - below * half.lgamma()
