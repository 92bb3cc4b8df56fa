"""Random draws that overwrite a tensor in place."""

from __future__ import annotations

from typing import Any

from flambeau.core.devices.device import META
from flambeau.core.operators.op import function
from flambeau.core.operators.writing import put
from flambeau.core.support.modes import modes
from flambeau.core.values import plan
from flambeau.core.values.tensor import Tensor
from flambeau.random import sample

__all__: list[str] = []


def redraw(
    name: str,
    kind: str,
    target: Tensor,
    generator: Any,
    parameters: dict[str, Any],
    *,
    outside_tape: bool = False,
) -> Tensor:
    """Overwrite a tensor with random numbers.

    Args:
        name: The operator, for messages.
        kind: See `flambeau.random.sample.sample`.
        target: The tensor to overwrite; it is returned.
        generator: See `rand`.
        parameters: The arguments of the draw, by name.
        outside_tape: As under `no_grad`, for callers that need nothing else from it.
    """
    # Before the draw: a call that fails leaves the generator unchanged.
    recorded = not outside_tape and modes.grad_enabled and target.requires_grad
    if recorded or target._inference:
        _refuse_leaf(target, name)
    if plan.is_to_be_followed(target._cell.array):
        with META.clone():
            return redraw(name, kind, target, generator, parameters, outside_tape=outside_tape)
    is_put = recorded or modes.dual is not None
    drawn = sample.sample(
        kind, parameters, target.shape, target.dtype.numpy, target.device, generator, not is_put
    )
    if is_put:
        return put(target, Tensor._wrap(drawn), name)
    if callable(drawn):
        target._store_later(drawn)
    else:
        target._store(drawn)
    return target


def _refuse_leaf(target: Tensor, name: str) -> None:
    """Fail, like `put`, for a leaf that requires grad, or for an inference tensor."""
    base = target._history_base()
    inference = target._inference and not modes.inference
    if inference or (modes.grad_enabled and base._requires_grad and base.is_leaf):
        put(target, target.detach(), name)


def real(name: str, argument: str, value: Any) -> Any:
    """``value``, checked to be a real number or a tensor.

    Raises:
        TypeError: It is neither.
    """
    if type(value) is float or hasattr(type(value), "__float__"):
        return value
    kind = type(value).__name__
    raise TypeError(f"{name}(): {argument} must be a real number, got {kind}: {value!r:.80}")


def _bounds(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], defaults: Any) -> list[Any]:
    """The values of ``from`` and ``to``; the first is a Python keyword and no parameter name."""
    if len(args) == 2 and not kwargs:
        return [*args]
    values = dict(defaults)
    for key, value in (*zip(values, args, strict=False), *kwargs.items()):
        if key not in values:
            raise TypeError(f"{name}() takes from, to and generator, got {key}")
        values[key] = value
    if len(args) > len(values) or not {*kwargs}.isdisjoint([*values][: len(args)]):
        raise TypeError(f"{name}() takes from and to once, got {args} and {kwargs}")
    return list(values.values())


@function(method=True)
def uniform_(self: Tensor, *bounds: Any, generator: Any = None, **named: Any) -> Any:
    """Overwrite with uniform random numbers: ``uniform_(from=0, to=1)``.

    Raises:
        RuntimeError: ``from`` is greater than ``to``, or a bound is beyond the dtype's range; the
            tensor is a leaf that requires grad while gradients are recorded.
        NotImplementedError: The dtype is an integer one.
    """
    low, high = _bounds("uniform_", bounds, named, {"from": 0.0, "to": 1.0})
    low, high = real("uniform_", "from", low), real("uniform_", "to", high)
    return redraw("uniform_", "uniform", self, generator, {"low": float(low), "high": float(high)})


@function(method=True)
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
    """Overwrite with normal random numbers; raises RuntimeError for a negative ``std``."""
    moments = {"mean": real("normal_", "mean", mean), "std": real("normal_", "std", std)}
    return redraw("normal_", "normal", self, generator, moments)


@function(method=True)
def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Any:
    """Overwrite with exponentials of normal random numbers of this mean and deviation."""
    moments = {"mean": real("log_normal_", "mean", mean), "std": real("log_normal_", "std", std)}
    return redraw("log_normal_", "log_normal", self, generator, moments)


@function(method=True)
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Any:
    """Overwrite with exponentially distributed numbers of rate ``lambd``."""
    rate = {"lambd": real("exponential_", "lambd", lambd)}
    return redraw("exponential_", "exponential", self, generator, rate)


@function(method=True)
def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Any:
    """Overwrite with Cauchy-distributed numbers."""
    shape = {"median": real("cauchy_", "median", median), "sigma": real("cauchy_", "sigma", sigma)}
    return redraw("cauchy_", "cauchy", self, generator, shape)


@function(method=True)
def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Any:
    """Overwrite with numbers of trials up to the first success of probability ``p``."""
    return redraw("geometric_", "geometric", self, generator, {"p": p})


@function(method=True)
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Any:
    """Overwrite with 1 with probability ``p``, else 0.

    Args:
        p: A number, or a tensor of probabilities that broadcasts to this tensor's shape.
        generator: See `rand`.

    Raises:
        RuntimeError: A probability is not between 0 and 1.
    """
    if not isinstance(p, Tensor):
        return redraw("bernoulli_", "bernoulli", self, generator, {"p": p})
    _refuse_leaf(self, "bernoulli_")
    probabilities = p.detach().expand(self.shape)._read()
    array = sample.bernoulli_probabilities(probabilities, self.dtype.numpy, self.device, generator)
    return put(self, Tensor._wrap(array), "bernoulli_")


@function(method=True)
def random_(self: Tensor, *bounds: Any, generator: Any = None, **named: Any) -> Any:
    """Overwrite with random integers: ``random_()``, ``random_(to)`` or ``random_(from, to)``.

    ``to`` itself is excluded. Without bounds, the range is all integers from 0 on that the dtype
    can hold, for floating point dtypes up to 2 to the number of their digits.

    Raises:
        RuntimeError: The range is empty, or the dtype cannot hold it.
    """
    if len(bounds) == 1 and not named:
        bounds = (0, *bounds)
    low, high = _bounds("random_", bounds, named, {"from": None, "to": None})
    for each in (low, high):
        if each is not None and not hasattr(each, "__index__"):
            kind = type(each).__name__
            raise TypeError(f"random_(): the bounds must be integers, got {kind}: {each!r:.80}")
    low = 0 if low is None and high is not None else low
    return redraw("random_", "integers", self, generator, {"low": low, "high": high})


def truncated_normal_(
    target: Tensor, mean: float, std: float, low: float, high: float, generator: Any = None
) -> Tensor:
    """Overwrite with normal random numbers in [low, high]; see `nn.init.trunc_normal_`."""
    return redraw(
        "trunc_normal_", "truncated_normal", target, generator,
        {"mean": mean, "std": std, "low": low, "high": high},
    )  # fmt: skip
