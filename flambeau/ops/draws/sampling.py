"""Random tensors.

After `flambeau.manual_seed` the numbers on the CPU equal PyTorch's. Compiled functions, and other
devices, draw other numbers of the same distribution; see `flambeau.Generator`.
"""

from __future__ import annotations

import functools
from typing import Any, Unpack

from flambeau.core.devices.device import as_device
from flambeau.core.kernels.kernel import Kernel
from flambeau.core.operators.dispatch import run
from flambeau.core.operators.misfits import require_tensors
from flambeau.core.operators.op import function
from flambeau.core.operators.writing import put_out
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.modes import modes
from flambeau.core.support.tracebacks import trim
from flambeau.core.values.tensor import Tensor
from flambeau.ops.factories.factory import Options, asked, factory, shape_of, wrap_new
from flambeau.random import sample

__all__ = [
    "bernoulli",
    "multinomial",
    "normal",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
]


# New tensors


@factory
def rand(*sizes: Any, size: Any = None, generator: Any = None, **options: Unpack[Options]) -> Any:
    """Uniform random numbers in [0, 1).

    Args:
        sizes: The shape, as integers or as one sequence of them; ``size=`` works too.
        generator: The `Generator` to draw from; by default the device's default generator.
        options: See `factory.Options`; the dtype is a floating point or complex one, by default
            `get_default_dtype`.

    Raises:
        TypeError: A size is not an integer.
        NotImplementedError: The dtype is an integer one.
        RuntimeError: A size is negative, or the generator is for another device.
    """
    shape = shape_of("rand", sizes, size)
    return _new("rand", "uniform", shape, generator, options)


@factory
def randn(*sizes: Any, size: Any = None, generator: Any = None, **options: Unpack[Options]) -> Any:
    """Normal random numbers of mean 0 and variance 1; arguments and errors as for `rand`."""
    shape = shape_of("randn", sizes, size)
    return _new("randn", "normal", shape, generator, options)


def _new(
    name: str,
    kind: str,
    shape: tuple[int, ...],
    generator: Any,
    options: Options,
    **parameters: Any,
) -> Any:
    new = asked(name, **options)
    dtype = new.default_dtype().numpy
    return new.tensor(sample.sample(kind, parameters, shape, dtype, new.device, generator))


@factory
def randint(
    *args: Any,
    low: Any = None,
    high: Any = None,
    size: Any = None,
    generator: Any = None,
    **options: Unpack[Options],
) -> Any:
    """Random integers in [low, high).

    Args:
        args: ``high, size`` or ``low, high, size``; each can be given by name.
        low: The lower bound, inclusive; 0 by default.
        high: The upper bound, exclusive.
        size: The shape, a sequence.
        generator: See `rand`.
        options: See `factory.Options`; the dtype is by default int64.

    Raises:
        TypeError: ``high`` or ``size`` is missing, or a bound is not an integer.
        RuntimeError: The range is empty, or the dtype cannot hold it.
    """
    try:
        low, high, size = _randint_arguments(args, low, high, size)
        if options.get("dtype") is None and options.get("out") is None:
            options["dtype"] = dtypes.int64
        shape = shape_of("randint", (size,))
        return _new("randint", "integers", shape, generator, options, low=low, high=high)
    except Exception as error:
        trim(error)
        raise


def _randint_arguments(args: tuple[Any, ...], low: Any, high: Any, size: Any) -> tuple[Any, ...]:
    values = list(args)
    if size is None and values:
        size = values.pop()
    if high is None and values:
        high = values.pop()
    if low is None and values:
        low = values.pop()
    if values or high is None or not isinstance(size, list | tuple):
        raise TypeError(
            "randint() takes (high, size) or (low, high, size) with a sequence as size, got "
            f"{args}" + "".join(f", {n}={v}" for n, v in (("low", low), ("high", high)) if v)
        )
    return (
        _integer("randint", "low", 0 if low is None else low),
        _integer("randint", "high", high),
        size,
    )


def _integer(name: str, argument: str, value: Any) -> int:
    try:
        return int(value) if isinstance(value, Tensor) else value.__index__()
    except AttributeError:
        raise TypeError(
            f"{name}(): {argument} must be an integer, got {type(value).__name__}: {value!r:.80}"
        ) from None


