"""The last call of a sequence, which overwrites arrays: the step of an optimizer."""

from __future__ import annotations

from collections.abc import Callable

from flambeau.core.fusion.segment import Segment
from flambeau.core.fusion.sequence import Point, Program
from flambeau.core.types import Args, Function, Leaf, Tree


class OtherStepError(Exception):
    """The call is not the one that the sequence ends with."""


class Closing:
    """A call that ends the calls that wait, and is computed together with them.

    Args:
        segment: The calls that wait.
        point: The end of the sequence.
        program: The program up to there.
        kept: The results of waiting calls that are still referred to.
        match: Gives the new arguments from outside for the arguments of a call; ``None`` if it is
            another one than at ``point``.

    Attributes:
        held: The identities of the arrays to which the waiting calls refer.
        program: Computes all of them.
    """

    def __init__(
        self,
        segment: Segment,
        point: Point,
        program: Program,
        kept: set[int],
        match: Callable[..., list[Leaf] | None],
    ) -> None:
        self.segment = segment
        self.point = point
        self.kept = kept
        self.match = match
        self.held: set[int] = {*map(id, segment.outside)}
        self._program = program
        self.program: Function = program.function

    def arguments(self, given: Args) -> Args:
        """The arguments of the program, for those of the call.

        Raises:
            OtherStepError: It is another call.
        """
        segment = self.segment
        is_next = segment.point is self.point.before and not segment.is_done
        fresh = self.match(segment, self.point, given) if is_next else None
        if fresh is None:
            raise OtherStepError
        outside, first = [*segment.outside, *fresh], len(segment.outside)
        if any(i >= first and id(outside[i]) in self.held for i in self._program.donated):
            # The program was made for a copy, and would overwrite an array that it also reads.
            raise OtherStepError
        return self._program.arguments(outside)

    def write(self, results: Args) -> Tree:
        """The results of the call, after those of the calls that waited are written."""
        places = self._program.places
        self.segment.fill({i: results[places[i]] for i in self.kept})
        return self.point.structure.unflatten(results[: len(self.point.results)])
