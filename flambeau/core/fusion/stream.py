"""The calls of one thread: watched, recorded once they repeat, and then followed."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable

import jax

from flambeau.core.fusion.closing import Closing
from flambeau.core.fusion.matching import fresh as fresh_of
from flambeau.core.fusion.matching import matched
from flambeau.core.fusion.recording import Recorder, step_of
from flambeau.core.fusion.report import Loop
from flambeau.core.fusion.segment import Segment
from flambeau.core.fusion.sequence import Fusible, Point
from flambeau.core.programs import gears
from flambeau.core.programs.deferred import Deferred, computed
from flambeau.core.programs.gears import settings
from flambeau.core.programs.jit_core import is_outside
from flambeau.core.support.modes import modes
from flambeau.core.support.statistics import statistics
from flambeau.core.support.tracebacks import user_line
from flambeau.core.types import Args, Leaf, Tree

# A sequence of more calls than these is divided.
LONGEST = 4096

# Backward passes beyond these are boundaries: the loop reads no value, and its optimizer is no
# program.
_MOST_BACKWARDS = 2

# How many sequences are counted, the least recently seen first out.
_MOST_SEEN = 256

# How often each of the known sequences may come, on average, until one that repeats and does not
# come back as it was recorded is given up.
_MOST_RECORDINGS = 16

# All sequences are forgotten when they have more calls than these.
_MOST_POINTS = 2**15

# How many sequences begin with one function at most.
_MOST_BEGINNINGS = 32

# A beginning is given up when this many times more of its sequences ended early than ran as one
# program, of the repetitions that make a program.
_PATIENCE = 2
_LEAST = 16


class _Seen:
    """A sequence of functions that has come between two boundaries, for arrays of any shapes.

    Attributes:
        count: How often, since it was found or since the last program for it is used.
        after: After how many it is recorded again, if none of its recordings has come back.
        recordings: How often it was recorded until one came back.
        ends: Its ends when it was recorded.
        point: One of them, once it was recorded twice in the same way.
        outside: `Recorder.outside` then, until it is compiled.
    """

    __slots__ = ("after", "count", "ends", "outside", "point", "recordings")

    def __init__(self) -> None:
        self.after = 0
        self.count = 0
        self.recordings = 0
        self.ends: set[Point] = set()
        self.point: Point | None = None
        self.outside: list[Leaf] | None = None

    def repetitions(self) -> int:
        """After how many repetitions there is a program for `point`.

        Where other shapes come between, it takes longer: of n that are equally frequent one comes
        back after about the root of 1.6 n.
        """
        assert self.point is not None
        return int(self.point.repetitions * (self.recordings / 2) ** 2)

    def postpone(self) -> None:
        """Record it later, since none of its recordings has come back."""
        self.after = 4 * self.count
        self.recordings = 0
        self.ends.clear()


class Stream:
    """The calls of a thread.

    Attributes:
        take: Handles the next call; ``None`` while calls run at once and are only noted.
        note: Notes a call.
    """

    def __init__(self) -> None:
        self.calls: deque[Fusible] = deque(maxlen=LONGEST)
        self.note: Callable[[Fusible], None] = self.calls.append
        self.take: Callable[[Fusible, Args], Tree] | None = None
        self.segment: Segment | None = None
        self._recorder: Recorder | None = None
        self._has_followed = False
        self._backwards = 0
        self._forget_all()

    def _forget_all(self) -> None:
        """Know no sequences any more, or for the first time."""
        #: The sequences that have programs.
        self.loops: list[Loop] = []
        self._points = 0
        self._root = Point(None, None, (), None)
        self._seen: OrderedDict[tuple[Fusible, ...], _Seen] = OrderedDict()
        # Sequences that are to be recorded, and for how many more sequences.
        self._wanted: set[tuple[Fusible, ...]] = set()
        self._recordings = 0
        # The functions that known sequences with programs begin with.
        self._beginnings: dict[Fusible, list[Point]] = {}
        # Functions after which an operator reads a value that many calls lead to.
        self._read_after: set[Fusible] = set()

    # Boundaries

    def end(self, segment: Segment | None = None) -> None:
        """A boundary: compute what waits, and decide how the next calls are taken.

        Args:
            segment: The one that asks for it, if any; one that has been left is finished by itself.
        """
        current = self.segment
        if segment is not None and segment is not current:
            return
        self._backwards = 0
        self.segment = None
        self.take = self._idle if self._has_followed else None
        if current is not None:
            self._finish(current)
        elif self.calls and settings.is_fused():
            self._count()
        self.calls.clear()
        self.take = self._first()

    def backward_ended(self) -> None:
        """Count a backward pass, which is a boundary after `_MOST_BACKWARDS` without another."""
        count = self._backwards + 1
        if count > _MOST_BACKWARDS:
            self.end()
        self._backwards = count

    def seen(self, array: Leaf) -> Leaf:
        """``array`` with its elements, for an operator that reads them before it runs.

        The other calls go on waiting if few calls lead to it. Otherwise it is a boundary, from now
        on also while calls run at once.
        """
        if type(array) is not Deferred:
            if not self.calls:
                return array
            recorder = self._recorder if self.take == self._record else None
            if recorder is not None and recorder.is_far(array):
                self._read_after.add(self.calls[-1])
            if self.calls[-1] in self._read_after:
                self.end()
            return array
        segment = array.segment
        if segment is None:
            return array.value
        value = segment.alone(array)
        if value is None and segment is self.segment and segment.point.program is None:
            # Nothing that goes on after this call can run as one program.
            self._forget(segment.point.path()[0])
            self._read_after.add(segment.point.step.call)
        return array.computed() if value is None else value

    def _first(self) -> Callable[[Fusible, Args], Tree] | None:
        if settings.is_fused() and (self._beginnings or self._wanted):
            return self._begin
        return self._idle if self._has_followed else None

    def _count(self) -> None:
        """One more of the sequence that has just ended, whose calls have run at once."""
        recorder, self._recorder = self._recorder, None
        key = tuple(self.calls)
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = _Seen()
            if len(self._seen) > _MOST_SEEN:
                self._wanted.discard(self._seen.popitem(last=False)[0])
        else:
            self._seen.move_to_end(key)
        seen.count += 1
        if seen.point is None and seen.count >= max(settings.recorded, seen.after):
            self._want(key)
        if recorder is not None:
            self._recorded(recorder, key, seen)
        point = seen.point
        if point is None:
            return
        repetitions = seen.repetitions()
        if seen.outside is not None and seen.count >= settings.compiled(repetitions):
            point.prepare((), seen.outside, beside=True)
            seen.outside = None
        if seen.count >= repetitions:
            self._use(point)
            # What comes from now on has other shapes.
            self._seen[key] = _Seen()

    def _want(self, key: tuple[Fusible, ...]) -> None:
        """Record a sequence when it comes again."""
        if key not in self._wanted and len(key) > 1:
            self._wanted.add(key)
            self._recordings = _MOST_RECORDINGS * len(self._seen)

    def _recorded(self, recorder: Recorder, key: tuple[Fusible, ...], seen: _Seen) -> None:
        """A sequence has been recorded up to a boundary."""
        point = recorder.point
        if key in self._wanted and point.step is not None:
            kept = recorder.kept()
            seen.recordings += 1
            if point in seen.ends:
                self._wanted.discard(key)
                seen.point, point.key = point, key
                seen.outside = recorder.outside
            seen.ends.add(point)
            point.kept |= kept
        self._recordings -= 1
        if not self._recordings:
            for each in self._wanted:
                self._seen[each].postpone()
            self._wanted.clear()
        self._points += recorder.found
        if self._points > _MOST_POINTS:
            self._forget_all()

    def _use(self, point: Point) -> None:
        """From now on, follow the sequence that ends at ``point``."""
        first = point.path()[0]
        found = self._beginnings.setdefault(first.step.call, [])
        if not _is_given_up(first) and first not in found and len(found) < _MOST_BEGINNINGS:
            found.append(first)

    # Calls that run at once

    def _idle(self, call: Fusible, arguments: Args) -> Tree:
        """Run a call at once, where arguments may have waited."""
        self.calls.append(call)
        for each in arguments:
            if type(each) in _WAITING:
                return call.fast(*jax.tree.map(computed, arguments))
        return call.fast(*arguments)

    def _record(self, call: Fusible, arguments: Args) -> Tree:
        """Run a call at once, and add it to the sequence."""
        self.calls.append(call)
        recorder = self._recorder
        assert recorder is not None
        arguments = jax.tree.map(computed, arguments)
        found = step_of(recorder, call, arguments)
        # Stop recording unless the call succeeds.
        self.take = self._idle
        results = call.fast(*arguments)
        if found is not None and len(self.calls) < LONGEST and recorder is self._recorder:
            step, fresh = found
            if recorder.add(step, fresh, results):
                self.take = self._record
        return results

    # The last call

    def closing(self, call: Fusible) -> Closing | Recorder | None:
        """How the call of a function that overwrites arrays ends the sequence.

        ``None`` if it is a call by itself; whatever has waited is computed then.
        """
        segment = self.segment
        if segment is None:
            recorder = self._recorder if self.take == self._record else None
            if recorder is None:
                return None
            # Writes of its results through views come after it.
            self.take = self._idle
            return recorder.closing(call)
        for point in segment.point.after:
            if point.step.call is call:
                kept = segment.kept()
                program = point.program_for(kept)
                if program is not None:
                    return Closing(segment, point, program, kept, fresh_of)
                point.kept = point.kept.union(kept)
                self._missed(point)
        self.end()
        return None

    def leave(self, closing: Closing | Recorder | None) -> None:
        """The call of `closing` is another one than the sequence ends with."""
        if type(closing) is Closing:
            self._missed(closing.point)
        self.end()

    def _missed(self, point: Point) -> None:
        """Count a last call that has come without a program; after some, record it again."""
        point.misses += 1
        if point.is_missed() and point.key is not None:
            # Its program is made from another recording.
            self._forget(point.path()[0])
            again = self._seen[point.key] = _Seen()
            again.count = point.repetitions
            self._want(point.key)

    def close(self, call: Fusible, closing: Closing | Recorder | None) -> None:
        """The call of `closing` has run."""
        if type(closing) is Closing:
            self.segment = None
            closing.segment.forget()
            self._note_end(closing.point, is_one=True)
        elif self.segment is None:
            self.note(call)
        self.end()

    # Calls that wait

    def _begin(self, call: Fusible, arguments: Args) -> Tree:
        """The first call after a boundary: follow a known sequence, if one begins so."""
        is_within = modes.trace is not None or modes.inside is not None or not is_outside()
        if is_within or not settings.is_fused():
            self.take = self._idle
            return self._idle(call, arguments)
        beginnings = self._beginnings.get(call)
        if beginnings:
            segment = Segment(self._root, self.end)
            for point in beginnings:
                results = matched(segment, point, arguments)
                if results is not None:
                    self.segment, self.take = segment, self._follow
                    self._has_followed = True
                    return results
        if self._wanted:
            self._recorder = Recorder(self._root)
            self.take = self._record
        else:
            self.take = self._idle
        return self.take(call, arguments)

    def _follow(self, call: Fusible, arguments: Args) -> Tree:
        """Defer a call that is the next one of a known sequence; any other ends the sequence."""
        segment = self.segment
        assert segment is not None
        for point in segment.point.after:
            if point.step.call is call:
                results = matched(segment, point, arguments)
                if results is not None:
                    return results
        self.end()
        take = self.take
        return call.fast(*arguments) if take is None else take(call, arguments)

    def _forget(self, first: Point) -> None:
        """Follow no sequence any more that begins at ``first``."""
        found = self._beginnings.get(first.step.call, [])
        if first in found:
            found.remove(first)

    def _finish(self, segment: Segment) -> None:
        if segment.is_done:
            return
        point = segment.point
        is_one = segment.finish(compiles=True)
        self._note_end(point, is_one)
        first = point.path()[0]
        if _is_given_up(first):
            self._forget(first)

    def _note_end(self, point: Point, is_one: bool) -> None:
        """Count a sequence that has ended at ``point``, computed by one program or not."""
        first = point.path()[0]
        if is_one:
            statistics.fused += 1
            first.uses += 1
            if point.loop is None:
                point.loop = Loop(len(point.path()), first.line, user_line())
                self.loops.append(point.loop)
            point.loop.runs += 1
            return
        statistics.left += 1
        first.uses -= 1
        while point.loop is None and point.after:
            point = point.after[0]
        if point.loop is not None:
            point.loop.left[user_line()] += 1


def _is_given_up(first: Point) -> bool:
    """Whether the sequences that begin at ``first`` have ended early too often."""
    return first.uses < -_PATIENCE * max(_LEAST, first.repetitions)


# Types of arguments that are, or may hold, arrays that have waited.
_WAITING = {Deferred, list, tuple, dict, jax.tree_util.Partial}


class _Here(threading.local):
    def __init__(self) -> None:
        self.stream = Stream()


here: _Here = _Here()


def boundary() -> None:
    """Compute what waits on this thread: its values are needed, or its inputs will change."""
    stream = here.stream
    if stream.take is not None or stream.calls:
        stream.end()


def seen(array: Leaf) -> Leaf:
    """See `Stream.seen`."""
    return here.stream.seen(array)


gears.finish = boundary
