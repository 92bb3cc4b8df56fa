"""The transformations that the running code is inside of, and the Cells that it may write to.

A transformation runs its function inside an `Inside`, and those of nested transformations form a
stack. A compiled function's trace, `random.key_scope` and JAX's own tracing are such insides too.
`writer` is the one place that asks all of them who takes a write.
"""

from __future__ import annotations

from typing import Any

from jax.core import Tracer

from flambeau.core.cell import Cell, next_epoch
from flambeau.core.modes import modes

__all__: list[str] = []


class Inside:
    """A ``with`` block that is the inside of a transformation.

    Tensors from outside cannot be written in place there, since a transformation may run the block
    for many elements at once, or more than once.

    Attributes:
        around: The next inside outwards, or ``None``.
        epoch: Cells born from then on belong to the block; see `flambeau.core.cell.Cell`.
        capture: The innermost `flambeau.core.transform.Capture` at or around the block, if any.
        is_of_jax: Whether JAX's own functions transform the block: what no_grad means must be told
            to JAX, and tensors that hold tracers belong to the block.
    """

    around: Inside | None = None
    epoch = 0
    capture: Any = None
    is_of_jax = False

    def __enter__(self) -> Any:
        around = self.around = modes.inside
        self.capture = None if around is None else around.capture
        self.is_of_jax = around is not None and around.is_of_jax
        self.epoch = next_epoch()
        modes.inside = self
        return self

    def __exit__(self, *exception: object) -> None:
        modes.inside = self.around

    def owns(self, cell: Cell) -> bool:
        """Whether ``cell`` was made inside."""
        return cell.born >= self.epoch or (self.is_of_jax and isinstance(cell.array, Tracer))


def capture() -> Any:
    """The `flambeau.core.transform.Capture` that is running, or ``None``."""
    inside = modes.inside
    return None if inside is None else inside.capture


def stops_gradients() -> bool:
    """Whether no_grad holds where JAX's own functions must be told."""
    inside = modes.inside
    return inside is not None and inside.is_of_jax and not modes.grad_enabled


def writer(cell: Cell, array: Any) -> Any:
    """The trace that takes a write of ``array`` to ``cell``, ``None`` for the Cell itself.

    Raises:
        RuntimeError: The Cell is from outside of a transformation that is running.
    """
    inside, trace = modes.inside, modes.trace
    if inside is not None:
        is_own = inside.owns(cell)
    elif trace is not None:
        return trace
    else:
        is_own = not isinstance(array, Tracer) or isinstance(cell.array, Tracer)
        # Inside a key_scope, what was made there belongs to the function that JAX transforms.
        is_own = is_own or (modes.place is not None and cell.born >= modes.place.epoch)
    if not is_own:
        raise RuntimeError(
            "a transformed function (grad, vmap, jvp, jit) cannot write in place to a tensor from "
            "outside it; take the tensor as an argument, or return the new value instead"
        )
    return None
