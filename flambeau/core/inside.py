"""The blocks that the running code is inside of, and the Cells that it may write to.

A transformation, a compiled function's trace and a `random.key_scope` each run code inside a
`Block`, and the blocks form a stack: `modes.inside` is the innermost. Whatever depends on them asks
the innermost block, which answers or asks the next one outwards. Outside of all blocks JAX's own
tracing may be running.
"""

from __future__ import annotations

from typing import Any

from jax.core import Tracer

from flambeau.core.cell import Cell, next_epoch
from flambeau.core.modes import modes

__all__: list[str] = []


class Block:
    """A ``with`` block that code is inside of. By itself it asks the next block outwards.

    Attributes:
        around: The next block outwards, or ``None``.
        transformation: The innermost `Inside` at or around the block, if any.
        capture: The innermost `flambeau.core.transform.Capture` at or around the block, if any.
        is_of_jax: Whether JAX's own functions transform the block: what no_grad means must be told
            to JAX, and tensors that hold tracers belong to the block.
        draws: The `flambeau.random.drawing.Place` where random numbers may be drawn; ``None`` means
            outside of JAX's transformations.
        randomness: ``"error"`` where random numbers cannot be drawn; `func.vmap`'s word for it.
    """

    around: Block | None = None
    transformation: Inside | None = None
    capture: Any = None
    is_of_jax = False
    draws: Any = None
    randomness = "different"

    def __enter__(self) -> Any:
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
        """Called on entry, when the block knows the blocks around it."""

    def owns(self, cell: Cell) -> bool:
        """Whether ``cell`` was made inside."""
        return False if self.around is None else self.around.owns(cell)

    def writer(self, cell: Cell, array: Any) -> Any:
        """See `writer`."""
        return _outermost(cell, array) if self.around is None else self.around.writer(cell, array)

    def lift(self, tensor: Any) -> Any:
        """``tensor``, or its stand-in if it is from outside and has derivatives here."""
        return tensor if self.capture is None else self.capture.lift(tensor)


class Inside(Block):
    """A block that is the inside of a transformation.

    Tensors from outside cannot be written in place there, since a transformation may run the block
    for many elements at once, or more than once.

    Attributes:
        epoch: Cells born from then on belong to the block; see `flambeau.core.cell.Cell`.
    """

    epoch = 0

    def _begin(self) -> None:
        self.epoch = next_epoch()
        self.transformation = self

    def owns(self, cell: Cell) -> bool:
        """See `Block.owns`."""
        return cell.born >= self.epoch or (self.is_of_jax and _is_of_jax(cell))

    def writer(self, cell: Cell, array: Any) -> Any:
        """See `writer`."""
        if not self.owns(cell):
            _refuse()


def _is_of_jax(cell: Cell) -> bool:
    return isinstance(cell.array, Tracer)


def _outermost(cell: Cell, array: Any) -> None:
    """Refuse to write a tracer of JAX's own to a Cell from outside of its trace."""
    if isinstance(array, Tracer) and not _is_of_jax(cell):
        _refuse()


def _refuse() -> None:
    raise RuntimeError(
        "a transformed function (grad, vmap, jvp, jit) cannot write in place to a tensor from "
        "outside it; take the tensor as an argument, or return the new value instead"
    )


def transformation() -> Inside | None:
    """The innermost transformation that is running, or ``None``."""
    inside = modes.inside
    return None if inside is None else inside.transformation


def capture() -> Any:
    """The `flambeau.core.transform.Capture` that is running, or ``None``."""
    inside = modes.inside
    return None if inside is None else inside.capture


def randomness() -> str:
    """The source of random numbers here; see `Block`."""
    inside = modes.inside
    return Block.randomness if inside is None else inside.randomness


def stops_gradients() -> bool:
    """Whether no_grad holds where JAX's own functions must be told."""
    inside = modes.inside
    return inside is not None and inside.is_of_jax and not modes.grad_enabled


def writer(cell: Cell, array: Any) -> Any:
    """The trace that takes a write of ``array`` to ``cell``, ``None`` for the Cell itself.

    Raises:
        RuntimeError: The Cell is from outside of a transformation that is running.
    """
    inside = modes.inside
    return _outermost(cell, array) if inside is None else inside.writer(cell, array)
