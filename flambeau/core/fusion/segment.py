"""Calls that wait: those since the last boundary that have matched a known sequence."""

from __future__ import annotations

import threading
from collections.abc import Callable
from sys import getrefcount
from typing import TYPE_CHECKING, Any, TypeVar

import jax

from flambeau.core.devices import exhaustion
from flambeau.core.programs.deferred import Deferred
from flambeau.core.programs.finishing import apart
from flambeau.core.programs.jit_core import is_outside
from flambeau.core.types import Leaf

_Result = TypeVar("_Result")

if TYPE_CHECKING:
    from flambeau.core.fusion.sequence import Point, Program


def _count_when_alone() -> int:
    """The count of `getrefcount`, asked as in `Segment.kept`, without other references."""
    return max(map(getrefcount, [object()]))


_ALONE = _count_when_alone()


class Segment:
    """Calls that wait to be computed together.

    Its lists may be longer than ``point`` says where an interrupt has come between; whatever is
    beyond has never happened.

    Attributes:
        point: How far the calls have come in the sequence.
        outside: The arguments from outside, in the order of the sequence.
        waiting: The results.
        holders: Weak references to the objects that hold results as ``array``.
        is_done: Whether the results that are still referred to have their values.
    """

    __slots__ = (
        "_beside", "_end", "_owner", "holders", "is_done", "outside", "point", "waiting",
    )  # fmt: skip

    def __init__(self, root: Point, end: Callable[[Segment], None]) -> None:
        self.point: Point = root
        self.outside: list[Leaf] = []
        self.waiting: list[Deferred] = []
        self.holders: list[Any] = []
        self.is_done: bool = False
        # Ends the sequence of the thread that makes the calls.
        self._end = end
        self._owner = threading.get_ident()
        # Results that were asked for while the calls go on waiting, by their numbers.
        self._beside: dict[int, jax.Array] = {}

    def compute(self, wanted: Deferred) -> None:
        """Give ``wanted`` its value."""
        if threading.get_ident() == self._owner:
            self._end(self)
            # Not done yet if an exception has ended the sequence before.
            self.finish()
        else:
            _at_once(self._compute_beside, wanted)

    def alone(self, wanted: Deferred) -> jax.Array | None:
        """The value of ``wanted``, if few calls lead to it; otherwise ``None``."""
        return None if self.point.is_far(wanted.index) else _at_once(self._seen, wanted)

    def kept(self) -> set[int]:
        """The results that are still referred to."""
        waiting, point = self.waiting, self.point
        del waiting[point.count :], self.outside[point.outside :]
        counts = [*map(getrefcount, waiting)]
        return {i for i, count in enumerate(counts) if count > _ALONE}

    def finish(self, compiles: bool = False) -> bool:
        """Compute the results that are still referred to; whether one program has done it.

        Args:
            compiles: Compile a program if the sequence has ended here often enough without one.
        """
        if self.is_done:
            return False
        kept = self.kept()
        program = self.program_for(kept, compiles)
        try:
            return _at_once(self._finish, kept, program)
        except jax.errors.JaxRuntimeError as error:
            raise exhaustion.named(error) from error.__cause__

    def program_for(self, kept: set[int], compiles: bool) -> Program | None:
        """The program that computes the results ``kept``, if there is one; see `finish`."""
        point = self.point
        program = point.program_for(kept)
        if program is None:
            point.misses += 1
            if compiles and point.is_missed():
                point.prepare(kept, self.outside, beside=False)
                return point.program_for(kept)
        return program

    def _finish(self, kept: set[int], program: Program | None) -> bool:
        if program is None:
            values = one_by_one(self.point, self.outside, kept)
        else:
            results = program.function(*program.arguments(self.outside))
            values = {i: results[program.places[i]] for i in kept}
        self.fill(values)
        self.forget()
        return program is not None

    def fill(self, values: dict[int, jax.Array]) -> None:
        """Give results their values, by their numbers; may be called again."""
        for i, value in values.items():
            each = self.waiting[i]
            each.value = self._beside.get(i, value)
            each.segment = None
        for reference in self.holders:
            holder = reference()
            array = getattr(holder, "array", None)
            if type(array) is Deferred and array.segment is None:
                holder.array = array.value
        self.is_done = True

    def forget(self) -> None:
        """Refer to no array any more, once `fill` is done."""
        self.waiting, self.outside, self.holders = [], [], []

    def _compute_beside(self, wanted: Deferred) -> None:
        """Compute one result for another thread; the calls go on waiting."""
        wanted.value = self._seen(wanted)
        wanted.segment = None

    def _seen(self, wanted: Deferred) -> jax.Array:
        if wanted.segment is None:
            # Another thread has finished the segment.
            return wanted.value
        index = wanted.index
        if index not in self._beside:
            point = self.point
            outside = self.outside[: point.outside]
            self._beside[index] = one_by_one(point, outside, {index})[index]
        return self._beside[index]


def _at_once(compute: Callable[..., _Result], *arguments: object) -> _Result:
    """Call ``compute``, even inside of a function that JAX traces, which it must not be part of."""
    if is_outside():
        return apart(compute, *arguments)
    with jax.ensure_compile_time_eval():
        return apart(compute, *arguments)


def one_by_one(point: Point, outside: list[Leaf], kept: set[int]) -> dict[int, jax.Array]:
    """The results ``kept`` of the calls up to ``point``, each call by its own program.

    Other results are dropped after their last use.
    """
    path = point.leading_to(kept)
    last: dict[int, int] = {}
    for place, each in enumerate(path):
        last.update(dict.fromkeys([i for i in each.step.sources if i >= 0], place))
    dropped: dict[int, list[int]] = {}
    for index, place in last.items():
        if index not in kept:
            dropped.setdefault(place, []).append(index)
    values: dict[int, jax.Array] = {}
    for place, each in enumerate(path):
        step = each.step
        given = [values[i] if i >= 0 else outside[~i] for i in step.sources]
        results = step.call.fast(*(given if step.tree is None else step.tree.unflatten(given)))
        found = zip(each.own(), jax.tree.leaves(results), strict=True)
        values.update({i: array for i, array in found if i in kept or i in last})
        del given, results, found
        for index in dropped.get(place, ()):
            del values[index]
    return values
