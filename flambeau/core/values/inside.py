"""The stack of blocks around the running code, and the Cells that it may write to.

A transformation, a compiled function's trace and a `random.key_scope` each run code inside a
`Block`, and the blocks form a stack: `modes.inside` is the innermost. Code that depends on them
asks the innermost block, which answers or asks the enclosing one. Outside of all blocks JAX's own
tracing may be running.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import jax
import jax.numpy as jnp
from jax.core import Tracer

from flambeau.core.support.jax_core import transformations
from flambeau.core.support.modes import modes
from flambeau.core.types import Capture, Contents, Leaf, Trace
from flambeau.core.values.cell import Cell, next_epoch

__all__: list[str] = []


class Block:
    """A ``with`` block around code. By default it passes every question to the enclosing block.

    Attributes:
        around: The enclosing block, or ``None``.
        transformation: The innermost `Inside` at or around the block, if any.
        capture: The innermost `core.tape.transform.Capture` at or around the block, if any.
        is_of_jax: Whether JAX's own functions transform the block: no_grad must then stop gradients
            in JAX, and tensors that hold tracers belong to the block.
        draws: The `flambeau.random.drawing.Place` where random numbers may be drawn; ``None`` means
            outside of JAX's transformations.
        randomness: ``"error"`` where random numbers cannot be drawn; `func.vmap`'s word for it.
    """

    around: Block | None = None
    transformation: Inside | None = None
    capture: Capture | None = None
    is_of_jax: bool = False
    draws: Any = None
    randomness: str = "different"

    def __enter__(self) -> Self:
        self.around = modes.inside
        around = Block if self.around is None else self.around
        self.transformation, self.capture = around.transformation, around.capture
        self.is_of_jax = around.is_of_jax
        self.draws, self.randomness = around.draws, around.randomness
        self._begin()
        modes.inside = self
        return self

    def __exit__(self, *exception: object) -> None:
        modes.inside = self.around

    def _begin(self) -> None:
        """Called on entry, when the enclosing blocks are known."""

    def owns(self, cell: Cell) -> bool:
        """Whether ``cell`` was made inside the block."""
        return False if self.around is None else self.around.owns(cell)

    def writer(self, cell: Cell, array: Contents) -> Block | None:
        """See `writer`."""
        return _outermost(cell, array) if self.around is None else self.around.writer(cell, array)

    def require(self, find: Callable[[], jax.Array]) -> None:
        """Make the program that is being traced check a condition, if it can.

        Args:
            find: Computes it, as an array of a bool.
        """
        if self.around is not None:
            self.around.require(find)

    def lift(self, tensor: Leaf) -> Leaf:
        """``tensor``, or its stand-in if it comes from outside and is differentiated here."""
        return tensor if self.capture is None else self.capture.lift(tensor)


class Inside(Block):
    """The block inside a transformation.

    Tensors from outside cannot be written in place there, since a transformation may run the block
    for many elements at once, or more than once.

    Attributes:
        epoch: Cells born in this epoch or later belong to the block; see `core.values.cell.Cell`.
    """

    epoch: int = 0

    def _begin(self) -> None:
        self.epoch = next_epoch()
        self.transformation = self

    def owns(self, cell: Cell) -> bool:
        """See `Block.owns`."""
        return cell.born >= self.epoch or (self.is_of_jax and _is_of_jax(cell))

    def writer(self, cell: Cell, array: Contents) -> Block | None:
        """See `writer`."""
        if not self.owns(cell):
            _refuse()


class Conditions:
    """Conditions that a program checks when it runs."""

    def __init__(self) -> None:
        self._found: list[tuple[object, jax.Array]] = []

    def add(self, find: Callable[[], jax.Array]) -> None:
        """Add a condition; see `Block.require`."""
        self._found.append((transformations(), find()))

    def __bool__(self) -> bool:
        return bool(self._found)

    def hold(self) -> jax.Array:
        """Whether all hold; those inside JAX's own functions, which have ended, do not count."""
        now = transformations()
        holds = jnp.array(True)
        for around, each in self._found:
            if around == now:
                holds &= each
        return holds


def _is_of_jax(cell: Cell) -> bool:
    return isinstance(cell.array, Tracer)


def _outermost(cell: Cell, array: Contents) -> None:
    """Refuse to write a tracer of JAX's own to a Cell from outside its trace."""
    if isinstance(array, Tracer) and not _is_of_jax(cell):
        _refuse()


def _refuse() -> None:
    raise RuntimeError(
        "a transformed function (grad, vmap, jvp, jit) cannot write in place to a tensor from "
        "outside it; take the tensor as an argument, or return the new value instead"
    )


def transformation() -> Inside | None:
    """The innermost running transformation, or ``None``."""
    inside = modes.inside
    return None if inside is None else inside.transformation


def capture() -> Capture | None:
    """The running `flambeau.core.tape.transform.Capture`, or ``None``."""
    inside = modes.inside
    return None if inside is None else inside.capture


def randomness() -> str:
    """The source of random numbers here; see `Block`."""
    inside = modes.inside
    return Block.randomness if inside is None else inside.randomness


def stops_gradients() -> bool:
    """Whether no_grad is on and must stop gradients in JAX's own functions."""
    inside = modes.inside
    return inside is not None and inside.is_of_jax and not modes.grad_enabled


def writer(cell: Cell, array: Contents) -> Trace | None:
    """The trace that records a write of ``array`` to ``cell``; ``None`` if the Cell is written.

    Raises:
        RuntimeError: The Cell comes from outside a running transformation.
    """
    inside = modes.inside
    return _outermost(cell, array) if inside is None else inside.writer(cell, array)


def require(find: Callable[[], jax.Array]) -> None:
    """Make the program that is being traced check a condition; see `Block.require`."""
    if modes.inside is not None:
        modes.inside.require(find)
