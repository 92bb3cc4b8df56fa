"""The inside of a transformation (vmap, jvp), and the tensors that it captures.

A transformed function may use tensors from outside that require grad, such as a module's
parameters. Inside, stand-ins take their place, which carry values only; the transformation as a
whole is then recorded on the tape as one operator that has the captured tensors among its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flambeau.core.support.modes import modes
from flambeau.core.tape.node import sequence_now
from flambeau.core.values.dual import Level, tangent_of
from flambeau.core.values.inside import Inside, capture
from flambeau.core.values.tensor import Tensor


class Capture(Inside):
    """The inside of a transformation, with the tensors that it takes from outside.

    Args:
        given: Values for the tensors to be captured, in the order in which an earlier run captured
            them; by default their own values.
        drawn: The random numbers that an earlier run drew, for this run to reuse.

    Attributes:
        tensors: The captured tensors.
        drawn: The random numbers drawn inside, in order.
        differentiated: Whether the inside may need gradients; ``None`` if they are
            wanted as soon as something is captured.
    """

    def __init__(self, given: Sequence[Any] | None = None, drawn: list[Any] | None = None) -> None:
        self.given = given
        self.drawn: list[Any] = [] if drawn is None else drawn
        self._repeated = iter(()) if drawn is None else iter(drawn)
        self._repeats = drawn is not None
        self.tensors: list[Tensor] = []
        self.differentiated: bool | None = None
        self.outer: Capture | None = None
        self._stand_ins: dict[int, Tensor] = {}
        self._levels: tuple[Any, Any] = (None, None)

    def __enter__(self) -> Capture:
        super().__enter__()
        self._levels = modes.level, modes.dual
        if modes.level is not None:
            # Tangents from outside do not count inside: the transformation as a whole is
            # differentiated.
            inside = Level()
            modes.level, modes.dual = inside, modes.dual and inside
        self.first: int = sequence_now()
        self.outer, self.capture = self.capture, self
        return self

    def __exit__(self, *exception: object) -> None:
        modes.level, modes.dual = self._levels
        super().__exit__(*exception)

    def require(self, find: Callable[[], Any]) -> None:
        """Check nothing: the values are JAX's own; see `Block.require`."""

    def lift(self, tensor: Any) -> Any:
        """The stand-in of ``tensor`` inside, if it is from outside and differentiated there."""
        if not (isinstance(tensor, Tensor) and self._has_derivatives(tensor)):
            return tensor
        if not self._is_outside(tensor):
            return tensor
        if self.outer is not None:
            tensor = self.outer.lift(tensor)
            if not self._has_derivatives(tensor):
                return tensor
        stand_in = self._stand_ins.get(id(tensor))
        if stand_in is None:
            stand_in = self._stand_ins[id(tensor)] = self._stand_in(tensor)
        return stand_in

    def _has_derivatives(self, tensor: Tensor) -> bool:
        """Whether ``tensor`` requires grad, or is a dual tensor outside."""
        if modes.grad_enabled and tensor.requires_grad:
            return True
        # Also while the level is suspended: a function that runs again captures the same tensors.
        inside, modes.level = modes.level, self._levels[0]
        try:
            return tangent_of(tensor) is not None
        finally:
            modes.level = inside

    def draw(self, make: Callable[[], Any], until: Capture | None) -> Any:
        """See `drawn`."""
        if self._repeats:
            array = next(self._repeated, None)
            if array is None:
                raise RuntimeError(
                    "a transformed function draws more random numbers when it runs again"
                )
            return array
        outer = self.outer
        array = make() if outer is None or outer is until else outer.draw(make, until)
        self.drawn.append(array)
        return array

    def _is_outside(self, tensor: Tensor) -> bool:
        if tensor._cell.born < self.epoch:
            return True
        # A saved tensor of a node from outside comes in a Cell of its own.
        node = tensor._grad_fn
        if node is None:
            return False
        if node.accumulates:
            return node.variable._cell.born < self.epoch
        return node.sequence < self.first

    def _stand_in(self, tensor: Tensor) -> Tensor:
        place = len(self.tensors)
        self.tensors.append(tensor)
        array = tensor._read()
        if self.given is not None:
            if place >= len(self.given) or self.given[place].shape != array.shape:
                raise RuntimeError(
                    "a transformed function uses other tensors from outside when it runs again; "
                    "pass them as arguments"
                )
            array = self.given[place]
        stand_in = Tensor._wrap(array)
        # Like the tensor itself, it cannot be written to inside.
        stand_in._cell.born = tensor._cell.born
        return stand_in


def lifted(inputs: Iterable[Any]) -> tuple[Any, ...]:
    """Operands as seen inside the running transformation."""
    inside = modes.inside
    return tuple(inputs) if inside is None else tuple([inside.lift(each) for each in inputs])


def hides_gradients() -> bool:
    """Whether JAX may differentiate the present computation without the tape."""
    running = capture() if modes.grad_enabled else None
    while running is not None:
        wanted = running.differentiated
        if wanted or (wanted is None and running.tensors):
            return True
        running = running.outer
    return False


def drawn(make: Callable[[], Any], until: Capture | None = None) -> Any:
    """Random numbers that are the same in each run of the running transformations.

    Args:
        make: Draws them.
        until: The transformation that contains their generator, if any: it draws the same numbers
            by itself.
    """
    running = capture()
    return make() if running is None or running is until else running.draw(make, until)
