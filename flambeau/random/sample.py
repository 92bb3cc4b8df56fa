"""Random arrays on any device.

On the CPU the Mersenne Twister draws PyTorch's numbers; in compiled programs and on other devices
JAX's generator is used; on the meta device draws are deferred. The arguments are checked on all
devices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeGuard

import jax
import numpy as np

from flambeau.core.devices import exhaustion
from flambeau.core.devices.device import device
from flambeau.core.fusion.seam import fusible
from flambeau.core.support.generations import remembered
from flambeau.core.support.modes import modes
from flambeau.core.tape.transform import drawn
from flambeau.core.values.inside import capture, randomness
from flambeau.core.values.upload import upload
from flambeau.random import draws, keyed, rejection
from flambeau.random.drawing import current_scope, key_scope
from flambeau.random.draws.choice import require_countable, require_weights
from flambeau.random.generator import Generator, generator_for, next_key
from flambeau.random.mersenne import MersenneTwister
from flambeau.random.replay import planned_draw

# A draw of no elements checks its arguments and does not change the generator.
_SCRATCH = MersenneTwister()


def sample(
    kind: str,
    parameters: dict[str, Any],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    where: device,
    generator: Any = None,
    later: bool = False,
) -> Any:
    """An array of independent draws.

    Args:
        kind: The name of a draw with a shape and a dtype: one of `flambeau.random.draws`, or
            ``"truncated_normal"``.
        parameters: The keyword arguments of the draw.
        shape: The shape of the result.
        dtype: The NumPy dtype of the result.
        where: The device.
        generator: The generator; by default the device's default generator.
        later: Whether numbers drawn on the host may be returned as a function that transfers them.

    Raises:
        RuntimeError: A parameter is out of its range, or the generator is for another device.
        NotImplementedError: The draw is not defined for this dtype.
    """
    draw: Callable[..., Any] = getattr(rejection if kind == "truncated_normal" else draws, kind)
    source = _source(where, generator)
    arguments = {"shape": shape, "dtype": dtype, **parameters}
    if _uses_twister(source):
        return _by_twister(source, where, draw, arguments, later)
    draw(_SCRATCH, **{**arguments, "shape": (0,)})
    if source is None:
        again = functools.partial(_again, sample, kind, parameters, shape, dtype)
        skip = None if kind == "truncated_normal" else functools.partial(_skip, kind, **arguments)
        return planned_draw(shape, dtype, generator, again, skip)
    if kind == "integers":  # its bounds determine the bits of a draw
        return _by_key(source, keyed.integers, arguments)
    return _by_key(source, getattr(keyed, kind), {"shape": shape, "dtype": dtype}, **parameters)


def permutation(n: int, dtype: np.dtype[Any], where: device, generator: Any = None) -> Any:
    """0 to n - 1 in random order; raises the errors of `draws.permutation`."""
    source = _source(where, generator)
    if _uses_twister(source):
        return _by_twister(source, where, draws.permutation, {"n": n, "dtype": dtype})
    require_countable(n, dtype)
    if source is None:
        again = functools.partial(_again, permutation, n, dtype)
        skip = functools.partial(_skip, "permutation", n=n, dtype=dtype)
        return planned_draw((n,), dtype, generator, again, skip)
    return _by_key(source, keyed.permutation, {"n": n, "dtype": dtype})


def permutations(n: int, count: int, where: device, generator: Any = None) -> Any:
    """``count`` permutations of 0 to n - 1 as rows, equal to ``count`` draws of `permutation`."""
    source = _source(where, generator)
    if source is None:
        again = functools.partial(_again, permutations, n, count)
        return planned_draw((count, n), np.dtype(np.int64), generator, again)
    if _uses_twister(source):
        return _by_twister(source, where, _rows_of_permutations, {"n": n, "count": count})
    return _by_key(source, keyed.permutations, {"n": n, "count": count})


def _rows_of_permutations(twister: MersenneTwister, n: int, count: int) -> np.ndarray:
    rows = np.empty((count, n), np.int64)
    for row in rows:
        row[:] = draws.permutation(twister, n)
    return rows


def multinomial(
    weights: Any, num_samples: int, replacement: bool, where: device, generator: Any = None
) -> Any:
    """Indices of categories in proportion to weights; raises the errors of `draws.multinomial`."""
    source = _source(where, generator)
    static = {"num_samples": num_samples, "replacement": replacement}
    if _uses_twister(source):
        arguments = {"weights": np.asarray(weights), **static}
        return _by_twister(source, where, draws.multinomial, arguments)
    # Without reading the weights, only their shape and dtype can be checked.
    stand_in = np.broadcast_to(np.ones((), weights.dtype), weights.shape)
    require_weights(stand_in, num_samples, replacement)
    if source is None:
        again = functools.partial(_multinomial_again, num_samples, replacement)
        shape = (*weights.shape[:-1], num_samples)
        return planned_draw(shape, np.dtype(np.int64), generator, again, inputs=(weights,))
    return _by_key(source, keyed.multinomial, static, weights=weights)


def bernoulli_probabilities(
    probabilities: Any, dtype: np.dtype[Any], where: device, generator: Any = None
) -> Any:
    """1 with each element's own probability, else 0."""
    draw = draws.bernoulli_probabilities
    return _per_element(draw, where, generator, {"dtype": dtype}, probabilities=probabilities)