@factory
def randperm(n: int, *, generator: Any = None, **options: Unpack[Options]) -> Any:
    """The integers from 0 to n - 1 in random order.

    Args:
        n: The number of integers.
        generator: See `rand`.
        options: See `factory.Options`; the dtype is by default int64.

    Raises:
        RuntimeError: ``n`` is negative, or the dtype cannot hold n - 1.
    """
    new = asked("randperm", **options)
    dtype = dtypes.int64 if new.dtype is None else new.dtype
    count = _integer("randperm", "n", n)
    return new.tensor(sample.permutation(count, dtype.numpy, new.device, generator))


# Like another tensor


@function
def rand_like(
    input: Any, *, generator: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, memory_format: Any = None,
    pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Uniform random numbers in [0, 1) with the shape, dtype and device of ``input``."""
    return _like("rand_like", "uniform", input, generator, dtype, layout, device, requires_grad)


@function
def randn_like(
    input: Any, *, generator: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, memory_format: Any = None,
    pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Standard normal random numbers with the shape, dtype and device of ``input``."""
    return _like("randn_like", "normal", input, generator, dtype, layout, device, requires_grad)


@function
def randint_like(
    input: Any, *args: Any, low: Any = None, high: Any = None, generator: Any = None,
    dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    memory_format: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Random integers in [low, high) with the shape, dtype and device of ``input``.

    Called as ``randint_like(input, high)`` or ``randint_like(input, low, high)``.
    """
    low, high, _ = _randint_arguments(args, low, high, ())
    return _like(
        "randint_like", "integers", input, generator, dtype, layout, device, requires_grad,
        low=low, high=high,
    )  # fmt: skip


def _like(
    name: str, kind: str, input: Any, generator: Any, dtype: Any, layout: Any, device: Any,
    requires_grad: bool, **parameters: Any,
) -> Any:  # fmt: skip
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): input must be a Tensor, got {type(input).__name__}")
    options: Options = {
        "dtype": input.dtype if dtype is None else dtype, "layout": layout,
        "device": input.device if device is None else device, "requires_grad": requires_grad,
    }  # fmt: skip
    return _new(name, kind, tuple(input.shape), generator, options, **parameters)


# From a tensor of parameters


@functools.cache
def _replacement(name: str) -> Kernel:
    """Returns its second argument, the draw; the gradient of the first is zero, as in PyTorch."""
    node = "".join(word.capitalize() for word in name.strip("_").split("_"))
    return Kernel(lambda replaced, drawn: drawn, name.strip("_"), f"{node}Backward0", linear=True)


def _drawn_from(name: str, parameters: Tensor, array: Any) -> Tensor:
    """A draw as a tensor; gradients through it are zero."""
    result = wrap_new(name, array)
    if not modes.grad_enabled or not parameters.requires_grad:
        return result
    return run(_replacement(name), (parameters, result))


@function(method=True)
def bernoulli(input: Any, p: Any = None, *, generator: Any = None, out: Any = None) -> Any:
    """1 with the probability in the element of ``input``, else 0.

    Args:
        input: Probabilities, of a floating point dtype, which is that of the result.
        p: The probability for every element, if given; ``input`` then supplies the shape and dtype.
        generator: See `rand`.
        out: Takes the result, in its own dtype, which may be one of integers or bool.

    Raises:
        RuntimeError: A probability is not between 0 and 1.
        NotImplementedError: The dtype is not a floating point one.
    """
    require_tensors("bernoulli", input=input)
    if out is not None:
        drawn = bernoulli(input, p, generator=generator)
        kept = drawn.to(out.dtype) if isinstance(out, Tensor) else drawn
        return put_out(out, kept, "bernoulli", (input,))
    if p is not None:
        with_values = Tensor._wrap(input.detach()._read())
        return with_values.bernoulli_(p, generator=generator)
    array = sample.bernoulli_probabilities(
        input._read(), input.dtype.numpy, input.device, generator
    )
    return _drawn_from("bernoulli", input, array)


@function(method=True)
def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> Any:
    """Indices of categories, drawn in proportion to the weights in each row of ``input``.

    Args:
        input: Weights of shape ``(categories,)`` or ``(rows, categories)``, not negative.
        num_samples: The number of indices for each row.
        replacement: Whether a category can be drawn twice.
        generator: See `rand`.

    Returns:
        An int64 tensor of shape ``(num_samples,)`` or ``(rows, num_samples)``.

    Raises:
        RuntimeError: Weights of a wrong shape or dtype, negative, not finite, or all zero in a row;
            no samples, or more samples than categories, requested. Compiled functions check only
            the shape and dtype of the weights.
    """
    count = _integer("multinomial", "num_samples", num_samples)
    array = sample.multinomial(input._read(), count, bool(replacement), input.device, generator)
    return wrap_new("multinomial", array)


@function
def poisson(input: Any, generator: Any = None) -> Any:
    """Poisson-distributed counts with the rates ``input``.

    Raises:
        RuntimeError: A rate is negative.
        NotImplementedError: The dtype is not a floating point one.
    """
    require_tensors("poisson", input=input)
    array = sample.poisson(input._read(), input.device, generator)
    return _drawn_from("poisson", input, array)


@function
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """Normal random numbers of the given means and deviations.

    Args:
        mean: A number, or a tensor with the mean of each element.
        std: A number, or a tensor with the standard deviation of each element, which broadcasts
            with ``mean``.
        size: The shape, if both are numbers.
        generator: See `rand`, like all further arguments, which require ``size``.

    Raises:
        TypeError: Both are numbers and there is no size, or there is a size and a tensor.
        RuntimeError: A deviation is negative.
    """
    tensors = [each for each in (mean, std) if isinstance(each, Tensor)]
    if bool(tensors) == (size is not None):
        raise TypeError("normal() takes tensors of means and deviations, or two numbers and a size")
    if not tensors:
        shape = shape_of("normal", (size,))
        options: Options = {
            "out": out, "dtype": dtype, "layout": layout, "device": device,
            "requires_grad": requires_grad,
        }  # fmt: skip
        return _new("normal", "normal", shape, generator, options, mean=mean, std=std)
    result = _normal_like(mean, std, tensors, generator)
    return result if out is None else out.copy_(result)


def _normal_like(mean: Any, std: Any, tensors: list[Tensor], generator: Any) -> Any:
    first = tensors[0]
    lowest = std.min().item() if _has_values(std) else 0.0 if isinstance(std, Tensor) else std
    if lowest < 0:
        raise RuntimeError(f"normal() needs std >= 0; got {lowest}")
    shape = (tensors[0].detach() + tensors[-1].detach()).shape
    options: Options = {"dtype": first.dtype, "device": first.device}
    standard = _new("normal", "normal", tuple(shape), generator, options)
    taking = next((each for each in tensors if each.requires_grad), first)
    result = (standard * _constant(std) + _constant(mean)).to(first.dtype)
    return _drawn_from("normal", taking, result._read())


def _has_values(value: Any) -> bool:
    return isinstance(value, Tensor) and value.numel() > 0 and not value.is_meta and (
        modes.trace is None
    )  # fmt: skip


def _constant(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


# For layers and their initialization


def permutations(n: int, count: int, device: Any = None, generator: Any = None) -> Tensor:
    """``count`` results of `randperm(n)`, as rows."""
    return wrap_new("permutations", sample.permutations(n, count, as_device(device), generator))


def leaky_slopes(input: Tensor, low: float, high: float) -> Any:
    """The factors of `nn.functional.rrelu`: 1 where ``input`` is positive, drawn elsewhere."""
    return wrap_new("leaky_slopes", sample.slopes(input._read(), low, high, input.device))


def keep_mask(
    shape: Any, p: float, dtype: Any = dtypes.bool, device: Any = None, generator: Any = None
) -> Any:
    """The mask of elements that dropout keeps: each is true (1) with probability ``1 - p``.

    On the CPU the mask equals that of PyTorch's dropout after the same seed.

    Args:
        shape: The shape of the mask: the input's, or with sizes of 1 to drop whole channels.
        p: The probability of dropping, a number in [0, 1].
        dtype: The dtype of the mask.
        device: The input's device.
        generator: See `rand`.
    """
    numbers, where = {"p": 1.0 - p}, as_device(device)
    array = sample.sample("bernoulli", numbers, tuple(shape), dtype.numpy, where, generator)
    return wrap_new("keep_mask", array)
