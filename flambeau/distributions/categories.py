"""Distributions of categories: as an index, as a one-hot vector, and counted."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from flambeau import ops
from flambeau.core.support.dtype import finfo, int64
from flambeau.core.support.modes import no_grad
from flambeau.core.values.tensor import Size
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.parametric import ByProbsOrLogits, one_of
from flambeau.distributions.utils import sum_rightmost

_OF_CATEGORIES = {"probs": constraints.simplex, "logits": constraints.real_vector}


class _OfCategories(ByProbsOrLogits):
    """A distribution parameterized by weights, or unnormalized logits, along the last dimension."""

    arg_constraints: ClassVar[Any] = _OF_CATEGORIES
    _is_binary = False

    logits: Any
    probs: Any

    def _start_normalized(
        self, probs: Any, logits: Any, validate_args: Any, has_events: bool
    ) -> None:
        self._given = one_of(probs=probs, logits=logits)
        given = logits if probs is None else probs
        if given.dim() < 1:
            raise ValueError(
                f"`{self._given}` parameter must be at least one-dimensional, got a scalar"
            )
        if probs is None:
            self.logits = given - given.logsumexp(-1, keepdim=True)
        else:
            self.probs = given / given.sum(-1, keepdim=True)
        shape = given.shape
        event_shape = shape[-1:] if has_events else ()
        Distribution.__init__(self, shape[:-1], event_shape, validate_args)

    @property
    def _num_events(self) -> int:
        return self._param.shape[-1]

    def _indices(self, sample_shape: Any) -> Any:
        """Sampled indices of shape ``sample_shape + batch_shape``."""
        sample_shape = Size(sample_shape)
        with no_grad():
            rows = self.probs.reshape((-1, self._num_events))
            # All samples of a row are drawn in one call.
            drawn = ops.multinomial(rows, sample_shape.numel(), True)
            return drawn.T.reshape((*sample_shape, *self._batch_shape))

    def _entropy(self) -> Any:
        # Clamp the logits, since 0 times minus infinity must be 0.
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)


class Categorical(_OfCategories):
    """Indices of categories with the probabilities ``probs`` in the last dimension.

    >>> import flambeau
    >>> weather = flambeau.distributions.Categorical(flambeau.tensor([0.25, 0.75]))
    >>> weather.log_prob(flambeau.tensor(1)).exp()
    tensor(0.7500)
    """

    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        self._start_normalized(probs, logits, validate_args, has_events=False)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Any:
        return ops.full(
            self._batch_shape, math.nan, dtype=self.probs.dtype, device=self.probs.device
        )

    variance: Any = mean
    mode: Any = property(lambda self: self.probs.argmax(-1))

    def sample(self, sample_shape: Any = ()) -> Any:
        return self._indices(sample_shape)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        index = value.to(int64).unsqueeze(-1)
        shape = ops.broadcast_shapes(index.shape[:-1], self._batch_shape)
        logits = self.logits.expand((*shape, self._num_events))
        return logits.gather(-1, index.expand((*shape, 1))).squeeze(-1)

    def entropy(self) -> Any:
        return self._entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        count = self._num_events
        values = ops.arange(count, dtype=int64, device=self._param.device)
        values = values.reshape((count, *[1] * len(self._batch_shape)))
        return values.expand((count, *self._batch_shape)) if expand else values


class OneHotCategorical(_OfCategories):
    """Vectors with a 1 at one category, of probabilities ``probs``, and 0 elsewhere."""

    support = constraints.one_hot
    has_enumerate_support = True
    mean: Any = property(lambda self: self.probs)
    variance: Any = property(lambda self: self.probs * (1 - self.probs))

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        self._start_normalized(probs, logits, validate_args, has_events=True)

    def _one_hot(self, index: Any) -> Any:
        categories = ops.arange(self._num_events, device=self._param.device)
        return (index.unsqueeze(-1) == categories).to(self._param.dtype)

    @property
    def mode(self) -> Any:
        return self._one_hot(self.probs.argmax(-1))

    def sample(self, sample_shape: Any = ()) -> Any:
        return self._one_hot(self._indices(sample_shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = ops.broadcast_tensors(self.logits, value)
        return logits.gather(-1, value.argmax(-1, keepdim=True)).squeeze(-1)

    def entropy(self) -> Any:
        return self._entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        count = self._num_events
        values = ops.eye(count, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((count, *[1] * len(self._batch_shape), count))
        return values.expand((count, *self._batch_shape, count)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose samples have the gradients of ``probs`` (Bengio et al., 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(_OfCategories):
    """The counts of each category in ``total_count`` draws, the same number for all."""

    total_count: int
    mean: Any = property(lambda self: self.probs * self.total_count)
    variance: Any = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError(
                f"inhomogeneous total_count is not supported: it must be an int, got "
                f"{type(total_count).__name__}"
            )
        self.total_count = total_count
        self._start_normalized(probs, logits, validate_args, has_events=True)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        drawn = self._indices((self.total_count, *Size(sample_shape)))
        ones = ops.ones_like(drawn, dtype=self._param.dtype)
        counts = ones.new_zeros((shape[-1], *shape[:-1]))
        return counts.scatter_add(0, drawn, ones).movedim(0, -1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = ops.broadcast_tensors(self.logits, value)
        # Replace infinite logits, since 0 times minus infinity must be 0.
        logits = ops.where((value == 0) & logits.isneginf(), 0.0, logits)
        ways = (value.sum(-1) + 1).lgamma() - sum_rightmost((value + 1).lgamma(), 1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Any:
        n = self.total_count
        # The mean of log(x!) for each category, whose count is binomial of n trials.
        count = ops.arange(1, n + 1, dtype=self.probs.dtype, device=self.probs.device)
        count = count.reshape((n, *[1] * self.probs.dim()))
        factorials = (count + 1).lgamma()
        ways = math.lgamma(n + 1) - factorials - (n - count + 1).lgamma()
        log_prob = ways + ops.xlogy(count, self.probs) + ops.xlogy(n - count, 1 - self.probs)
        expected = (log_prob.exp() * factorials).sum((0, -1))
        return n * self._entropy() - math.lgamma(n + 1) + expected