def poisson(rates: Any, where: device, generator: Any = None) -> Any:
    """Counts with each element's own rate."""
    return _per_element(rejection.poisson, where, generator, {}, rates=rates)


def slopes(elements: Any, low: float, high: float, where: device, generator: Any = None) -> Any:
    """Uniform numbers where elements are not positive, else 1."""
    return _per_element(
        draws.slopes, where, generator, {"low": low, "high": high}, elements=elements
    )


def _per_element(
    draw: Callable[..., Any], where: device, generator: Any, static: dict[str, Any], **elements: Any
) -> Any:
    """A draw whose parameter is an array of the result's shape."""
    source = _source(where, generator)
    if _uses_twister(source):
        host = {name: np.asarray(array) for name, array in elements.items()}
        return _by_twister(source, where, draw, {**host, **static})
    (array,) = elements.values()
    nothing = dict.fromkeys(elements, np.empty(0, array.dtype))
    draw(_SCRATCH, **nothing, **static)
    if source is None:
        again = functools.partial(_per_element_again, draw, static, tuple(elements))
        dtype = static.get("dtype", array.dtype)
        return planned_draw(tuple(array.shape), dtype, generator, again, inputs=(array,))
    return _by_key(source, getattr(keyed, draw.__name__), static, **elements)


# Deferred draws of code on the meta device.


def _again(draw: Callable[..., Any], *arguments_and_call: Any) -> Any:
    *arguments, where, generator = arguments_and_call
    return draw(*arguments, where, generator)


def _multinomial_again(
    num_samples: int, replacement: bool, where: device, generator: Generator, weights: Any
) -> Any:
    return multinomial(weights, num_samples, replacement, where, generator)


def _per_element_again(
    draw: Callable[..., Any],
    static: dict[str, Any],
    names: tuple[str, ...],
    where: device,
    generator: Generator,
    array: Any,
) -> Any:
    return _per_element(draw, where, generator, static, **dict.fromkeys(names, array))


def _skip(kind: str, generator: Generator, **arguments: Any) -> None:
    if _uses_twister(generator):
        draws.skip(generator.twister, kind, **arguments)
    else:
        generator.take_key()


_Source = Generator | key_scope


def _source(where: device, generator: Any) -> _Source | None:
    """The generator to draw from; ``None`` on the meta device."""
    if randomness() == "error":
        raise RuntimeError(
            "random numbers cannot be drawn inside vmap() with randomness='error'; say "
            "randomness='same' or 'different', or draw them outside"
        )
    if where.type == "meta":
        return None
    scope = current_scope(generator)
    if scope is not None:
        return scope
    if modes.trace is not None and where.type == "cpu":
        # A compiled program runs on one device, regardless of the default device.
        where = modes.trace.place()
    return generator_for(where, generator)


def _uses_twister(source: _Source | None) -> TypeGuard[Generator]:
    return isinstance(source, Generator) and source.is_for_cpu and modes.trace is None


def _by_twister(
    source: Generator,
    where: device,
    draw: Callable[..., Any],
    arguments: dict[str, Any],
    later: bool = False,
) -> Any:
    if capture() is not None:
        return drawn(functools.partial(_from_twister, source, where, draw, arguments))
    return _from_twister(source, where, draw, arguments, later)


def _from_twister(
    source: Generator,
    where: device,
    draw: Callable[..., Any],
    arguments: dict[str, Any],
    later: bool = False,
) -> Any:
    with source.lock:
        source.twister_moves += 1
        try:
            numbers = draw(source.twister, **arguments)
        except MemoryError as error:
            raise exhaustion.named(error) from None
    if later:
        return functools.partial(upload, numbers, where.jax_device)
    return upload(numbers, where.jax_device)


def _by_key(
    source: _Source, draw: Callable[..., Any], static: dict[str, Any], **operands: Any
) -> Any:
    if isinstance(source, key_scope):
        return drawn(functools.partial(_by_scope, source, draw, static, operands), source.capture)
    return drawn(functools.partial(_by_generator, source, draw, static, operands))


def _by_scope(
    scope: key_scope, draw: Callable[..., Any], static: dict[str, Any], operands: dict[str, Any]
) -> Any:
    return _compiled(draw, tuple(static.items()))(scope.take_key(), operands)[0]


def _by_generator(
    source: Generator, draw: Callable[..., Any], static: dict[str, Any], operands: dict[str, Any]
) -> Any:
    if modes.trace is not None:
        return draw(source.take_key(), **static, **operands)
    compiled = _compiled(draw, tuple(static.items()))
    with source.lock:
        array, following = compiled(source.key, operands)
        source.put_key(following)
    return array


@remembered
def _compiled(draw: Callable[..., Any], static: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
    def draw_and_advance(key: jax.Array, operands: dict[str, Any]) -> tuple[jax.Array, jax.Array]:
        return draw(key, **dict(static), **operands), next_key(key)

    return fusible(draw_and_advance, draw.__name__, at_once=True)
