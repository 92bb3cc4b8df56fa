"""The contexts in which random numbers may be drawn, and their keys.

Outside of JAX's transformations a draw advances a generator. A function that JAX transforms cannot
do so: it is traced once and its program runs many times, so the generator's state would be a
constant, and each call would give the same numbers. There a draw needs a key that is an input of
the function; `key_scope` sets it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import random

from flambeau.core.support.jax_core import no_transformations, transformations
from flambeau.core.support.modes import modes
from flambeau.core.values.cell import Cell, next_epoch
from flambeau.core.values.inside import Block, capture
from flambeau.core.values.tensor import Tensor


class Place:
    """The level of JAX's transformations at which random numbers may be drawn.

    Args:
        scope: The `key_scope` that provides keys at this level; ``None`` for generators.
        is_foreign: Whether it is inside a function that JAX transforms, where generators cannot be
            used.

    Attributes:
        state: The state of JAX's transformations at this level.
        trace: The trace of `flambeau.compile` at this level, if any.
    """

    __slots__ = ("is_foreign", "scope", "state", "trace")

    def __init__(self, scope: key_scope | None, is_foreign: bool) -> None:
        self.scope: key_scope | None = scope
        self.is_foreign: bool = is_foreign
        self.state: Any = transformations()
        self.trace: Any = modes.trace


class Drawing(Block):
    """A context manager that sets the level or the randomness mode of draws.

    Tensors created inside belong to the function that JAX transforms at this level.

    Args:
        place: The level; by default that of the enclosing block.
        randomness: See `flambeau.core.values.inside.Block`; by default that of the enclosing block.
    """

    def __init__(self, place: Place | None = None, randomness: str = "") -> None:
        self.place = place
        self.way = randomness

    def _begin(self) -> None:
        self.epoch: int = next_epoch()
        self.draws = self.place or self.draws
        self.randomness = self.way or self.randomness

    def owns(self, cell: Cell) -> bool:
        """See `Block.owns`."""
        return cell.born >= self.epoch or super().owns(cell)

    def writer(self, cell: Cell, array: Any) -> Any:
        """See `flambeau.core.values.inside.writer`."""
        return None if cell.born >= self.epoch else super().writer(cell, array)


class key_scope:
    """A context manager under which draws are functions of a JAX key and advance no generator.

    The first draw takes ``fold_in(key, 0)``, the second ``fold_in(key, 1)``, and so on, so the same
    key gives the same numbers. Use it for dropout and other random operations in functions that
    `jax.jit`, `jax.grad`, `jax.vmap` or `jax.lax.scan` transform: pass the key as an argument, and
    enter the block inside the function. Draws with an explicit ``generator=`` still use that
    generator.

    The block applies to the function in which it is entered, and to functions that are transformed
    inside it by `flambeau.func`, where `vmap`'s ``randomness`` selects whether examples share a
    draw. It does not apply to functions that JAX or `flambeau.compile` transforms inside it: each
    of them needs its own block and key.

    Args:
        key: A key from `jax.random.key` or `jax.random.split`, or its two words as an array or
            Tensor of uint32.

    Raises:
        TypeError: ``key`` is not a key.
        ValueError: ``key`` is an array of several keys.

    >>> import flambeau, jax
    >>> from flambeau import nn
    >>> from flambeau.func import functional_call
    >>> dropout = nn.Dropout(0.5)
    >>> @jax.jit
    ... def noisy(key, x):
    ...     with flambeau.random.key_scope(key):
    ...         return functional_call(dropout, {}, x)
    >>> first, second = jax.random.split(jax.random.key(0))
    >>> ones = jax.numpy.ones(4, "float32")
    >>> noisy(first, ones)
    Array([2., 2., 2., 0.], dtype=float32)
    >>> noisy(second, ones)
    Array([0., 0., 2., 0.], dtype=float32)
    """

    count: int

    def __init__(self, key: Any) -> None:
        self.key: Any = _checked(key._read() if isinstance(key, Tensor) else key)
        #: The number of draws so far.
        self.count = 0
        #: The transformation of `flambeau.func` around the block, if any.
        self.capture: Any = None
        self._blocks: list[Drawing] = []

    def __enter__(self) -> key_scope:
        self.capture = capture()
        place = _place()
        is_foreign = not _is_here() or (place is not None and place.is_foreign)
        self._blocks.append(Drawing(Place(self, is_foreign), "different"))
        self._blocks[-1].__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._blocks.pop().__exit__()

    def take_key(self) -> Any:
        """The two words of the next draw's key."""
        self.count += 1
        return random.bits(random.fold_in(self.key, self.count - 1), (2,), jnp.uint32)


def _checked(key: Any) -> Any:
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        keys, shape = key, key.shape
    elif isinstance(key, jax.Array) and key.dtype == jnp.uint32 and key.ndim:
        keys, shape = key, key.shape[:-1]
        if not shape:
            keys = random.wrap_key_data(key)
    else:
        found = f"{key.dtype}{list(key.shape)}" if isinstance(key, jax.Array) else repr(key)
        raise TypeError(f"key_scope() takes a key such as jax.random.key(0) gives, got {found:.80}")
    if shape:
        raise ValueError(
            f"key_scope() takes one key, got keys of shape {list(shape)}; map over them, or take "
            "one of them"
        )
    return keys


def _place() -> Place | None:
    inside = modes.inside
    return None if inside is None else inside.draws


def _is_in_program() -> bool:
    """Whether `flambeau.compile` is tracing, with the generators' keys as inputs."""
    trace, place = modes.trace, _place()
    return trace is not None and (place is None or place.trace is not trace)


def _is_among_transformations(place: Place | None) -> bool:
    """Whether JAX has begun transformations since ``place``."""
    return transformations() != (no_transformations() if place is None else place.state)


def _is_here() -> bool:
    """Whether draws are allowed at the current level."""
    return _is_in_program() or not _is_among_transformations(_place())


def current_scope(generator: Any) -> key_scope | None:
    """The `key_scope` for a draw's key; ``None`` for a draw from a generator.

    Args:
        generator: The explicit generator of the draw, if any.

    Raises:
        RuntimeError: The draw is inside a function that JAX transforms, and there is no key, or a
            generator is named.
    """
    if _is_in_program():
        return None
    place = _place()
    if _is_among_transformations(place):
        if jax.config.eager_constant_folding:  # type: ignore[attr-defined]
            # Under jax.ensure_compile_time_eval() random numbers are meant to be constants.
            return None
        raise RuntimeError(
            "random numbers are drawn inside a function that JAX transforms (jit, grad, vmap, "
            "scan, ...), where a generator's state would be a constant and each call would give "
            "the same numbers. Pass a key to that function as an argument, and draw inside `with "
            "flambeau.random.key_scope(key):` in it"
        )
    if place is None or generator is None:
        return None if place is None else place.scope
    if place.is_foreign and modes.trace is None:
        raise RuntimeError(
            "a draw names a generator inside a function that JAX transforms, where its state would "
            "be a constant; leave generator= out, so that the key of key_scope() is taken"
        )
    return None


class Descent(Drawing):
    """The entry into a function that one of this library's transformations runs under JAX's.

    Create it before the transformation and enter it inside; draws are then allowed if they were
    allowed outside.
    """

    def __init__(self) -> None:
        super().__init__()
        self.leads_on: bool = _is_here() and not _is_in_program()

    def _begin(self) -> None:
        super()._begin()
        if self.leads_on:
            before = self.draws
            self.draws = Place(before and before.scope, before is not None and before.is_foreign)
