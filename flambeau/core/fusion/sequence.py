"""The known sequences of calls, as a tree by their beginnings, and the programs at their ends."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax.core import ShapedArray
from jax.sharding import Sharding

from flambeau.core.fusion.report import Loop
from flambeau.core.programs import ending
from flambeau.core.programs.absent import without_elements
from flambeau.core.programs.compiled import compiled, prepare
from flambeau.core.programs.cutting import evaluated
from flambeau.core.programs.deferred import Deferred
from flambeau.core.programs.gears import settings
from flambeau.core.types import Args, Function, Key, Leaf, PyTreeDef, Tree

#: An argument from outside, as a step requires it: an aval, a type, or the facts of a NumPy array.
Form: TypeAlias = Any
#: The device of an array and whether it is committed; ``None`` for a number.
Placement: TypeAlias = tuple[Sharding, bool] | None
# The function of each call, the origins of its arrays and numbers, and their structure.
_Steps: TypeAlias = Sequence[tuple[Function, tuple[int, ...], PyTreeDef]]

# A sequence is compiled again this often, for other results that are kept.
_MOST_PROGRAMS = 4

# Run at most this many calls twice, for a value that an operator reads before it runs.
_FEW = 4


class Fusible:
    """A function whose calls may become a part of a sequence.

    Args:
        function: A pure function of arrays, numbers and containers of them.
        fast: The same as programs of XLA, one for each signature.
        donate: The positions of arguments whose arrays ``fast`` may overwrite. A call of such a
            function is the last one of its sequence.
    """

    __slots__ = ("donate", "fast", "function")

    def __init__(self, function: Function, fast: Function, donate: tuple[int, ...] = ()) -> None:
        self.function: Function = function
        self.fast: Function = fast
        self.donate: tuple[int, ...] = donate


class Result(NamedTuple):
    """A result of a call.

    Attributes:
        aval: The shape and dtype.
        sharding: The device.
        committed: Whether the array was put there on purpose.
    """

    aval: ShapedArray
    sharding: Sharding
    committed: bool

    def array(self) -> jax.Array:
        """An array like it, without elements."""
        aval, sharding = self.aval, self.sharding
        kind = jax.ShapeDtypeStruct(
            aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type
        )
        return without_elements(kind, self.committed)


class Step(NamedTuple):
    """A call of a sequence.

    Attributes:
        call: The function.
        sources: For each array or number among the arguments its origin: the number of a result of
            the sequence, or ``~place`` among the arguments from outside.
        forms: For each of them what it has to be if it comes from outside for the first time: the
            aval of an array, the type of a number, type, shape and dtype of a NumPy array.
            ``None`` for the others.
        placements: For each array from outside its device and whether it is committed.
        tree: The structure of the arguments; ``None`` if none of them is a container.
    """

    call: Fusible
    sources: tuple[int, ...]
    forms: tuple[Form, ...]
    placements: tuple[Placement, ...]
    tree: PyTreeDef


class Point:
    """A place in a sequence, after a call; the root is before the first one.

    Attributes:
        step: The last call; ``None`` at the root.
        before: The point before it.
        after: The points that may come next, the most recently found first.
        results: The results of the call.
        structure: The structure of the results; ``None`` for one array, ``tuple`` for a tuple of
            arrays.
        count: How many results the sequence has so far.
        calls: How many calls.
        size: The bytes of the results.
        outside: How many arguments from outside it has so far.
        misses: How often a sequence has ended here without a program.
        key: The functions of the sequence, where it has been recorded up to here.
        uses: At the first call: how many more sequences have run as one program than have not.
        line: The user's line of the call.
        loop: What is told of the sequence up to here, once it has a program.
        kept: The results that were still referred to where sequences ended here.
        program: Computes these results, once there is one.
    """

    __slots__ = (
        "after", "before", "calls", "count", "kept", "key", "line", "loop", "misses", "outside",
        "program", "programs", "results", "size", "step", "structure", "uses",
    )  # fmt: skip

    def __init__(
        self,
        before: Point | None,
        step: Step | None,
        results: Sequence[Result],
        structure: PyTreeDef,
    ) -> None:
        self.before: Point | None = before
        self.step: Any = step
        self.after: list[Point] = []
        self.results: Sequence[Result] = results
        self.structure: PyTreeDef = structure
        self.count: int = len(results) + (before.count if before is not None else 0)
        self.calls: int = 0 if before is None else before.calls + 1
        size = sum(each.aval.size * each.aval.dtype.itemsize for each in results)
        self.size: int = size + (before.size if before is not None else 0)
        fresh = 0 if step is None else sum(each is not None for each in step.forms)
        self.outside: int = fresh + (before.outside if before is not None else 0)
        self.key: Key | None = None
        self.line: str = ""
        self.loop: Loop | None = None
        self.misses: int = 0
        self.uses: int = 0
        self.kept: frozenset[int] = frozenset()
        self.program: Program | None = None
        self.programs: int = 0

    @property
    def repetitions(self) -> int:
        """After how many repetitions the sequence up to here runs as one program."""
        return settings.repetitions(self.calls, self.count, self.size)

    def is_missed(self) -> bool:
        """Whether a program is to be compiled, since sequences have ended here without one."""
        return 2 * self.misses >= self.repetitions

    def path(self) -> list[Point]:
        """The points from the first call to here."""
        found: list[Point] = []
        point: Point | None = self
        while point is not None and point.step is not None:
            found.append(point)
            point = point.before
        return found[::-1]

    def own(self) -> range:
        """The numbers of the results of the last call."""
        return range(self.count - len(self.results), self.count)

    def leading_to(self, kept: Iterable[int]) -> list[Point]:
        """Those of the calls from which the results ``kept`` follow, in their order."""
        wanted = set(kept)
        found: list[Point] = []
        point = self
        while wanted:
            own = wanted.intersection(point.own())
            if own:
                found.append(point)
                wanted.difference_update(own)
                wanted.update([each for each in point.step.sources if each >= 0])
            assert point.before is not None
            point = point.before
        return found[::-1]

    def is_far(self, index: int) -> bool:
        """Whether too many calls lead to a result for them to run twice."""
        return len(self.leading_to([index])) > _FEW

    def prepare(self, kept: Iterable[int], outside: list[Leaf], beside: bool) -> None:
        """Begin to compile the program of the sequence up to here.

        Args:
            kept: The results that it has to compute; those of former programs are added.
            outside: Arguments from outside, for their shapes and placement; a `Result` stands for
                an array.
            beside: Compile on a thread of its own.
        """
        if self.programs == _MOST_PROGRAMS:
            return
        self.programs += 1
        self.kept = self.kept.union(kept)
        self.misses = 0
        arrays = [each.array() if type(each) is Result else each for each in outside]
        self.program = Program(self, arrays, beside)

    def program_for(self, kept: set[int]) -> Program | None:
        """The program, if it computes at least the results ``kept``."""
        program = self.program
        if program is None or not kept <= program.places.keys():
            return None
        return program if program.is_ready() else None


class Program:
    """One program for a sequence of calls.

    Args:
        point: The end of the sequence.
        outside: Arguments from outside, for their shapes and placement.
        beside: Compile on a thread of its own; `is_ready` waits for it.

    Attributes:
        places: For each result its place among the program's.
        donated: The positions among the arguments from outside that it may overwrite.
    """

    def __init__(self, point: Point, outside: list[Leaf], beside: bool) -> None:
        path = point.path()
        steps = tuple([(p.step.call.function, p.step.sources, p.step.tree) for p in path])
        # An overwritten array's memory goes to the first result of its shape.
        first = [*point.own()] if point.step.call.donate else []
        outputs = (*first, *sorted(point.kept.difference(first)))
        self.places: dict[int, int] = {index: place for place, index in enumerate(outputs)}
        self.donated: tuple[int, ...] = _donated(point.step)
        results = [each for p in path for each in p.results]
        # JAX takes longer to pass a number than to compute with it, so they are passed together.
        kinds = () if any(results[i].aval.weak_type for i in outputs) else _TOGETHER
        found = {kind: [i for i, e in enumerate(outside) if type(e) is kind] for kind in kinds}
        self._numbers = {kind: tuple(places) for kind, places in found.items() if places}
        known = {*self.donated}.union(*self._numbers.values())
        self._others = tuple([i for i in range(len(outside)) if i not in known])
        places = (self.donated, self._others, *self._numbers.values())
        self.function: Function = compiled(
            functools.partial(_computed, steps, outputs, places), "fused", donate=(0,), at_once=True
        )
        self._has_failed = False
        # For which arguments compiling was given up.
        self._left: Args | None = None
        self._thread: threading.Thread | None = None
        arguments = self.arguments(outside)
        if beside:
            self._thread = ending.thread_for(self._prepare, "flambeau-fusing", arguments)
        else:
            self._prepare(arguments)

    def _prepare(self, arguments: Args) -> None:
        try:
            prepare(self.function, arguments)
        except ending.EndedError:
            self._left = arguments
        except Exception:  # noqa: BLE001 - there may be too little memory to compile it.
            self._has_failed = True

    def arguments(self, outside: list[Leaf]) -> Args:
        """The arguments of `function`."""
        return (
            [outside[i] for i in self.donated],
            [outside[i] for i in self._others],
            *[
                np.array([outside[i] for i in places], _TOGETHER[kind])
                for kind, places in self._numbers.items()
            ],
        )

    def is_ready(self) -> bool:
        """Whether `function` is compiled, after waiting for that; it may have failed."""
        thread = self._thread
        if thread is not None:
            # Which call uses the program is a matter of counts, not of how far the thread is.
            thread.join()
            self._thread = None
            left, self._left = self._left, None
            if left is not None:
                # The main thread has ended, and this one has not.
                self._prepare(left)
        return not self._has_failed


def _donated(step: Step) -> tuple[int, ...]:
    """The arguments from outside that a step may overwrite."""
    if not step.call.donate or step.tree is None:
        return ()
    arguments = step.tree.unflatten(step.sources)
    sources = jax.tree.leaves([arguments[i] for i in step.call.donate])
    return tuple([~each for each in sources if each < 0])


# The types of numbers that are passed together, and those of the arrays that hold them.
_TOGETHER = {float: np.float64, int: np.int64}


def _computed(
    steps: _Steps,
    outputs: Sequence[int],
    places: Sequence[Sequence[int]],
    donated: Sequence[Leaf],
    others: Sequence[Leaf],
    *packed: Leaf,
) -> tuple[Leaf, ...]:
    """The results ``outputs`` of a sequence of calls.

    Args:
        steps: The calls.
        outputs: The numbers of the results.
        places: For each of the other arguments the places of its members among those from outside.
        donated: Arrays that may be overwritten.
        others: Other arrays and numbers.
        packed: Numbers, an array for those of each type.
    """
    known = dict(zip((*places[0], *places[1]), (*donated, *others), strict=True))
    numbers = [each for array in packed for each in array]
    names = [i for group in places[2:] for i in group]

    def compute(*numbers: Leaf) -> tuple[Leaf, ...]:
        return _in_turn(steps, outputs, known | dict(zip(names, numbers, strict=True)))

    # They are computed with as if each had been passed by itself.
    avals = [jax.ShapeDtypeStruct((), each.dtype, weak_type=True) for each in numbers]
    jaxpr = jax.make_jaxpr(compute)(*avals)
    return tuple(evaluated(jaxpr.jaxpr, jaxpr.consts, *numbers))


def _in_turn(steps: _Steps, outputs: Sequence[int], outside: dict[int, Leaf]) -> tuple[Leaf, ...]:
    values: list[Leaf] = []
    for function, sources, tree in steps:
        ending.check()
        given = [values[each] if each >= 0 else outside[~each] for each in sources]
        arguments = given if tree is None else tree.unflatten(given)
        values.extend(jax.tree.leaves(function(*arguments)))
    return tuple([values[each] for each in outputs])


def leaves_of(results: Tree) -> tuple[list[Leaf], PyTreeDef]:
    """The arrays of a call's results, and their structure as in `Point.structure`."""
    if isinstance(results, jax.Array):
        return [results], None
    if type(results) is tuple and all(isinstance(each, jax.Array) for each in results):
        return [*results], tuple
    return jax.tree.flatten(results)


def structured(structure: PyTreeDef, arrays: list[Deferred]) -> Tree:
    """The results of a call of these arrays."""
    if structure is None:
        return arrays[0]
    if structure is tuple:
        return tuple(arrays)
    return structure.unflatten(arrays)
