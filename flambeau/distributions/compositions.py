"""Compositions of distributions: transformed, reinterpreted and mixed."""

from __future__ import annotations

from typing import Any, ClassVar

from flambeau import ops
from flambeau.core.support import naming
from flambeau.core.support.modes import no_grad
from flambeau.core.values.tensor import Size
from flambeau.distributions import constraints
from flambeau.distributions.categories import Categorical
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.transform import ComposeTransform, Transform
from flambeau.distributions.utils import sum_rightmost


class Independent(Distribution):
    """A distribution whose last batch dimensions are reinterpreted as event dimensions.

    Args:
        base_distribution: The distribution.
        reinterpreted_batch_ndims: The number of these dimensions.
        validate_args: See `Distribution`.

    Raises:
        ValueError: The batch has fewer dimensions.

    >>> import flambeau
    >>> from flambeau.distributions import Independent, Normal
    >>> vectors = Independent(Normal(flambeau.zeros(5, 3), 1.0), 1)
    >>> vectors.batch_shape, vectors.event_shape
    (flambeau.Size([5]), flambeau.Size([3]))
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: Any = None
    ) -> None:
        batch_shape = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch_shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch_shape)}"
            )
        cut = len(batch_shape) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        event_shape = batch_shape[cut:] + base_distribution.event_shape
        super().__init__(batch_shape[:cut], event_shape, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Independent, _instance)
        new.base_dist = self.base_dist.expand(
            (*batch_shape, *self._event_shape[: self.reinterpreted_batch_ndims])
        )
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    has_rsample: Any = property(lambda self: self.base_dist.has_rsample)
    mean: Any = property(lambda self: self.base_dist.mean)
    mode: Any = property(lambda self: self.base_dist.mode)
    variance: Any = property(lambda self: self.base_dist.variance)

    @property
    def has_enumerate_support(self) -> Any:
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        dims, base = self.reinterpreted_batch_ndims, self.base_dist.support
        return constraints.independent(base, dims) if dims else base

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError(
                "Enumeration over cartesian product is not implemented; take the base distribution"
            )
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """The distribution of a transformed sample.

    Args:
        base_distribution: The distribution of the untransformed samples.
        transforms: A transform, or a list of them, in order of application.
        validate_args: See `Distribution`.

    Raises:
        ValueError: ``transforms`` has another type, or the events have too few dimensions.

    >>> import flambeau
    >>> from flambeau.distributions import ExpTransform, Normal, TransformedDistribution
    >>> log_normal = TransformedDistribution(Normal(0.0, 1.0), ExpTransform())
    >>> log_normal.log_prob(flambeau.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: Any = None) -> None:
        self.transforms: list[Transform] | Any = (
            [transforms] if isinstance(transforms, Transform) else transforms
        )
        if not isinstance(self.transforms, list) or not all(
            isinstance(each, Transform) for each in self.transforms
        ):
            raise ValueError(
                "transforms must be a Transform or a list of Transforms, but was "
                f"{transforms!r:.80}"
            )
        whole = ComposeTransform(self.transforms)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        base_dims, dims_in, dims_out = (
            len(base_distribution.event_shape),
            whole.domain.event_dim,
            whole.codomain.event_dim,
        )
        if len(shape) < dims_in:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{dims_in}, but got {shape}."
            )
        result_shape = Size(whole.forward_shape(shape))
        needed = Size(whole.inverse_shape(result_shape))
        if needed != shape:
            base_distribution = base_distribution.expand(needed[: len(needed) - base_dims])
        if dims_in > base_dims:
            base_distribution = Independent(base_distribution, dims_in - base_dims)
        self.base_dist = base_distribution
        cut = len(result_shape) - max(dims_out, base_dims + dims_out - dims_in)
        super().__init__(result_shape[:cut], result_shape[cut:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        home = next(
            c for c in type(self).__mro__ if naming.module_of(c).startswith("flambeau.distrib")
        )
        new = self._get_checked_instance(home, _instance)
        shape = Size((*batch_shape, *self._event_shape))
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        cut = len(shape) - len(self.base_dist.event_shape)
        new.base_dist = self.base_dist.expand(shape[:cut])
        new.transforms = self.transforms
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        missing = len(self._event_shape) - support.event_dim
        return constraints.independent(support, missing) if missing > 0 else support

    has_rsample: Any = property(lambda self: self.base_dist.has_rsample)

    def _forward(self, value: Any) -> Any:
        for transform in self.transforms:
            value = transform(value)
        return value

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        dims, volume = len(self._event_shape), 0
        for transform in reversed(self.transforms):
            before = transform.inv(value)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            part = transform.log_abs_det_jacobian(before, value)
            volume = volume + sum_rightmost(part, dims - transform.domain.event_dim)
            value = before
        base = self.base_dist.log_prob(value)
        return sum_rightmost(base, dims - len(self.base_dist.event_shape)) - volume

    def _with_direction(self, probability: Any) -> Any:
        """Complement the probability if the composed transform is decreasing."""
        sign = ComposeTransform(self.transforms).sign
        if isinstance(sign, int) and sign == 1:
            return probability
        return sign * (probability - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._with_direction(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        return self._forward(self.base_dist.icdf(self._with_direction(value)))


class MixtureSameFamily(Distribution):
    """Samples of one of several components, chosen by a categorical distribution.

    Args:
        mixture_distribution: A `Categorical` over the components.
        component_distribution: A distribution whose last batch dimension are the components.
        validate_args: See `Distribution`.

    Raises:
        ValueError: The distributions have other classes, or their shapes do not fit.
    """

    arg_constraints: ClassVar[Any] = {}
    has_rsample = False

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: Any = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an instance of "
                f"flambeau.distributions.Categorical, got {type(mixture_distribution).__name__}"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution need to be an instance of "
                f"flambeau.distributions.Distribution, got {type(component_distribution).__name__}"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        self._check_shapes()
        super().__init__(
            component_distribution.batch_shape[:-1],
            component_distribution.event_shape,
            validate_args,
        )

    def _check_shapes(self) -> None:
        of_mixture = self.mixture_distribution.batch_shape
        of_components = self.component_distribution.batch_shape
        for one, other in zip(reversed(of_mixture), reversed(of_components[:-1]), strict=False):
            if one != 1 and other != 1 and one != other:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({of_mixture}) is not compatible with "
                    f"`component_distribution.batch_shape` ({of_components})"
                )
        count = self.mixture_distribution.logits.shape[-1]
        if not of_components or of_components[-1] != count:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({list(of_components)})"
            )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        count = self.component_distribution.batch_shape[-1]
        new._mixture_distribution = self.mixture_distribution.expand(batch_shape)
        new._component_distribution = self.component_distribution.expand((*batch_shape, count))
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mixture_distribution(self) -> Any:
        """The distribution of the components' indices."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components."""
        return self._component_distribution

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self.component_distribution.support)

    def _weights(self) -> Any:
        """The components' probabilities, with trailing dimensions for the event."""
        probs = self.mixture_distribution.probs
        return probs.reshape((*probs.shape, *[1] * len(self._event_shape)))

    @property
    def _dim(self) -> int:
        """The dimension of the components."""
        return -1 - len(self._event_shape)

    @property
    def mean(self) -> Any:
        return (self._weights() * self.component_distribution.mean).sum(self._dim)

    @property
    def variance(self) -> Any:
        parts, weights = self.component_distribution, self._weights()
        deviation = parts.mean - self.mean.unsqueeze(self._dim)
        return (weights * (parts.variance + deviation.square())).sum(self._dim)

    def cdf(self, value: Any) -> Any:
        below = self.component_distribution.cdf(value.unsqueeze(self._dim))
        return (below * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        of_parts = self.component_distribution.log_prob(value.unsqueeze(self._dim))
        logits = self.mixture_distribution.logits.log_softmax(-1)
        return (of_parts + logits).logsumexp(-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            samples = self.component_distribution.sample(sample_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            shape = (*chosen.shape, 1, *[1] * len(self._event_shape))
            size = list(samples.shape)
            size[self._dim] = 1
            index = chosen.reshape(shape).expand(size)
            return ops.gather(samples, samples.dim() + self._dim, index).squeeze(self._dim)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )
