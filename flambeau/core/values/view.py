"""Views: how a tensor reads and writes part of another tensor's Cell.

A view is a chain of steps from the base array. Each step can be read (array in, part out) and
written (array and new part in, new array out), so a chain of any length reads and writes through.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from flambeau.core.devices import exhaustion
from flambeau.core.fusion.seam import fusible
from flambeau.core.kernels.casting import cast
from flambeau.core.kernels.kinds import Operand
from flambeau.core.support.generations import remembered
from flambeau.core.types import Contents, Key, Shape, Tensor
from flambeau.core.values import plan
from flambeau.core.values.cell import abstract
from flambeau.core.values.steps import Starts, Step
from flambeau.core.values.tracers import no_longer_known


def result_of(
    steps: tuple[Step, ...], shape: tuple[int, ...], dtype: np.dtype
) -> tuple[Shape, np.dtype]:
    """Shape and NumPy dtype of the array that reading ``steps`` gives."""
    for step in steps:
        shape, dtype = step.result(shape, dtype)
    return shape, dtype


def read_through(steps: tuple[Step, ...], array: jax.Array, starts: Starts) -> jax.Array:
    """Follow ``steps`` from the base array to the viewed part."""
    used = 0
    for step in steps:
        array = step.read(array, None if starts is None else starts[used : used + step.starts])
        used += step.starts
    return array


def write_through(
    steps: tuple[Step, ...], array: jax.Array, starts: Starts, part: jax.Array
) -> jax.Array:
    """The base array with the part selected by ``steps`` replaced by ``part``."""
    if not steps:
        return part
    first, rest = steps[0], steps[1:]
    own = None if starts is None else starts[: first.starts]
    others = None if starts is None else starts[first.starts :]
    inner = write_through(rest, first.read(array, own), others, part) if rest else part
    return first.write(array, own, inner)


@remembered
def reader(steps: tuple[Step, ...]) -> Callable[..., jax.Array]:
    """The compiled ``(array, starts) -> part`` of a chain."""
    return fusible(functools.partial(read_through, steps), "view")


@remembered
def writer(steps: tuple[Step, ...]) -> Callable[..., jax.Array]:
    """The compiled ``(array, starts, part) -> array`` of a chain."""
    return fusible(functools.partial(write_fitted, steps), "write")


def write_fitted(
    steps: tuple[Step, ...], array: jax.Array, starts: Starts, part: Operand
) -> jax.Array:
    """`write_through` of a value that `fitted` converts to the part's shape and dtype."""
    part = fitted(part, *result_of(steps, array.shape, array.dtype))
    return write_through(steps, array, starts, part)


def fitted(value: Operand, shape: tuple[int, ...], numpy_dtype: np.dtype) -> jax.Array:
    """A number or array as ``numpy_dtype``, broadcast, without extra leading 1s."""
    value = cast(jnp.asarray(value), numpy_dtype)
    if value.ndim > len(shape):
        value = value.reshape(value.shape[value.ndim - len(shape) :])
    return jnp.broadcast_to(value, shape)


class BanReason(enum.Enum):
    """The origin of a view to which recorded writes are forbidden."""

    NO_GRAD = enum.auto()
    #: One of several views that one operator returned.
    SEVERAL = enum.auto()
    #: A custom `Function` returned its input, or a view of its input.
    FUNCTION = enum.auto()


class Ban(NamedTuple):
    """Why recorded writes to a view are forbidden.

    Attributes:
        reason: The origin of the view.
        operator: The operator or function that returned it, if the reason is one.
    """

    reason: BanReason
    operator: str = ""


#: For views made in no_grad mode.
MADE_IN_NO_GRAD = Ban(BanReason.NO_GRAD)


