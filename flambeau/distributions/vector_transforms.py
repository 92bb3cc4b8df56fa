"""Transforms of vectors and matrices, and of the parts of a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flambeau import ops
from flambeau.core.support.dtype import finfo
from flambeau.core.values.tensor import Size
from flambeau.distributions import constraints
from flambeau.distributions.elementwise_transforms import clipped_sigmoid
from flambeau.distributions.transform import Transform, require_dims
from flambeau.distributions.utils import (
    sum_rightmost,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)
from flambeau.ops.matrices.factorization import cholesky
from flambeau.ops.neural.activation import logsigmoid, softplus
from flambeau.ops.neural.softmax import softmax


class SoftmaxTransform(Transform):
    """``y = softmax(x)``, which is not injective; the inverse used here is ``log(y)``."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Any) -> Any:
        return softmax(x, -1)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        require_dims(shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """Real vectors to a simplex of one more element, by stick breaking."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _log_left(like: Any, count: int) -> Any:
        # With x = 0, all elements of the simplex are equal.
        return ops.arange(count, 0, -1, dtype=like.dtype, device=like.device).log()

    def _call(self, x: Any) -> Any:
        share = clipped_sigmoid(x - self._log_left(x, x.shape[-1]))
        left = (1 - share).cumprod(-1)
        one = ops.ones_like(left[..., :1])
        return ops.cat([share, one], -1) * ops.cat([one, left], -1)

    def _inverse(self, y: Any) -> Any:
        first = y[..., :-1]
        # Rounding can make the remainder slightly negative.
        left = (1 - first.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return first.log() - left.log() + self._log_left(y, first.shape[-1])

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - self._log_left(x, x.shape[-1])
        return (logsigmoid(x) - x + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        require_dims(shape, 1)
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        require_dims(shape, 1)
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(Transform):
    """Square matrices to lower triangular matrices with a positive diagonal."""

    domain: Any = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Square matrices to positive definite matrices, through their Cholesky factors."""

    domain: Any = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(cholesky(y))


class CorrCholeskyTransform(Transform):
    """Vectors of D (D - 1) / 2 reals to Cholesky factors of correlation matrices of D rows.

    Each row is a unit vector. The Jacobian is that of the elements below the diagonal. (Stan's
    reference manual, "Cholesky factors of correlation matrices".)
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    @staticmethod
    def _left(squares: Any) -> Any:
        """One minus the sum of squares before each element of a row."""
        left = 1 - squares.cumsum(-1)
        return ops.cat([ops.ones_like(left[..., :1]), left[..., :-1]], -1)

    def _call(self, x: Any) -> Any:
        eps = finfo(x.dtype).eps
        ratio = vec_to_tril_matrix(x.tanh().clamp(-1 + eps, 1 - eps), -1)
        left = (1 - ratio.square()).sqrt().cumprod(-1)
        before = ops.cat([ops.ones_like(left[..., :1]), left[..., :-1]], -1)
        return (ratio + ops.eye(ratio.shape[-1], dtype=x.dtype, device=x.device)) * before

    def _inverse(self, y: Any) -> Any:
        left = tril_matrix_to_vec(self._left(y.square()), -1)
        return (tril_matrix_to_vec(y, -1) / left.sqrt()).atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        left = tril_matrix_to_vec(1 - y.square().cumsum(-1), -2)
        of_tanh = -2 * (x + softplus(-2 * x) - math.log(2)).sum(-1)
        return left.log().sum(-1) / 2 + of_tanh

    def forward_shape(self, shape: Any) -> Any:
        require_dims(shape, 1)
        count = shape[-1]
        rows = (1 + math.isqrt(1 + 8 * count)) // 2
        if rows * (rows - 1) // 2 != count:
            raise ValueError(f"Input is not a flattened lower-diagonal number: {count} elements")
        return Size((*shape[:-1], rows, rows))

    def inverse_shape(self, shape: Any) -> Any:
        require_dims(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError(f"Input is not square: shape {tuple(shape)}")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class _OfParts(Transform):
    """A transform for each part of a tensor along ``dim``."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        super().__init__(cache_size=cache_size)
        for each in tseq:
            if not isinstance(each, Transform):
                raise AssertionError(
                    f"All elements of tseq must be Transform instances, got {type(each).__name__}"
                )
        self.transforms: list[Transform] = (
            [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        )
        self.dim = dim

    @property
    def bijective(self) -> bool:
        return all(each.bijective for each in self.transforms)

    def _parts(self, whole: Any) -> Any:
        raise NotImplementedError

    def _require_size(self, whole: Any, size: int) -> None:
        if not -whole.dim() <= self.dim < whole.dim():
            raise AssertionError(f"dim {self.dim} out of range for {whole.dim()} dimensions")
        if whole.shape[self.dim] != size:
            raise AssertionError(
                f"size {whole.shape[self.dim]} of dimension {self.dim} must equal {size}"
            )

    def _volumes(self, x: Any, y: Any) -> list[Any]:
        parts = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return [each.log_abs_det_jacobian(*values) for each, *values in parts]


class CatTransform(_OfParts):
    """Transforms of concatenated parts.

    Args:
        tseq: The transforms.
        dim: The dimension of the concatenation.
        lengths: Their sizes; by default 1 each.
        cache_size: See `Transform`.
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(tseq, dim, cache_size)
        self.lengths: list[int] = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(
                f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})"
            )

    @property
    def event_dim(self) -> int:
        return max(each.event_dim for each in self.transforms)

    @property
    def length(self) -> int:
        """The total size of all parts."""
        return sum(self.lengths)

    domain: Any = constraints.dependent_property(
        lambda self: constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)
    )
    codomain: Any = constraints.dependent_property(
        lambda self: constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)
    )

    def _again(self, cache_size: int) -> Transform:
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, whole: Any) -> Any:
        self._require_size(whole, self.length)
        return whole.split(self.lengths, self.dim)

    def _call(self, x: Any) -> Any:
        parts = zip(self.transforms, self._parts(x), strict=True)
        return ops.cat([each(part) for each, part in parts], self.dim)

    def _inverse(self, y: Any) -> Any:
        parts = zip(self.transforms, self._parts(y), strict=True)
        return ops.cat([each.inv(part) for each, part in parts], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        volumes = [
            sum_rightmost(volume, self.event_dim - each.event_dim)
            for each, volume in zip(self.transforms, self._volumes(x, y), strict=True)
        ]
        # Counted from the end, without the event dimensions.
        dim = self.event_dim + (self.dim if self.dim < 0 else self.dim - x.dim())
        return ops.cat(volumes, dim) if dim < 0 else sum(volumes)


class StackTransform(_OfParts):
    """Transforms of the slices along ``dim``."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    domain: Any = constraints.dependent_property(
        lambda self: constraints.stack([t.domain for t in self.transforms], self.dim)
    )
    codomain: Any = constraints.dependent_property(
        lambda self: constraints.stack([t.codomain for t in self.transforms], self.dim)
    )

    def _again(self, cache_size: int) -> Transform:
        return StackTransform(self.transforms, self.dim, cache_size)

    def _parts(self, whole: Any) -> Any:
        self._require_size(whole, len(self.transforms))
        return whole.unbind(self.dim)

    def _call(self, x: Any) -> Any:
        parts = zip(self.transforms, self._parts(x), strict=True)
        return ops.stack([each(part) for each, part in parts], self.dim)

    def _inverse(self, y: Any) -> Any:
        parts = zip(self.transforms, self._parts(y), strict=True)
        return ops.stack([each.inv(part) for each, part in parts], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return ops.stack(self._volumes(x, y), self.dim)
