"""Where random numbers may be drawn, and by which key.

Outside of JAX's transformations a draw takes its numbers from a generator and moves it. A function
that JAX transforms cannot do so: it is run once and its program many times, so the generator's
state would be a constant of the program, and each call would give the same numbers. There a draw
needs a key that comes in from outside; `key_scope` says which.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import random

from flambeau.core.cell import Cell, next_epoch
from flambeau.core.inside import Block, capture
from flambeau.core.jax_core import no_transformations, transformations
from flambeau.core.modes import modes
from flambeau.core.tensor import Tensor


class Place:
    """The place among JAX's transformations where random numbers may be drawn now.

    Args:
        scope: The `key_scope` whose key is taken there; ``None`` where generators serve.
        is_foreign: Whether it is inside a function that JAX transforms, where none can serve.

    Attributes:
        state: Which of JAX's transformations are running there.
        trace: The trace of `flambeau.compile` that is recording there, if any.
    """

    __slots__ = ("is_foreign", "scope", "state", "trace")

    def __init__(self, scope: key_scope | None, is_foreign: bool) -> None:
        self.scope: key_scope | None = scope
        self.is_foreign: bool = is_foreign
        self.state: Any = transformations()
        self.trace: Any = modes.trace


class Drawing(Block):
    """A block in which random numbers are drawn at a place, or in a way, of its own.

    What is made inside belongs to the function that JAX transforms there.

    Args:
        place: The place; by default that of the block around.
        randomness: See `flambeau.core.inside.Block`; by default that of the block around.
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
        """See `flambeau.core.inside.writer`."""
        return None if cell.born >= self.epoch else super().writer(cell, array)


class key_scope:
    """Draws inside this block are functions of a key of JAX's, and move no generator.

    The first draw takes ``fold_in(key, 0)``, the second ``fold_in(key, 1)``, and so on, so the same
    key gives the same numbers. This is how dropout, or anything else that draws, is used in
    functions that `jax.jit`, `jax.grad`, `jax.vmap` or `jax.lax.scan` transform: the key is an
    argument of the function, and the block stands inside it. A draw that names a ``generator=``
    takes that nevertheless.

    The block holds for the function that it is opened in, and for those that the transformations of
    `flambeau.func` run inside it, where `vmap`'s ``randomness`` says whether examples share a draw.
    It does not hold for functions that JAX, or `flambeau.compile`, transforms inside it: each of
    them needs a block, and a key, of its own.

    Args:
        key: What `jax.random.key` or `jax.random.split` gives, or the two words of such a key as an
            array or Tensor of uint32.

    Raises:
        TypeError: ``key`` is no key.
        ValueError: It is an array of several keys.

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
    Array([2., 2., 0., 0.], dtype=float32)
    """

    count: int

    def __init__(self, key: Any) -> None:
        self.key: Any = _checked(key._read() if isinstance(key, Tensor) else key)
        #: How many draws have been made.
        self.count = 0
        #: The transformation of `flambeau.func` that the block stands in, if any.
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
        """The two words that the next draw takes."""
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
    """Whether `flambeau.compile` is recording: the program takes in the generators' keys."""
    trace, place = modes.trace, _place()
    return trace is not None and (place is None or place.trace is not trace)


def _is_among_transformations(place: Place | None) -> bool:
    """Whether transformations of JAX have begun since ``place``."""
    return transformations() != (no_transformations() if place is None else place.state)


def _is_here() -> bool:
    """Whether draws are allowed where this is called."""
    return _is_in_program() or not _is_among_transformations(_place())


def current_scope(generator: Any) -> key_scope | None:
    """The `key_scope` that a draw takes its key from; ``None`` for a generator's draws.

    Args:
        generator: What the caller of the draw named.

    Raises:
        RuntimeError: The draw is inside a function that JAX transforms, and there is no key, or a
            generator is named.
    """
    if _is_in_program():
        return None
    place = _place()
    if _is_among_transformations(place):
        if jax.config.eager_constant_folding:  # type: ignore[attr-defined]
            # Inside jax.ensure_compile_time_eval() numbers are meant to be constants.
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
    """The step into a function that one of this library's own transformations runs by JAX's.

    Made before that step; inside, as a ``with`` block, draws are allowed if they were outside.
    """

    def __init__(self) -> None:
        super().__init__()
        self.leads_on: bool = _is_here() and not _is_in_program()

    def _begin(self) -> None:
        super()._begin()
        if self.leads_on:
            before = self.draws
            self.draws = Place(before and before.scope, before is not None and before.is_foreign)