class View:
    """The relation of a tensor to its base's Cell.

    Attributes:
        steps: The chain from the Cell's array.
        names: The operator behind each step, which names its node on the tape.
        starts: The start positions that the steps take, in order, or ``None`` without any; a NumPy
            array, or a traced one where a position is itself computed.
        shape: The shape of the viewed part.
        numpy_dtype: The dtype of the viewed part.
        base: The tensor whose history the view follows; ``None`` for `detach` and ``.data``.
        origin: The number of steps from the Cell's array to ``base``: a view of a detached view
            begins there.
        ban: Why PyTorch forbids recorded writes to the view; ``None`` if they are allowed.
        of_itself: Whether `base` is the tensor's former self, before its shape was changed in
            place, so that it is not a view to the user.
        rebased: How often the base's history had been moved when the view's own was computed.
    """

    __slots__ = (
        "__weakref__", "array", "ban", "base", "names", "numpy_dtype", "of_itself", "origin",
        "rebased", "shape", "starts", "steps", "version",
    )  # fmt: skip

    version: int

    def __init__(
        self,
        steps: tuple[Step, ...],
        names: tuple[str, ...],
        starts: Starts,
        shape: tuple[int, ...],
        numpy_dtype: np.dtype,
        base: Tensor | None,
        origin: int = 0,
        ban: Ban | None = None,
    ) -> None:
        self.steps: tuple[Step, ...] = steps
        self.names: tuple[str, ...] = names
        self.starts: Starts = starts
        self.shape: tuple[int, ...] = shape
        self.numpy_dtype: np.dtype = numpy_dtype
        self.base: Any = base
        self.origin: int = origin
        self.ban: Ban | None = ban
        self.of_itself: bool = False
        self.rebased = 0 if base is None else base._rebased
        # The part last read, and the Cell's version at that time.
        self.array: Contents = None
        self.version = -1

    def without_base(self) -> View:
        """The same elements without a base to follow, as for `detach`."""
        return View(self.steps, self.names, self.starts, self.shape, self.numpy_dtype, None)

    def seen_through(self, before: View | None) -> View:
        """This view of a whole tensor, composed with the view ``before`` of that tensor."""
        if before is None:
            return self.without_base()
        known = [each.starts for each in (before, self) if each.starts is not None]
        starts = np.concatenate(known) if known else None
        steps, names = before.steps + self.steps, before.names + self.names
        return View(steps, names, starts, self.shape, self.numpy_dtype, None)

    def from_base(self) -> tuple[tuple[Step, ...], tuple[str, ...], Starts]:
        """The steps from `base` to here, their names and their start positions."""
        if not self.origin:
            return self.steps, self.names, self.starts
        skipped = sum(step.starts for step in self.steps[: self.origin])
        starts = None if self.starts is None else self.starts[skipped:]
        return self.steps[self.origin :], self.names[self.origin :], starts

    def history_base(self, *, reading: bool = False) -> Any:
        """`base`, as it was before `unsqueeze_` or the like made it a view of its former self.

        Args:
            reading: Whether to return ``None`` if there is no history to follow.

        Raises:
            RuntimeError: The former value required no gradient and is no longer known.
        """
        base = self.base
        while base._view is not None and len(base._view.steps) > self.origin:
            reshaped, base = base, base._view.base
            if base is None:
                if reading and reshaped._grad_fn is None:
                    return None
                raise RuntimeError(
                    "the base of this view was given another shape in place after the view was "
                    "made; make the view again"
                )
        return base

    def read(self, array: Contents) -> Contents:
        """The viewed part of the base ``array``."""
        if isinstance(array, jax.ShapeDtypeStruct):
            part = jax.ShapeDtypeStruct(self.shape, self.numpy_dtype)
            return plan.applied(reader(self.steps), (array, self.starts), part)
        try:
            return reader(self.steps)(array, self.starts)
        except jax.errors.UnexpectedTracerError:
            raise no_longer_known() from None
        except exhaustion.FAILURES as error:
            raise exhaustion.named(error) from error.__cause__

    def write(self, array: Contents, part: Operand) -> Contents:
        """The base ``array`` with the viewed part replaced by a broadcast number or array."""
        if isinstance(array, jax.ShapeDtypeStruct):
            whole = abstract(array.shape, array.dtype)
            return plan.applied(writer(self.steps), (array, self.starts, part), whole)
        return writer(self.steps)(array, self.starts, part)

    def remember(self, part: Contents, version: int) -> None:
        """Cache the written array for the next read, if it is the whole part already."""
        if getattr(part, "shape", None) == self.shape and part.dtype == self.numpy_dtype:
            self.array, self.version = part, version


def view_key(view: View | None) -> Key | None:
    """A key that distinguishes views that need different programs."""
    if view is None:
        return None
    starts = view.starts
    known = starts.tobytes() if isinstance(starts, np.ndarray) else id(starts)
    return (
        view.steps, known, view.shape, view.numpy_dtype, id(view.base), view.origin, view.ban,
    )  # fmt: skip
