"""Transforms, their inverses, and compositions."""

from __future__ import annotations

import functools
import operator
from typing import Any

from flambeau import ops
from flambeau.core.values.tensor import Size
from flambeau.distributions import constraints
from flambeau.distributions.utils import sum_rightmost


class Transform:
    """An invertible function of tensors with the log-determinant of its Jacobian.

    A subclass defines ``_call``, ``_inverse`` and `log_abs_det_jacobian`, and the constraints
    ``domain`` and ``codomain``.

    Args:
        cache_size: 1 to cache the last pair of values, so that the inverse of a result is exactly
            its argument; 0 for no cache.

    Attributes:
        bijective: Whether the transform is bijective.
        sign: 1 if the transform is increasing, -1 if it is decreasing, for univariate transforms.

    Raises:
        ValueError: ``cache_size`` is neither 0 nor 1.
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"cache_size must be 0 or 1, got {cache_size!r:.80}")
        self._cache_size = cache_size
        self._cached: tuple[Any, Any] = (None, None)
        self._inv: Any = None
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_inv": None, "_cached": (None, None)}

    @property
    def event_dim(self) -> int:
        """The number of event dimensions, where it is the same for domain and codomain."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse transform."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    def _no_sign(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no sign")

    sign: Any = property(_no_sign, doc="The sign of the derivative, where all have the same.")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same transform with another ``cache_size``."""
        if self._cache_size == cache_size:
            return self
        return self._again(cache_size)

    def _again(self, cache_size: int) -> Transform:
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        # Without an ``__init__`` of its own, a transform is determined by its class.
        if type(self).__init__ is Transform.__init__ and type(self) is not Transform:
            return type(self) is type(other)
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __call__(self, x: Any) -> Any:
        """Apply the transform to ``x``."""
        if self._cache_size and x is self._cached[0]:
            return self._cached[1]
        return self._remember(x, self._call(x))[1]

    def _inv_call(self, y: Any) -> Any:
        if self._cache_size and y is self._cached[1]:
            return self._cached[0]
        return self._remember(self._inverse(y), y)[0]

    def _remember(self, x: Any, y: Any) -> tuple[Any, Any]:
        if self._cache_size:
            self._cached = (x, y)
        return x, y

    def _call(self, x: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define _call()")

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define _inverse()")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the absolute determinant of the Jacobian at ``x``.

        Args:
            x: The argument of the transform.
            y: The result of the transform at ``x``.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define log_abs_det_jacobian()")

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the result for an argument of this shape."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of the argument for a result of this shape."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    """The inverse of another transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    domain = constraints.dependent_property(lambda self: self._inv.codomain, is_discrete=False)
    codomain = constraints.dependent_property(lambda self: self._inv.domain, is_discrete=False)
    bijective = property(lambda self: self._inv.bijective)
    sign = property(lambda self: self._inv.sign)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __call__(self, x: Any) -> Any:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Any) -> Any:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._inv!r})"


class ComposeTransform(Transform):
    """The composition of several transforms.

    Args:
        parts: The transforms, in order of application.
        cache_size: See `Transform`; it applies to all parts.
    """

    def __init__(self, parts: list[Any], cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.parts: list[Any] = (
            [part.with_cache(cache_size) for part in parts] if cache_size else parts
        )

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        dims = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dims += part.domain.event_dim - part.codomain.event_dim
            dims = max(dims, part.domain.event_dim)
        return _with_event_dim(self.parts[0].domain, dims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        dims = self.parts[0].domain.event_dim
        for part in self.parts:
            dims += part.codomain.event_dim - part.domain.event_dim
            dims = max(dims, part.codomain.event_dim)
        return _with_event_dim(self.parts[-1].codomain, dims)

    @property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        return functools.reduce(operator.mul, (part.sign for part in self.parts), 1)

    @property
    def inv(self) -> Transform:
        if self._inv is None:
            self._inv = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def _again(self, cache_size: int) -> Transform:
        return ComposeTransform(self.parts, cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return ops.zeros_like(x)
        total, dims = 0, self.domain.event_dim
        for index, part in enumerate(self.parts):
            after = y if index == len(self.parts) - 1 else part(x)
            volume = part.log_abs_det_jacobian(x, after)
            total = total + sum_rightmost(volume, dims - part.domain.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
            x = after
        return total

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        parts = ",\n    ".join(map(repr, self.parts))
        return f"ComposeTransform(\n    {parts}\n)"


def _with_event_dim(constraint: Any, dims: int) -> Any:
    missing = dims - constraint.event_dim
    return constraints.independent(constraint, missing) if missing else constraint


class IndependentTransform(Transform):
    """A transform whose last batch dimensions are reinterpreted as event dimensions.

    Args:
        base_transform: The transform.
        reinterpreted_batch_ndims: The number of these dimensions.
        cache_size: See `Transform`.
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform: Transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    domain: Any = constraints.dependent_property(
        lambda self: constraints.independent(
            self.base_transform.domain, self.reinterpreted_batch_ndims
        ),
        is_discrete=False,
    )
    codomain: Any = constraints.dependent_property(
        lambda self: constraints.independent(
            self.base_transform.codomain, self.reinterpreted_batch_ndims
        ),
        is_discrete=False,
    )
    bijective: Any = property(lambda self: self.base_transform.bijective)
    sign: Any = property(lambda self: self.base_transform.sign)

    def _again(self, cache_size: int) -> Transform:
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    def _call(self, x: Any) -> Any:
        require_dims(x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        require_dims(y.shape, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        volume = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(volume, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """A transform that reshapes events.

    Raises:
        ValueError: The shapes have different numbers of elements.
    """

    bijective = True

    in_shape: Size
    out_shape: Size

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(
                "in_shape, out_shape have different numbers of elements: "
                f"{self.in_shape} and {self.out_shape}"
            )

    domain: Any = constraints.dependent_property(
        lambda self: constraints.independent(constraints.real, len(self.in_shape))
    )
    codomain: Any = constraints.dependent_property(
        lambda self: constraints.independent(constraints.real, len(self.out_shape))
    )

    def _again(self, cache_size: int) -> Transform:
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size)

    def _call(self, x: Any) -> Any:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Any) -> Any:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        return _exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return _exchanged(shape, self.out_shape, self.in_shape)


def _exchanged(shape: Any, old: Size, new: Size) -> Size:
    """``shape`` with the event shape ``old`` replaced by ``new``."""
    require_dims(shape, len(old))
    cut = len(shape) - len(old)
    if Size(shape[cut:]) != old:
        raise ValueError(f"Shape mismatch: expected {Size(shape[cut:])} but got {old}")
    return Size((*shape[:cut], *new))


def require_dims(shape: Any, dims: int) -> None:
    if len(shape) < dims:
        raise ValueError(
            f"Too few dimensions on input: shape {tuple(shape)}, at least {dims} needed"
        )
