"""`Distribution`, the base class of distributions, and their validation."""

from __future__ import annotations

from typing import Any

from flambeau.core.support.modes import no_grad
from flambeau.core.support.tracebacks import trimmed
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.utils import is_known, lazy_property

__all__ = ["Distribution"]


def _undefined(name: str, meaning: str) -> property:
    """A property that a subclass may define."""

    def get(self: Any) -> Any:
        raise NotImplementedError(f"{type(self)} does not implement {name}")

    return property(get, doc=meaning)


class Distribution:
    """A batch of probability distributions.

    A sample has the shape ``sample_shape + batch_shape + event_shape``: one event for each
    distribution of the batch, ``sample_shape`` times. Log-probabilities have one element per event.

    Args:
        batch_shape: The shape of the parameters without their event dimensions.
        event_shape: The shape of one event; ``()`` for scalars.
        validate_args: Whether parameters and values are checked. Enabled by default unless Python
            runs with ``-O``. Nothing is validated while tracing, since the values are unknown.

    Raises:
        ValueError: A parameter is outside of its constraint.
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = trimmed(cls.__init__)

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: Any = None
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()
        super().__init__()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set the default of ``validate_args``.

        Raises:
            ValueError: ``value`` is not a bool.
        """
        if value not in (True, False):
            raise ValueError(f"validate_args must be True or False, got {value!r:.80}")
        Distribution._validate_args = value

    # Shapes

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one event."""
        return self._event_shape

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Expand the parameters to ``batch_shape``."""
        raise NotImplementedError(f"{type(self).__name__} does not define expand()")

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """An instance of this class, without calling ``__init__``, for `expand` to fill."""
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method."
            )
        return type(self).__new__(type(self))

    # Known facts of the distribution

    arg_constraints: Any = _undefined("arg_constraints", "The constraint of each parameter.")
    support: Any = _undefined("support", "The constraint of events of positive probability.")
    mean: Any = _undefined("mean", "The mean of each distribution.")
    mode: Any = _undefined("mode", "The most probable event of each distribution.")
    variance: Any = _undefined("variance", "The variance of each distribution.")
    stddev: Any = property(
        lambda self: self.variance.sqrt(), doc="The standard deviation of each distribution."
    )

    def entropy(self) -> Any:
        """The entropy of each distribution, in nats."""
        raise NotImplementedError(f"{type(self)} does not implement entropy")

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return self.entropy().exp()

    # Samples

    def sample(self, sample_shape: Any = ()) -> Any:
        """``sample_shape`` samples of each distribution, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples that are differentiable functions of the parameters."""
        raise NotImplementedError(f"{type(self)} does not implement rsample")

    def sample_n(self, n: int) -> Any:
        """``sample((n,))``, under an older name."""
        warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
        )
        return self.sample((n,))

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values of a discrete distribution, along a new first dimension.

        Args:
            expand: Whether to expand the batch dimensions, which otherwise have size 1.
        """
        raise NotImplementedError(f"{type(self)} does not implement enumerate_support")

    # Values

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, at ``value``.

        Raises:
            ValueError: ``value`` does not broadcast with the distributions, or lies outside of the
                support.
        """
        raise NotImplementedError(f"{type(self)} does not implement log_prob")

    def cdf(self, value: Any) -> Any:
        """The cumulative distribution function at ``value``."""
        raise NotImplementedError(f"{type(self)} does not implement cdf")

    def icdf(self, value: Any) -> Any:
        """The inverse of the cumulative distribution function at ``value``."""
        raise NotImplementedError(f"{type(self)} does not implement icdf")

    # Checks

    def _validate_parameters(self) -> None:
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            arg_constraints = {}
            warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = "
                "{}` or initialize the distribution with `validate_args=False` to turn off "
                "validation.",
            )
        for name, constraint in arg_constraints.items():
            is_computed = isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or (is_computed and name not in self.__dict__):
                continue
            self._require(name, constraint)

    def _require(self, name: str, constraint: Any) -> None:
        value = getattr(self, name)
        if is_known(value) and not constraint.check(value).all():
            raise ValueError(
                f"Expected parameter {name} ({type(value).__name__} of shape "
                f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                f"{constraint!r}, but found invalid values:\n{value}"
            )

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor) and not hasattr(type(value), "__torch_function__"):
            raise ValueError(
                f"The value argument to log_prob must be a Tensor, got {type(value).__name__}"
            )
        shape, event_dim = value.shape, len(self._event_shape)
        if shape[len(shape) - event_dim :] != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{shape} vs {self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        pairs = zip(reversed(shape), reversed(expected), strict=False)
        if any(one != other and 1 not in (one, other) for one, other in pairs):
            raise ValueError(
                f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {expected}."
            )
        if not is_known(value):
            return
        try:
            support = self.support
        except NotImplementedError:
            warn(
                f"{type(self)} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
            )
            return
        valid = support.check(value)
        if is_known(valid) and not valid.all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) to be "
                f"within the support ({support!r}) of the distribution {self!r}, but found invalid "
                f"values:\n{value}"
            )

    def __repr__(self) -> str:
        shown = {n: vars(self)[n] for n in self.arg_constraints if n in vars(self)}
        # The value of a scalar, else the shape.
        described = (f"{n}: {v if v.numel() == 1 else v.shape}" for n, v in shown.items())
        return f"{type(self).__name__}({', '.join(described)})"
